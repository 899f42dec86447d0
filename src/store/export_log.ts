/**
 * Writes the log as one file (src/proof/export_file.ts), from one snapshot: what an auditor checks without a database. Nothing
 * is checked here; a damaged log gives a file in which verify finds the damage.
 */
import { open, rm } from 'node:fs/promises';
import type { Db } from '../db.ts';
import { ENTRY_COLUMNS } from '../proof/entry.ts';
import { ExportWriter, gapBody } from '../proof/export_file.ts';
import { HASH_BYTES } from '../proof/merkle.ts';
import { noteText, type VerifierKey } from '../proof/note.ts';
import { VERIFY_LOCK } from './beside_verify.ts';
import { placeOf, placeText } from './entry_check.ts';
import { EntryPages } from './entry_pages.ts';
import { Problems } from './problems.ts';
import {
  type Gap,
  readGaps,
  readSealed,
  type StoredNote,
  sealedSize,
  storedNotes,
} from './stored_tree.ts';
import { sessionSettings } from './verify_session.ts';

export type Exported = {
  readonly entries: number;
  readonly bytes: number;
  readonly sha256: string;
};

/** `first`: the witnesses whose cosignatures come first, because a note has room for some only. */
export async function exportLog(
  db: Db,
  path: string,
  first: readonly VerifierKey[] = [],
): Promise<Exported> {
  const file = await open(path, 'wx', 0o600);
  let whole = false;
  try {
    const writer = new ExportWriter(async (bytes) => {
      await file.appendFile(bytes);
    });
    const settings = await sessionSettings(db);
    const entries = (await db.begin('isolation level repeatable read read only', async (tx) => {
      await tx.unsafe(settings).simple();
      await tx.unsafe(VERIFY_LOCK).simple();
      return new LogExport(tx as unknown as Db, writer, first).write();
    })) as number;
    const sha256 = await writer.end();
    whole = true;
    return { entries, bytes: writer.bytes, sha256 };
  } finally {
    await file.close();
    // Half of one proves nothing, and is in the way of the next.
    if (!whole) await rm(path);
  }
}

class LogExport {
  readonly #db: Db;
  readonly #writer: ExportWriter;
  readonly #notes: AsyncGenerator<StoredNote>;
  #next: StoredNote | null | undefined;
  #gaps: Gap[] = [];
  /** The index of the gap that comes next, or of which a part was written. */
  #gap = 0;
  #size = 0;
  #leaf = 0;
  #entries = 0;

  constructor(db: Db, writer: ExportWriter, first: readonly VerifierKey[]) {
    this.#db = db;
    this.#writer = writer;
    this.#notes = storedNotes(db, { first }, new Problems());
  }

  async write(): Promise<number> {
    this.#size = await sealedSize(this.#db, new Problems());
    this.#gaps = await readGaps(this.#db, this.#size, new Problems());
    const pages = new EntryPages(this.#db);
    let where = '';
    for (;;) {
      const page = await pages.next(
        `select ${ENTRY_COLUMNS} from runledger.events ${where} order by generation, xid, seq`,
      );
      for (const entry of page) {
        await this.#pass();
        await this.#writer.put('entry', entry);
        this.#leaf++;
        this.#entries++;
      }
      if (page.length === 0) break;
      where = `where (generation, xid, seq) > (${placeText(placeOf(page.at(-1)!))})`;
    }
    await this.#pass();
    // Checkpoints over more than there is: verify finds that they are not met.
    while (await this.#peek()) await this.#putNote();
    return this.#entries;
  }

  /** Checkpoints that end here, and gaps that begin here. */
  async #pass(): Promise<void> {
    for (;;) {
      const note = await this.#peek();
      if (note && note.size <= this.#leaf) await this.#putNote();
      else {
        const gap = this.#gaps[this.#gap];
        if (gap?.first !== this.#leaf) return;
        await this.#putGap(gap);
      }
    }
  }

  async #peek(): Promise<StoredNote | null> {
    if (this.#next === undefined) {
      const { done, value } = await this.#notes.next();
      this.#next = done ? null : value;
    }
    return this.#next ?? null;
  }

  async #putNote(): Promise<void> {
    const note = this.#next!;
    this.#next = undefined;
    await this.#writer.put('checkpoint', Buffer.from(noteText(note.note)));
    if (note.size !== this.#size) return;
    const [sketch] = await this.#db<{ cells: Buffer; signature: Buffer }[]>`
      select cells, signature from runledger.log_sketch where size = ${note.size}`;
    if (sketch) await this.#writer.put('sketch', sketch.signature, sketch.cells);
  }

  async #putGap(gap: Gap): Promise<void> {
    const block = await readSealed(this.#db, gap.first, this.#size, new Problems());
    const note = await this.#peek();
    const to = Math.min(gap.first + gap.count, block.to, note?.size ?? Number.POSITIVE_INFINITY);
    const count = to - gap.first;
    const from = (gap.first - block.from) * HASH_BYTES;
    const hashes = block.hashes.subarray(from, from + count * HASH_BYTES);
    await this.#writer.put('gap', ...gapBody(gap.partition, hashes));
    this.#leaf += count;
    if (count === gap.count) this.#gap += 1;
    else this.#gaps[this.#gap] = { ...gap, first: gap.first + count, count: gap.count - count };
  }
}
