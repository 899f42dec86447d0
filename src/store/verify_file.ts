/**
 * Checks an exported log without a database: every leaf, every checkpoint, the sketch, the facts of every event, the versions
 * of every stream, and what retention claims. Users' bytes and derived tables are not in the file.
 */
import { isUtf8 } from 'node:buffer';
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { dateOrNull, isAfter, timeOf, timeText } from '../domain/clocks.ts';
import type { Removals } from '../domain/removals.ts';
import { NO_REMOVALS } from '../domain/removals.ts';
import { CompactTree } from '../proof/compact_tree.ts';
import {
  BadExport,
  type ExportRecord,
  parseGap,
  parseSketch,
  readExport,
} from '../proof/export_file.ts';
import { HASH_BYTES, type HashText, textOf } from '../proof/merkle.ts';
import { ComputedSketch } from './computed_sketch.ts';
import { EntryCheck, uuidText } from './entry_check.ts';
import { Problems } from './problems.ts';
import {
  judge,
  judgeSketch,
  type Kept,
  type Proven,
  readNote,
  type SignedNote,
  type Trust,
  UnacceptedTimes,
} from './signed_notes.ts';
import { canBeDetached, partitionOf, usOfMonth } from './uuid_months.ts';
import { absentLogs, repairLines, unacceptedLines, type Verification } from './verify.ts';
import { checkRemovals, checkRepairs, type DetachedMonth } from './verify_removals.ts';
import { VersionTable } from './version_table.ts';

export type FileVerification = Pick<
  Verification,
  | 'well'
  | 'proven'
  | 'unproven'
  | 'unaccepted'
  | 'events'
  | 'sealed'
  | 'unsealed'
  | 'oldest_unsealed_at'
  | 'checkpoints'
  | 'detached'
  | 'repaired'
  | 'first_difference'
  | 'problems'
  | 'problem_counts'
  | 'unchecked'
>;

export type FileOptions = Trust & {
  readonly removals: Removals | null;
  readonly kept: Kept | null;
};

export async function verifyFile(path: string, options: FileOptions): Promise<FileVerification> {
  const check = new FileCheck(options);
  try {
    for await (const records of readExport(createReadStream(path, { highWaterMark: 2 ** 18 })))
      for (const record of records) check.take(record);
  } catch (error) {
    if (!(error instanceof BadExport)) throw error;
    check.problems.add('order', `the file cannot be read: ${error.message}`);
  }
  return check.end();
}

const noGap = (partition: string) =>
  `events of ${partition} are gone, and no month of this name can have been detached`;

class FileCheck {
  readonly problems = new Problems();
  readonly #options: FileOptions;
  readonly #kept: SignedNote | null;
  readonly #entries = new EntryCheck(this.problems, { from: 'file' });
  readonly #tree = new CompactTree();
  readonly #sketch = new ComputedSketch();
  /** The checkpoint that the sketch comes after. */
  #sketched: SignedNote | null = null;
  readonly #versions = new VersionTable();
  readonly #gaps = new Map<string, { count: number; hash: Hash }>();
  /** By the first bytes of an id, which are its time, about five hours: the lowest and the highest id in the file. */
  readonly #times = new Map<number, { low: Buffer; high: Buffer }>();
  /** Ids of later times are of no month that has ended. Anybody can make up millions of them. */
  readonly #latest = Math.floor(Date.now() / 2 ** 24);
  #checkpoints = 0;
  readonly #origins = new Set<string>();
  #newest: SignedNote | null = null;
  #proven: Proven | null = null;
  #unproven = 'there is no checkpoint';
  readonly #unaccepted = new UnacceptedTimes();
  /** The latest time of the events so far, and the earliest of those behind the last checkpoint. */
  #newest_us = Number.NEGATIVE_INFINITY;
  #oldest_unsealed_us = Number.POSITIVE_INFINITY;

  constructor(options: FileOptions) {
    this.#options = options;
    const { kept } = options;
    this.#kept = kept && readNote(kept.note, 'the kept checkpoint', this.problems);
    if (this.#kept && kept?.sketch)
      judgeSketch(
        options,
        this.#kept,
        kept.sketch,
        'the sketch of the kept checkpoint',
        this.problems,
      );
    if (this.#kept?.size === 0) this.#reach(this.#kept);
  }

  take({ kind, body }: ExportRecord): void {
    if (kind === 'entry') this.#takeEntry(body);
    else if (kind === 'gap') this.#takeGap(body);
    else if (kind === 'checkpoint') this.#takeNote(body);
    else this.#takeSketch(body);
  }

  #takeEntry(entry: Buffer): void {
    const leaf = this.#entries.check(entry);
    this.#newest_us = Math.max(this.#newest_us, this.#entries.at_us);
    this.#oldest_unsealed_us = Math.min(this.#oldest_unsealed_us, this.#entries.at_us);
    this.#unaccepted.take(this.#entries.at_us);
    this.#append(leaf);
    if (!this.#entries.type) return;
    if (this.#sketch.taken === 0) this.#sketch.add(entry, leaf);
    this.#versions.add(entry, 6, entry.readInt32BE(26));
    const id = entry.subarray(6, 22);
    const time = id.readUIntBE(0, 3);
    if (time > this.#latest) return;
    const range = this.#times.get(time);
    if (!range) this.#times.set(time, { low: Buffer.from(id), high: Buffer.from(id) });
    else if (id.compare(range.low) < 0) id.copy(range.low);
    else if (id.compare(range.high) > 0) id.copy(range.high);
  }

  #append(leaf: HashText): void {
    this.#tree.append(leaf);
    if (this.#kept?.size === this.#tree.size) this.#reach(this.#kept);
  }

  #takeGap(body: Buffer): void {
    const { partition, hashes } = parseGap(body);
    for (let at = 0; at < hashes.length; at += HASH_BYTES)
      this.#append(textOf(hashes.subarray(at, at + HASH_BYTES)));
    if (!canBeDetached(partition)) {
      this.problems.add('removals', () => noGap(partition));
      return;
    }
    this.#unaccepted.take(usOfMonth(partition));
    let digest = this.#gaps.get(partition);
    if (!digest) {
      digest = { count: 0, hash: createHash('sha256') };
      this.#gaps.set(partition, digest);
    }
    digest.count += hashes.length / HASH_BYTES;
    digest.hash.update(hashes);
  }

  #takeNote(body: Buffer): void {
    this.#checkpoints++;
    const name = `checkpoint ${this.#checkpoints}`;
    if (!isUtf8(body)) {
      this.problems.add('checkpoints', `${name} cannot be read: it is not UTF-8`);
      return;
    }
    const signed = readNote(body.toString(), name, this.problems);
    if (!signed) return;
    if (this.#newest && signed.size <= this.#newest.size)
      this.problems.add('checkpoints', `${name} does not cover more events than the one before it`);
    this.#newest = signed;
    this.#origins.add(signed.origin);
    this.#oldest_unsealed_us = Number.POSITIVE_INFINITY;
    this.#reach(signed);
    this.#unaccepted.seal();
  }

  #reach(signed: SignedNote): void {
    const { size, root, name } = signed;
    const met = this.#tree.size === size && this.#tree.root().equals(root);
    if (!met)
      this.problems.add(
        'checkpoints',
        `the file's first ${size} leaves do not have the root of ${name}`,
      );
    const judged = judge(this.#options, signed, this.problems);
    this.#checkTime(signed, judged);
    if (typeof judged === 'string') this.#unproven = judged;
    else if (!met) this.#unproven = `the file does not have the root of ${name}`;
    else if (judged.size >= (this.#proven?.size ?? 0)) {
      this.#proven = judged;
      this.#unaccepted.accept();
    }
  }

  /** No event that it covers may be of a later time. */
  #checkTime({ name }: SignedNote, judged: Proven | string): void {
    if (typeof judged === 'string' || !judged.first_cosigned_at) return;
    const newest = timeOf(this.#newest_us);
    if (this.#newest_us > Number.NEGATIVE_INFINITY && isAfter(newest, judged.first_cosigned_at))
      this.problems.add(
        'checkpoints',
        `${name} was cosigned at ${timeText(judged.first_cosigned_at)}, and covers an event of ${timeText(newest)}`,
      );
  }

  #takeSketch(body: Buffer): void {
    const sketch = parseSketch(body);
    if (!this.#newest) {
      this.problems.add('checkpoints', 'the sketch belongs to no checkpoint');
      return;
    }
    if (this.#tree.size !== this.#newest.size) {
      this.problems.add('checkpoints', 'the sketch does not come right after its checkpoint');
      return;
    }
    if (this.#sketch.taken > 0)
      this.problems.add('checkpoints', 'the file has more than one sketch');
    else
      this.#sketch.take(sketch.cells, { sketch: 'the sketch', events: 'the file' }, this.problems);
    this.#sketched = this.#newest;
    judgeSketch(this.#options, this.#newest, sketch, 'the sketch', this.problems);
  }

  end(): FileVerification {
    const { policy, removals } = this.#options;
    const { problems } = this;
    if (this.#kept && this.#kept.size > this.#tree.size)
      problems.add(
        'checkpoints',
        `the file has ${this.#tree.size} of the ${this.#kept.size} leaves of the kept checkpoint`,
      );
    if (this.#sketched && this.#sketched !== this.#newest)
      problems.add('checkpoints', 'the sketch is not that of the newest checkpoint');
    else this.#sketch.check(this.#entries.claims, this.#gaps.keys(), problems);
    for (const id of this.#versions.broken())
      problems.add('streams', () => `the versions of stream ${uuidText(id)} have a gap`);
    const gaps = [...this.#gaps].map(([partition, { count, hash }]) => ({
      ...{ partition, count },
      sha256: hash.digest('hex'),
    }));
    const allowed = policy ? (removals ?? NO_REMOVALS) : null;
    const months = checkRemovals(this.#entries.claims, gaps, allowed, problems);
    checkRepairs(this.#entries.claims, policy, allowed, problems);
    this.#checkGone(months);
    if (policy && !this.#proven)
      problems.add(
        'checkpoints',
        `the policy accepts no checkpoint of this log: ${this.#unproven}`,
      );
    const lines = problems.lines();
    const well = lines.length === 0;
    const unaccepted = this.#unaccepted.of(this.#proven, this.#newest?.size ?? 0);
    return {
      well,
      proven: well ? this.#proven : null,
      unproven: well && !this.#proven ? this.#unproven : null,
      unaccepted,
      events: this.#entries.count,
      sealed: this.#newest?.size ?? 0,
      unsealed: Math.max(this.#tree.size - (this.#newest?.size ?? 0), 0),
      oldest_unsealed_at: dateOrNull(this.#oldest_unsealed_us),
      checkpoints: this.#checkpoints,
      detached: months.map(({ partition }) => partition),
      repaired: repairLines(this.#entries.claims),
      first_difference: lines[0] ?? null,
      problems: lines,
      problem_counts: problems.counts(),
      unchecked: [
        ...absentLogs({ origins: this.#origins, claims: this.#entries.claims }, policy, 'file'),
        ...unacceptedLines(unaccepted),
      ],
    };
  }

  /** Anybody can write a file with many claims and many ids, so neither is gone through for each of the other. */
  #checkGone(months: readonly DetachedMonth[]): void {
    const claimed = new Set(months.map(({ partition }) => partition));
    // A month can begin between the two.
    for (const { low, high } of this.#times.values())
      for (const [partition, id] of new Map([high, low].map((id) => [partitionOf(id), id])))
        if (claimed.has(partition))
          this.problems.add(
            'removals',
            `${partition} was detached, and its stream ${uuidText(id)} is in the file`,
          );
  }
}
