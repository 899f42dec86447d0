/** Retention: removes users' bytes after a while, and whole months of the log after a longer one. */
import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { Db } from '../db.ts';
import { leafOf } from '../domain/seal_chain.ts';
import { addItems, emptySketch, itemBytes } from '../domain/sketch.ts';
import { ENTRY_COLUMNS, parseEntry } from '../proof/entry.ts';
import { HASH_BYTES, leafHash } from '../proof/merkle.ts';
import { DamagedTree, TILE_WIDTH } from '../proof/tiles.ts';
import { waitForVerify } from './beside_verify.ts';
import { readEntries } from './entries.ts';
import { type Place, placeOf, readTiles } from './tree.ts';
import { isOfMonth, monthOf } from './uuid_months.ts';

/** Removes what users sent and received, of submissions that ended before the time. The log stays complete. */
export async function purgePayloads(
  db: Db,
  ended_before: Date,
  operator?: string,
): Promise<number> {
  let submissions = 0;
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const [row] = await db<{ submissions: number; last_id: string }[]>`
      select * from runledger.purge_payloads(${ended_before}, ${after}, operator => ${operator ?? null})`;
    if (row!.submissions === 0) return submissions;
    submissions += row!.submissions;
    after = row!.last_id;
  }
}

/** Deletes the test sets that no submission has used since the time; returns how many. */
export async function purgeTestSets(
  db: Db,
  unused_since: Date,
  operator?: string,
): Promise<number> {
  for (let purged = 0; ; purged++) {
    const [row] = await db<{ found: boolean }[]>`
      select runledger.purge_test_set(${unused_since}, operator => ${operator ?? null}) as found`;
    if (!row!.found) return purged;
  }
}

/** Why the month (YYYY_MM) cannot be detached; null if it can. */
export async function whyNotDetach(db: Db, month: string): Promise<string | null> {
  const [row] = await db<{ reason: string | null }[]>`
    select runledger.why_not_detach(${month}) as reason`;
  return row!.reason;
}

/** Moves a month's partitions to the schema runledger_detached; returns how many events they hold. */
export async function detachMonth(
  db: Db,
  month: string,
  operator?: string,
  say: (line: string) => void = () => {},
): Promise<number> {
  const [sketch, leaves_sketch] = [emptySketch(), emptySketch()];
  const leaves = createHash('sha256');
  const runs = new Runs(db);
  let events = 0;
  const partition = `events_${month}`;
  const bounds = monthOf(partition);
  const pages = readEntries(
    db,
    `select ${ENTRY_COLUMNS} from runledger.${partition} order by generation, xid, seq`,
  );
  for await (const entries of pages) {
    for (const entry of entries) {
      const event = parseEntry(entry);
      if (bounds && !isOfMonth(event.stream, bounds)) throw foreign(event.stream, month);
      const leaf = leafHash(entry);
      await runs.add(leaf, entry);
      leaves.update(leaf);
      addItems(leaves_sketch, itemBytes(event.stream, event.version, leaf));
      addItems(sketch, itemBytes(event.stream, event.version, leafOf(event)));
    }
    events += entries.length;
  }
  const facts = {
    events,
    sketch: sketch.toString('base64'),
    leaves_sketch: leaves_sketch.toString('base64'),
    leaves_sha256: leaves.digest('hex'),
    ...(operator !== undefined && { operator }),
  };
  await withRetries(async () => {
    await waitForVerify(db, say);
    await db`
      select runledger.detach_month(${month}, ${JSON.stringify(facts)}::text::jsonb,
        ${`{${runs.firsts}}`}::text::bigint[], ${`{${runs.counts}}`}::text::bigint[])`;
  });
  return events;
}

/** How many tiles are read at once. */
const TILES_AHEAD = 64;

/** Finds the indexes of leaves that come in feed order, by going through the tiles in the same order. */
class Runs {
  readonly firsts: number[] = [];
  readonly counts: number[] = [];
  readonly #db: Db;
  #hashes: Buffer = Buffer.alloc(0);
  /** The index of the first of #hashes, and of the one to look at next. */
  #from = 0;
  #next = 0;

  constructor(db: Db) {
    this.#db = db;
  }

  async add(leaf: Buffer, entry: Buffer): Promise<void> {
    if (this.firsts.length === 0) await this.#begin(placeOf(entry));
    const index = await this.#indexOf(leaf);
    const end = (this.firsts.at(-1) ?? 0) + (this.counts.at(-1) ?? -1);
    if (index === end) this.counts[this.counts.length - 1]!++;
    else {
      this.firsts.push(index);
      this.counts.push(1);
    }
  }

  async #begin({ generation, xid, seq }: Place): Promise<void> {
    const [row] = await this.#db<{ index: string }[]>`
      select index from runledger.leaf_tile(${generation}::smallint, ${xid}::text::xid8, ${seq}::text::bigint)`;
    this.#from = Number(row?.index ?? 0) * TILE_WIDTH;
    this.#next = this.#from;
  }

  async #indexOf(leaf: Buffer): Promise<number> {
    for (;;) {
      for (
        let at = (this.#next - this.#from) * HASH_BYTES;
        at < this.#hashes.length;
        at += HASH_BYTES
      ) {
        const index = this.#next++;
        if (leaf.equals(this.#hashes.subarray(at, at + HASH_BYTES))) return index;
      }
      await this.#readAhead();
    }
  }

  async #readAhead(): Promise<void> {
    const first = this.#next / TILE_WIDTH;
    if (!Number.isInteger(first)) throw unsealed();
    const names = Array.from({ length: TILES_AHEAD }, (_, n) => ({ level: 0, index: first + n }));
    const tiles = (await readTiles(this.#db, names)).toSorted((a, b) => a.index - b.index);
    if (tiles[0]?.index !== first) throw unsealed();
    this.#from = this.#next;
    this.#hashes = Buffer.concat(tiles.map(({ hashes }) => hashes));
  }
}

/** An auditor who allows the removal of a month would allow that of these events, too. */
const foreign = (stream: string, month: string) =>
  new DamagedTree(
    `${stream} is in the partition of ${month}, and not of that month: run ./runledger verify`,
  );

const unsealed = () =>
  new DamagedTree(
    'an event of that month is not in the tree as the log has it: run ./runledger verify',
  );

const ATTEMPTS = 60;

/** The work requests its locks with a short time limit, so that no submission waits for it. */
async function withRetries(work: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await work();
      return;
    } catch (error) {
      // lock_not_available, deadlock_detected
      const busy = /^(55P03|40P01)$/.test(String((error as { code?: unknown }).code));
      if (!busy || attempt === ATTEMPTS) throw error;
      await wait(250 * (0.5 + Math.random()));
    }
  }
}
