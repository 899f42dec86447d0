/**
 * What is signed can never be taken back. So before events are sealed, they are checked as verify will check them: their types,
 * their times and places, that each has the event before it in its stream and is of the same thing, and what the log says about
 * itself. The facts of other events are not read, and nor is the state of what they are about, because that would cost half of
 * the sealing again. A time that is too early is let through: a clock that was set back must not end sealing for ever.
 */
import type { Db } from '../db.ts';
import type { HashText } from '../proof/merkle.ts';
import { EntryCheck, nameOf, STREAM_AT, STREAM_BYTES, VERSION_AT } from './entry_check.ts';
import type { EntryType } from './entry_types.ts';
import { Problems } from './problems.ts';
import { canBeOf, KIND } from './stream_kinds.ts';
import { claimProblem } from './verify_removals.ts';

export class SealCheck {
  readonly #problems = new Problems();
  readonly #entries: EntryCheck;
  /** By stream: the version that was last in the feed, and what it is about. */
  readonly #last = new Map<string, { version: number; kind: string }>();
  /** Those whose stream did not have the version before in this window. Honest ones are few. */
  readonly #late: { stream: string; version: number; kind: string }[] = [];

  constructor(now_ms: number) {
    const how = { from: 'database', before_sealing: true, now_ms } as const;
    this.#entries = new EntryCheck(this.#problems, how);
  }

  /** Returns the hash of its leaf. */
  take(entry: Buffer): HashText {
    const leaf = this.#entries.check(entry);
    if (this.#entries.type) this.#follow(entry, this.#entries.type);
    return leaf;
  }

  #follow(entry: Buffer, type: EntryType): void {
    const { kind } = type;
    const stream = entry.toString('latin1', STREAM_AT, STREAM_AT + STREAM_BYTES);
    const version = entry.readInt32BE(VERSION_AT);
    if (version < 1) this.#report(entry, type, 'that no event has');
    if (!canBeOf(kind, entry[STREAM_AT]!))
      this.#report(entry, type, 'of a type that its stream cannot have');
    const before = this.#last.get(stream);
    if (version > 1 && (before?.version !== version - 1 || before.kind !== kind))
      this.#late.push({ ...nameOf(entry), kind });
    if (before) {
      before.version = version;
      before.kind = kind;
    } else this.#last.set(stream, { version, kind });
  }

  #report(entry: Buffer, { name }: EntryType, what: string): void {
    const { stream, version } = nameOf(entry);
    this.#problems.add('streams', `${stream} has a version ${version} (${name}) ${what}`);
  }

  /** What verify would name; null if all is well. */
  async problem(db: Db): Promise<string | null> {
    const claims = this.#entries.claims.map(claimProblem);
    const claim = claims.find((problem) => problem !== null) ?? null;
    return this.#problems.lines()[0] ?? claim ?? (await this.#gap(db));
  }

  async #gap(db: Db): Promise<string | null> {
    if (this.#late.length === 0) return null;
    const list = (name: 'stream' | 'version' | 'kind') =>
      `{${this.#late.map((each) => each[name])}}`;
    // A subquery for each, which finds its row by the index, however many there are.
    const [row] = await db<{ stream: string; version: number }[]>`
      select x.stream, x.version
      from unnest(${list('stream')}::text::uuid[], ${list('version')}::text::integer[], ${list('kind')}::text::text[]) x(stream, version, kind)
      where (select ${db.unsafe(KIND)} from runledger.entries e where e.stream = x.stream and e.version = x.version - 1) is distinct from x.kind
      limit 1`;
    return row
      ? `${row.stream} has version ${row.version}, and no version ${row.version - 1} of the same thing`
      : null;
  }
}
