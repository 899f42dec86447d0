/**
 * Reads the log once, in the order of the feed, a window at a time, and checks all that the order shows: each event by itself
 * (entry_check.ts), the leaves against the tiles (verify_tree.ts), and the root at each checkpoint's size. Memory does not
 * depend on the log's size.
 *
 * The statements name columns and tables of schema runledger, and functions and operators of pg_catalog. They hash nothing.
 */
import { createHash, type Hash } from 'node:crypto';
import type { Db } from '../db.ts';
import { dateOrNull, isAfter, timeOf, timeText } from '../domain/clocks.ts';
import type { TileEntry } from '../proof/compact_tree.ts';
import { ENTRY_COLUMNS } from '../proof/entry.ts';
import { HASH_BYTES, type HashText } from '../proof/merkle.ts';
import { readEntries } from './entries.ts';
import {
  copyBytes,
  copyName,
  EntryCheck,
  type LogClaim,
  NAME_BYTES,
  nameAt,
  PLACE_BYTES,
  placeText,
} from './entry_check.ts';
import { type GivenSketch, LogSketches, storedSketch } from './log_sketches.ts';
import { Problems } from './problems.ts';
import { BY_INDEX, reading } from './scans.ts';
import {
  judge,
  judgeSketch,
  type Kept,
  type Proven,
  readNote,
  type SignedNote,
  type Trust,
  type Unaccepted,
  UnacceptedTimes,
  witnessKeys,
} from './signed_notes.ts';
import {
  checkTileCounts,
  checkTiles,
  type FeedEnd,
  type Gap,
  HORIZON_BYTES,
  readFeedEnd,
  readGaps,
  readSealed,
  type SealedBlock,
  type StoredNote,
  sealedSize,
  storedNotes,
} from './stored_tree.ts';
import { usOfMonth } from './uuid_months.ts';
import {
  Alignment,
  type Claim,
  type Difference,
  TreeComparison,
  type Window,
} from './verify_tree.ts';

export type GapDigest = {
  readonly partition: string;
  readonly count: number;
  readonly sha256: string;
};

export type LogReport = {
  readonly events: number;
  /** Leaves that the newest checkpoint covers, and events after them. */
  readonly sealed: number;
  readonly unsealed: number;
  /** The earliest time of the events after them; null if there are none, or none has a time. */
  readonly oldest_unsealed_at: Date | null;
  readonly checkpoints: number;
  /** The largest checkpoint that the policy accepts and the log has; else why there is none. */
  readonly proven: Proven | null;
  readonly unproven: string;
  readonly unaccepted: Unaccepted | null;
  readonly gaps: readonly GapDigest[];
  readonly claims: readonly LogClaim[];
  /** The types of its events. */
  readonly types: ReadonlySet<string>;
  /** The newest checkpoint of the database. */
  readonly newest: SignedNote | null;
  /** By the names that its checkpoints have: the newest of each. */
  readonly origins: ReadonlyMap<string, SignedNote>;
  /** How many events the kept checkpoint covers, and whether the log's first events are not these. */
  readonly kept_size: number;
  readonly kept_differs: boolean;
  readonly differences: readonly Difference[];
  readonly difference_count: number;
  /** See FeedEnd. */
  readonly elsewhere: boolean;
};

const WINDOW = 2 ** 15;

export async function checkLog(
  db: Db,
  options: { trust: Trust; kept: Kept | null },
  problems: Problems,
): Promise<LogReport> {
  // A window is a part of the index of the feed. Reading it any other way would sort the whole log for each.
  return reading(db, BY_INDEX, async () => {
    const size = await sealedSize(db, problems);
    const gaps = await readGaps(db, size, problems);
    const { kept } = options;
    const sketches = new LogSketches(
      [...(await storedSketch(db, size)), ...keptSketch(kept)],
      gaps,
      problems,
    );
    const end = await readFeedEnd(db);
    const walk = new Walk(db, options, { size, gaps: [...gaps], end }, problems);
    for (;;) {
      const window = await readWindow(db, walk.entries, sketches);
      if (!window) break;
      await walk.take(window);
      if (window.leaves.length < WINDOW) break;
      // The next window begins behind this one's last event: it would be one that was read, again and again.
      if (walk.entries.goes_back) {
        problems.add(
          'order',
          'the index of the feed leads back, so the rest of the log was not read',
        );
        break;
      }
    }
    const report = await walk.end();
    if (report.difference_count === 0 && !report.kept_differs) sketches.check(report.claims);
    return report;
  });
}

type FeedWindow = Window & { placeAt(n: number): Buffer; readonly times_us: Float64Array };

/** The next events of the feed, checked; null at its end. */
async function readWindow(
  db: Db,
  entries: EntryCheck,
  sketches: LogSketches,
): Promise<FeedWindow | null> {
  const leaves: HashText[] = [];
  const names = Buffer.allocUnsafe(WINDOW * NAME_BYTES);
  const places = Buffer.allocUnsafe(WINDOW * PLACE_BYTES);
  const times_us = new Float64Array(WINDOW);
  const after =
    entries.count === 0 ? '' : `where (generation, xid, seq) > (${placeText(entries.place)})`;
  const query = `select ${ENTRY_COLUMNS} from runledger.events ${after}
    order by generation, xid, seq limit ${WINDOW}`;
  for await (const chunk of readEntries(db, query))
    for (const entry of chunk) {
      const n = leaves.length;
      const leaf = entries.check(entry);
      leaves.push(leaf);
      sketches.add(entry, leaf, entries.type !== null);
      copyName(entry, names, n * NAME_BYTES);
      copyBytes(entries.place, 0, places, PLACE_BYTES, n * PLACE_BYTES);
      times_us[n] = entries.at_us;
    }
  if (leaves.length === 0) return null;
  return {
    leaves,
    times_us,
    nameAt: (n) => nameAt(names, n * NAME_BYTES),
    placeAt: (n) => places.subarray(n * PLACE_BYTES, (n + 1) * PLACE_BYTES),
  };
}

class Walk {
  readonly entries: EntryCheck;
  readonly #db: Db;
  readonly #trust: Trust;
  readonly #size: number;
  readonly #problems: Problems;
  readonly #gaps: Gap[];
  /** The index of the gap that comes next, or that is being passed. To take it off the list would cost the length of the list. */
  #gap = 0;
  readonly #end: FeedEnd;
  readonly #gap_digests = new Map<string, { count: number; hash: Hash }>();
  readonly #tree: TreeComparison;
  readonly #tiles: TileEntry[] = [];
  readonly #notes: AsyncGenerator<StoredNote>;
  readonly #kept: Claim | null;
  /** Its root has not been compared yet. */
  #kept_due: boolean;
  /** The next checkpoint of the database; null when there is none any more. */
  #next: StoredNote | null | undefined;
  #block: SealedBlock | null = null;
  #checkpoints = 0;
  #newest: SignedNote | null = null;
  readonly #origins = new Map<string, SignedNote>();
  #unsealed = 0;
  #oldest_unsealed_us = Number.POSITIVE_INFINITY;
  #proven: Proven | null = null;
  #unproven = 'there is no checkpoint';
  readonly #unaccepted = new UnacceptedTimes();
  /** The place of the last event that was compared, and the horizon of the last checkpoint. */
  #last: Buffer | null = null;
  #horizon: Buffer | null = null;
  /** The latest time of the events since the last checkpoint, and of all so far. */
  #newest_us = Number.NEGATIVE_INFINITY;
  #latest_us = Number.NEGATIVE_INFINITY;

  constructor(
    db: Db,
    { trust, kept }: { trust: Trust; kept: Kept | null },
    { size, gaps, end }: { size: number; gaps: Gap[]; end: FeedEnd },
    problems: Problems,
  ) {
    this.entries = new EntryCheck(problems, { from: 'database' });
    this.#db = db;
    this.#trust = trust;
    this.#size = size;
    this.#gaps = gaps;
    this.#end = end;
    this.#problems = problems;
    this.#tree = new TreeComparison((entry) => {
      if (this.#tree.agrees) this.#tiles.push(entry);
    }, problems);
    this.#notes = storedNotes(db, { only: witnessKeys(trust) }, problems);
    this.#kept = keptClaim(kept, trust, problems);
    this.#kept_due = this.#kept !== null;
  }

  async take(window: FeedWindow): Promise<void> {
    let n = 0;
    let alignment: Alignment | null = null;
    let aligned: SealedBlock | null = null;
    for (;;) {
      await this.#pass(window, n);
      if (n === window.leaves.length) break;
      const tree = this.#tree;
      if (tree.at >= this.#size) {
        n = this.#takeUnsealed(window, n);
        continue;
      }
      const block = await this.#sealedAt(tree.at);
      if (!alignment || aligned !== block) {
        alignment = new Alignment(tree, window, block);
        aligned = block;
      }
      const to = Math.min(block.to, this.#nextGap?.first ?? block.to, await this.#nextSize());
      const begin = n;
      n = alignment.run(n, to, (at) => this.#checkPlace(block, tree.at, window.placeAt(at)));
      for (let at = begin; at < n; at++) {
        if (window.times_us[at]! > this.#newest_us) this.#newest_us = window.times_us[at]!;
        this.#unaccepted.take(window.times_us[at]!);
      }
      this.#latest_us = Math.max(this.#latest_us, this.#newest_us);
      if (n > 0) this.#last = window.placeAt(n - 1);
    }
    await checkTiles(this.#db, this.#tiles.splice(0), this.#problems);
  }

  /** Consumes the gaps that begin here, and judges the checkpoints that end here. */
  async #pass(window: FeedWindow | null, n: number): Promise<void> {
    for (;;) {
      const { at } = this.#tree;
      const note = await this.#peek();
      if (note && note.size <= at) {
        this.#reach(note, window && n < window.leaves.length ? window.placeAt(n) : null);
        this.#next = undefined;
      } else if (this.#kept_due && this.#keptSize() === at) {
        this.#tree.reach(this.#kept!);
        this.#judge(this.#kept!);
        this.#kept_due = false;
      } else if (this.#nextGap?.first === at) await this.#passGap(this.#nextGap);
      else return;
    }
  }

  /** One that claims more than there is would never have its turn, and those behind it neither. */
  async #peek(): Promise<StoredNote | null> {
    while (this.#next === undefined) {
      const { done, value } = await this.#notes.next();
      if (done) this.#next = null;
      else if (value.size <= this.#size) this.#next = value;
      else this.#setAside(value, `and ${this.#size} are sealed`);
    }
    return this.#next;
  }

  /** Its root cannot be compared, but its signatures are judged. */
  #setAside(note: StoredNote, why: string): void {
    this.#checkpoints++;
    this.#problems.add('checkpoints', `${note.name} covers ${note.size} events, ${why}`);
    this.#judge({ signed: note, met: false });
  }

  async #nextSize(): Promise<number> {
    return Math.min((await this.#peek())?.size ?? Number.POSITIVE_INFINITY, this.#keptSize());
  }

  #keptSize(): number {
    return this.#kept_due ? this.#kept!.signed.size : Number.POSITIVE_INFINITY;
  }

  #reach(note: StoredNote, next: Buffer | null): void {
    const claim = { signed: note, met: false };
    if (note.size < this.#tree.at) {
      this.#setAside(note, 'fewer than one before it');
      return;
    }
    this.#tree.reach(claim);
    this.#judge(claim);
    this.#unaccepted.seal();
    this.#checkpoints++;
    this.#newest = note;
    this.#origins.set(note.origin, note);
    this.#horizon = note.horizon;
    const last = this.#last;
    this.#checkTime(note, note.sealed_at, 'says that it was made at', this.#newest_us);
    this.#newest_us = Number.NEGATIVE_INFINITY;
    const beyond = last && note.horizon.compare(last, 0, HORIZON_BYTES) <= 0;
    if (beyond || (next && note.horizon.compare(next, 0, HORIZON_BYTES) > 0))
      this.#problems.add(
        'checkpoints',
        `${note.name} does not end where its row says: events at its end were added, removed or moved`,
      );
  }

  /** No event that it covers may be of a later time. */
  #checkTime({ name }: SignedNote, made_at: Date, says: string, newest_us: number): void {
    const newest = timeOf(newest_us);
    if (newest_us > Number.NEGATIVE_INFINITY && isAfter(newest, made_at))
      this.#problems.add(
        'checkpoints',
        `${name} ${says} ${timeText(made_at)}, and covers an event of ${timeText(newest)}`,
      );
  }

  #judge(claim: Claim): void {
    const judged = judge(this.#trust, claim.signed, this.#problems);
    if (typeof judged !== 'string' && judged.first_cosigned_at)
      this.#checkTime(claim.signed, judged.first_cosigned_at, 'was cosigned at', this.#latest_us);
    if (typeof judged === 'string') this.#unproven = judged;
    else if (!claim.met) this.#unproven = `the log does not have the root of ${claim.signed.name}`;
    else if (judged.size >= (this.#proven?.size ?? 0)) {
      this.#proven = judged;
      this.#unaccepted.accept();
    }
  }

  get #nextGap(): Gap | undefined {
    return this.#gaps[this.#gap];
  }

  async #passGap(gap: Gap): Promise<void> {
    const block = await this.#sealedAt(gap.first);
    const count = Math.min(gap.first + gap.count, block.to, await this.#nextSize()) - gap.first;
    const from = (gap.first - block.from) * HASH_BYTES;
    let digest = this.#gap_digests.get(gap.partition);
    if (!digest) {
      digest = { count: 0, hash: createHash('sha256') };
      this.#gap_digests.set(gap.partition, digest);
    }
    this.#unaccepted.take(usOfMonth(gap.partition));
    digest.count += count;
    digest.hash.update(block.hashes.subarray(from, from + count * HASH_BYTES));
    for (let at = from; at < from + count * HASH_BYTES; at += HASH_BYTES)
      this.#tree.take(block.text.slice(at, at + HASH_BYTES));
    if (count === gap.count) this.#gap += 1;
    else this.#gaps[this.#gap] = { ...gap, first: gap.first + count, count: gap.count - count };
    // Where the last event before the gap was does not matter any more.
    this.#last = null;
  }

  async #sealedAt(leaf: number): Promise<SealedBlock> {
    if (!this.#block || leaf < this.#block.from || leaf >= this.#block.to)
      this.#block = await readSealed(this.#db, leaf, this.#size, this.#problems);
    return this.#block;
  }

  #checkPlace({ places }: SealedBlock, leaf: number, place: Buffer): void {
    if (places.get(leaf)?.equals(place) === false)
      this.#problems.add('tiles', `the tile of leaf ${leaf} names another place in the feed`);
  }

  /** Events that the newest checkpoint does not cover. A kept checkpoint may. */
  #takeUnsealed(window: FeedWindow, begin: number): number {
    let n = begin;
    for (; n < window.leaves.length; n++) {
      const leaf = window.leaves[n]!;
      if (this.#tree.at === this.#keptSize()) return n;
      if (this.#horizon && this.#horizon.compare(window.placeAt(n), 0, HORIZON_BYTES) > 0)
        this.#tree.insert(leaf, window.nameAt(n));
      else {
        if (this.#kept_due) {
          this.#tree.takeUnsealed(leaf);
          this.#latest_us = Math.max(this.#latest_us, window.times_us[n]!);
        }
        this.#unsealed++;
        this.#oldest_unsealed_us = Math.min(this.#oldest_unsealed_us, window.times_us[n]!);
        this.#checkEnd(window, n);
      }
    }
    return n;
  }

  /** Sealing waits for transactions that run, so for ever for one that has not begun. */
  #checkEnd(window: FeedWindow, n: number): void {
    if (this.#end.place.compare(window.placeAt(n), 0, HORIZON_BYTES) > 0) return;
    const { stream, version } = window.nameAt(n);
    this.#problems.add(
      'order',
      `${stream} version ${version} is of a transaction that has not begun, so it is never sealed`,
    );
  }

  async end(): Promise<LogReport> {
    // What was sealed and is not there any more.
    await this.#pass(null, 0);
    while (this.#tree.at < this.#size) {
      const block = await this.#sealedAt(this.#tree.at);
      const to = Math.min(block.to, this.#nextGap?.first ?? block.to, await this.#nextSize());
      while (this.#tree.at < to) {
        const at = (this.#tree.at - block.from) * HASH_BYTES;
        this.#tree.differ('removed', block.text.slice(at, at + HASH_BYTES), null, null);
      }
      await this.#pass(null, 0);
    }
    await checkTiles(this.#db, this.#tiles.splice(0), this.#problems);
    await checkTileCounts(this.#db, this.#size, this.#problems);
    this.#tree.settle();
    const { size } = this.#kept?.signed ?? { size: 0 };
    if (size > this.#tree.at)
      this.#problems.add(
        'checkpoints',
        `the log was rolled back: it has ${this.#tree.at} of the ${size} events of the kept checkpoint`,
      );
    return {
      events: this.entries.count,
      sealed: this.#size,
      unsealed: this.#unsealed,
      oldest_unsealed_at: dateOrNull(this.#oldest_unsealed_us),
      checkpoints: this.#checkpoints,
      proven: this.#proven,
      unproven: this.#unproven,
      unaccepted: this.#unaccepted.of(this.#proven, this.#size),
      gaps: [...this.#gap_digests].map(([partition, { count, hash }]) => ({
        ...{ partition, count },
        sha256: hash.digest('hex'),
      })),
      claims: this.entries.claims,
      types: this.entries.types,
      newest: this.#newest,
      origins: this.#origins,
      kept_size: size,
      kept_differs: this.#kept !== null && !this.#kept.met,
      differences: this.#tree.differences,
      difference_count: this.#tree.difference_count,
      elsewhere: this.#end.elsewhere,
    };
  }
}

function keptSketch(kept: Kept | null): GivenSketch[] {
  const signed = kept && readNote(kept.note, 'the kept checkpoint', new Problems());
  if (!signed || !kept.sketch) return [];
  const { cells } = kept.sketch;
  return [{ size: signed.size, cells, name: 'the sketch of the kept checkpoint' }];
}

function keptClaim(kept: Kept | null, trust: Trust, problems: Problems): Claim | null {
  const name = 'the kept checkpoint';
  const signed = kept && readNote(kept.note, name, problems);
  if (!signed) return null;
  if (kept.sketch) judgeSketch(trust, signed, kept.sketch, `the sketch of ${name}`, problems);
  return { signed, met: false };
}
