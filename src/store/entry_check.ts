/**
 * Checks one event after the other, in the order of the feed, from its canonical bytes alone: are they what PostgreSQL
 * writes, does the event come after the one before it, and are its facts of its type's schema? What the log claims to have
 * removed or repaired is collected on the way.
 */
import { isUtf8 } from 'node:buffer';
import {
  CLOCKS_APART_MS,
  DATED_BACK_LATE_MS,
  DATED_BACK_MS,
  FIRST_US,
  timeOf,
  timeText,
} from '../domain/clocks.ts';
import { eventTypes, problemOf } from '../domain/events.ts';
import { checkDepth, parseStrictly } from '../domain/strict_json.ts';
import { BadEntry, parseEntry } from '../proof/entry.ts';
import { type HashText, leafText } from '../proof/merkle.ts';
import { type EntryType, typeIn } from './entry_types.ts';
import type { Problems } from './problems.ts';

/** An event that says something about the log itself. */
export type LogClaim = {
  readonly stream: string;
  readonly version: number;
  readonly type: string;
  readonly at: Date;
  readonly facts: Record<string, unknown>;
};

export type EventName = {
  readonly stream: string;
  readonly version: number;
  readonly type: string;
};

const CLAIMS = new Set<string>(
  [
    'log.detached',
    'log.repaired',
    'log.retention_set',
    'payloads.purged',
    'payloads.forgotten',
    'test_set.deleted',
  ].filter((type) => type in eventTypes),
);

/**
 * Appended at the end of long transactions, whose place in the feed is that of their beginning. So other events may be of
 * times long before.
 */
const LATE = new Set(['payloads.purged', 'log.detached', 'log.repaired']);

// Where the columns of an entry are, when its type has no bytes: each has its length before it (src/proof/entry.ts).
const TYPE_AT = 34;
const SCHEMA_AT = 38;
const AT_AT = 44;
const PLACE_AT = 56;
/** Generation, xid and seq, with the lengths between them: big endian, so their order is that of the bytes. */
export const PLACE_BYTES = 26;
const FACTS_AT = 87;
/** The lengths of the columns, and where each is. */
const LENGTHS = [
  [2, 16],
  [22, 4],
  [34, 2],
  [40, 8],
  [52, 2],
  [58, 8],
  [70, 8],
] as const;

const SHORT = 160;
const MOST_GOOD = 1000;

/** The service's facts have some kilobytes. JSON of some megabytes can take gigabytes when it is parsed. */
const MAX_BYTES = 2 ** 24;
/** What the log says about itself is kept until the end. A detached month has its two sketches. */
export const MAX_CLAIM_BYTES = 2 ** 16;
const MAX_DETACHED_BYTES = 2 ** 20;

/** Of all claims together. They are kept until the end, and an honest log has a few million bytes of them. */
const MAX_CLAIMS_BYTES = 2 ** 28;
/** What a claim takes besides its texts. */
const CLAIM_BYTES = 256;
/** Facts of claims that nothing is compared with. A repair is printed with its operator. */
const UNUSED = new Set(['operator', 'request_id', 'traceparent']);

export class EntryCheck {
  readonly claims: LogClaim[] = [];
  #claims_bytes = 0;
  /** Those of this version that there are any events of. Of others there can be any number, of any length. */
  readonly types = new Set<string>();
  /** Of the event before, and room for the next one's. */
  #last = Buffer.alloc(PLACE_BYTES);
  #next = Buffer.alloc(PLACE_BYTES);
  /** The greatest place before the order was broken. */
  #greatest: Buffer | null = null;
  #count = 0;
  readonly #problems: Problems;
  readonly #parse: (text: string) => unknown;
  readonly #latest_us: number;
  /** The earliest time that the next event may have, because of those before it. Milliseconds are compared. */
  #earliest_us = Number.NEGATIVE_INFINITY;
  /** Short facts that were checked, with their type and schema. */
  readonly #good = new Set<string>();

  readonly #before_sealing: boolean;
  readonly #most_claims_bytes: number;

  /**
   * `from`: PostgreSQL never prints a name twice in one object, and what wrote a file may have. `before_sealing`: the facts of the
   * common types are not read, which is most of the cost, and a clock that was set back is no reason to reject what it dated.
   */
  constructor(
    problems: Problems,
    {
      from,
      before_sealing = false,
      most_claims_bytes = MAX_CLAIMS_BYTES,
      now_ms = Date.now(),
    }: {
      from: 'database' | 'file';
      before_sealing?: boolean;
      most_claims_bytes?: number;
      now_ms?: number;
    },
  ) {
    this.#latest_us = (now_ms + CLOCKS_APART_MS - timeOf(0).getTime()) * 1000 + 999;
    this.#most_claims_bytes = most_claims_bytes;
    this.#problems = problems;
    this.#parse = from === 'file' ? parseStrictly : parseQuickly;
    this.#before_sealing = before_sealing;
  }

  get count(): number {
    return this.#count;
  }

  /** The place in the feed of the event that was checked last. */
  get place(): Buffer {
    return this.#last;
  }

  /** Whether an event before the one that was checked last had its place, or a later one. */
  get goes_back(): boolean {
    return this.#greatest !== null && this.#last.compare(this.#greatest) <= 0;
  }

  /** The time of the event that was checked last, in microseconds since 2000. */
  at_us = 0;

  /** Its type; null if it does not have the columns of an event. */
  type: EntryType | null = null;

  /** Returns the hash of its leaf. */
  check(entry: Buffer): HashText {
    this.#count++;
    const type_bytes = typeBytes(entry);
    if (type_bytes < 0) {
      this.type = null;
      this.#reject(entry);
    } else {
      const shift = type_bytes;
      this.#order(entry, PLACE_AT + shift);
      this.at_us =
        entry.readInt32BE(AT_AT + shift) * 2 ** 32 + entry.readUInt32BE(AT_AT + shift + 4);
      const type = typeIn(entry, TYPE_AT, type_bytes);
      this.type = type;
      if (type.schemas > 0) this.types.add(type.name);
      this.#time(entry, type.name);
      this.#facts(entry, type, entry.readInt16BE(SCHEMA_AT + shift), FACTS_AT + shift);
    }
    return leafText(entry);
  }

  #reject(entry: Buffer): void {
    let why = 'its columns are not those of an event';
    try {
      parseEntry(entry);
    } catch (error) {
      if (!(error instanceof BadEntry)) throw error;
      why = error.message;
    }
    this.#problems.add('order', `event ${this.#count} of the feed cannot be read: ${why}`);
  }

  #order(entry: Buffer, at: number): void {
    copyBytes(entry, at, this.#next, PLACE_BYTES);
    if (this.#count > 1 && this.#next.compare(this.#last) <= 0) {
      if (!this.goes_back) this.#greatest = Buffer.from(this.#last);
      this.#problems.add('order', () => {
        const { stream, version } = nameOf(entry);
        return `${stream} version ${version} has the place in the feed of another event, or an earlier one`;
      });
    }
    const room = this.#last;
    this.#last = this.#next;
    this.#next = room;
  }

  /**
   * A time that is still to come would let a removal claim what happens until then. Infinity is one. A time from before other
   * events would let it claim that these had not happened.
   */
  #time(entry: Buffer, type: string): void {
    const { at_us } = this;
    if (at_us > this.#latest_us) this.#wrongTime(entry, 'still to come, or none');
    else if (at_us < FIRST_US) this.#wrongTime(entry, 'before 1970, or none');
    else if (at_us < this.#earliest_us && !this.#before_sealing)
      this.#wrongTime(entry, 'long before those of earlier events');
    else {
      const back_ms = LATE.has(type) ? DATED_BACK_LATE_MS : DATED_BACK_MS;
      const earliest_us = (Math.floor(at_us / 1000) - back_ms) * 1000;
      this.#earliest_us = Math.max(this.#earliest_us, earliest_us);
    }
  }

  #wrongTime(entry: Buffer, how: string): void {
    const time = timeText(timeOf(this.at_us));
    this.#problems.add('facts', () => {
      const { stream, version } = nameOf(entry);
      return `${stream} version ${version} is of a time that is ${how}: ${time}`;
    });
  }

  #facts(entry: Buffer, { name: type, schemas }: EntryType, schema: number, at: number): void {
    if (entry.length > mostBytes(type)) {
      this.#problems.add('facts', () => {
        const { stream, version } = nameOf(entry);
        return `the facts of ${stream} version ${version} are longer than any that the service appends`;
      });
      return;
    }
    if (this.#before_sealing && !CLAIMS.has(type) && schema > 0 && schema <= schemas) return;
    const text = this.#textOf(entry, at);
    // All starts of a worker have the same facts.
    // No type, and no JSON, has a NUL. A type of a file may have spaces, and so could stand for a type and facts.
    const short = text.length < SHORT ? `${type}\0${schema}\0${text}` : null;
    if (short !== null && this.#good.has(short)) return;
    const facts = orUndefined(this.#parse, text);
    const problem = problemOf({ type, schema, facts });
    if (problem !== null)
      this.#problems.add('facts', () => {
        const { stream, version } = nameOf(entry);
        return `the facts of ${stream} version ${version} (${type}) are not of their schema: ${problem}`;
      });
    else if (CLAIMS.has(type)) {
      if (!isOwn(type, facts as LogClaim['facts']))
        this.#claim(entry, type, facts as LogClaim['facts']);
    } else if (short !== null) {
      if (this.#good.size >= MOST_GOOD) this.#good.clear();
      this.#good.add(short);
    }
  }

  /** Empty, which is no JSON, if it is not UTF-8. PostgreSQL prints nothing else, and what wrote a file may have. */
  #textOf(entry: Buffer, at: number): string {
    const text = entry.toString('utf8', at, entry.length);
    return text.includes('\ufffd') && !isUtf8(entry.subarray(at)) ? '' : text;
  }

  #claim(entry: Buffer, type: string, all: LogClaim['facts']): void {
    const { stream, version, at_us } = parseEntry(entry);
    const used = Object.entries(all).filter(
      ([fact]) => type === 'log.repaired' || !UNUSED.has(fact),
    );
    this.#claims_bytes += CLAIM_BYTES + JSON.stringify(used).length;
    if (this.#claims_bytes > this.#most_claims_bytes)
      this.#problems.add(
        'removals',
        `${stream} version ${version} (${type}) is beyond what verify keeps: the log says too much about itself`,
      );
    else
      this.claims.push({
        ...{ stream, version, type, at: timeOf(at_us) },
        facts: Object.fromEntries(used),
      });
  }
}

/**
 * What an account deleted itself is no removal of the operator's, and it can do so for ever: nothing of it is kept.
 * verify_test_sets.ts looks whether the key is one of the account.
 */
const isOwn = (type: string, facts: LogClaim['facts']): boolean =>
  type === 'test_set.deleted' &&
  facts['key_id'] !== undefined &&
  facts['unused_since'] === undefined;

function mostBytes(type: string): number {
  if (type === 'log.detached') return MAX_DETACHED_BYTES;
  return CLAIMS.has(type) ? MAX_CLAIM_BYTES : MAX_BYTES;
}

/** How many bytes the type has; -1 if the entry's columns do not have their lengths. */
function typeBytes(entry: Buffer): number {
  if (entry.length < FACTS_AT || entry.readInt16BE(0) !== 9) return -1;
  const bytes = entry.readInt32BE(TYPE_AT - 4);
  if (bytes < 0 || entry.length < FACTS_AT + bytes) return -1;
  for (const [at, length] of LENGTHS)
    if (entry.readInt32BE(at < TYPE_AT ? at : at + bytes) !== length) return -1;
  const facts = FACTS_AT + bytes;
  if (entry.readInt32BE(facts - 5) !== entry.length - facts + 1 || entry[facts - 1] !== 1)
    return -1;
  return bytes;
}

function parseQuickly(text: string): unknown {
  checkDepth(text);
  return JSON.parse(text);
}

/** Undefined, which no schema accepts, for text that is not JSON, or nested too deep. */
function orUndefined(parse: (text: string) => unknown, text: string): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

/** Where an entry has its stream's id, and its version. */
export const STREAM_AT = 6;
export const STREAM_BYTES = 16;
export const VERSION_AT = 26;

/** The bytes of an entry by which its event can be named. */
export const NAME_BYTES = VERSION_AT + 4 - STREAM_AT;

export const copyName = (entry: Buffer, target: Buffer, at: number): void =>
  copyBytes(entry, STREAM_AT, target, NAME_BYTES, at);

/** Reads what copyName wrote. */
export function nameAt(bytes: Buffer, at: number): { stream: string; version: number } {
  const stream = uuidText(bytes.subarray(at, at + 16));
  return { stream, version: bytes.readInt32BE(at + VERSION_AT - STREAM_AT) };
}

export function nameOf(entry: Buffer): { stream: string; version: number } {
  return nameAt(entry, STREAM_AT);
}

export const uuidText = (bytes: Buffer): string =>
  bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

/** A copy of a few bytes, in a fifth of the time of Buffer.copy. */
export function copyBytes(from: Buffer, at: number, to: Buffer, count: number, to_at = 0): void {
  for (let n = 0; n < count; n++) to[to_at + n] = from[at + n]!;
}

/** The place in the feed of an entry. */
export const placeOf = (entry: Buffer): Buffer => {
  const at = PLACE_AT + typeBytes(entry);
  return Buffer.from(entry.subarray(at, at + PLACE_BYTES));
};

/** A place as a row constructor's columns, which COPY takes no parameters for. */
export const placeText = (place: Buffer): string =>
  `${place.readInt16BE(0)}::smallint, '${place.readBigUInt64BE(6)}'::xid8, ${place.readBigInt64BE(18)}::bigint`;
