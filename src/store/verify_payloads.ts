/**
 * Are the bytes beside the log the ones that its events name, and is what is gone what a purge claims? Digests are computed
 * here, and not by the database. Streams are read in windows, first their events and then their bytes, so memory depends on
 * neither.
 *
 * A purge claims: of submissions that ended, whose deliveries have ended, and whose events are all before a time, the bytes
 * are gone, up to an id. So bytes that are missing without a claim are a problem, and so are bytes that are there in spite of
 * one: a made-up purge over a few chosen submissions leaves the others. Reports that were refused don't count, and neither do
 * deliveries of a submission without a webhook: anybody could append them to the others, to excuse that their bytes are there.
 *
 * What was forgotten is named: of exactly these submissions the bytes are gone.
 */
import { createHash, hash } from 'node:crypto';
import type { Db } from '../db.ts';
import { timeOf, timeText } from '../domain/clocks.ts';
import { allowsPurge, type Purge as ClaimedPurge, type Removals } from '../domain/removals.ts';
import { ENDING_TYPES } from '../domain/submission_fold.ts';
import { readEntries } from './entries.ts';
import type { LogClaim } from './entry_check.ts';
import { uuidText } from './entry_check.ts';
import type { Problems } from './problems.ts';
import { PERMANENT } from './stream_kinds.ts';
import { forgottenIn, purgesOf } from './verify_removals.ts';

/** The 16 bytes of a stream's id as a latin1 string, which is in the order of the ids. */
type Id = string;

/** Its `last_id` is an Id. Without one it requires nothing, and covers everything that ended before its time. */
type Purge = Omit<ClaimedPurge, 'last_id'> & { readonly last_id: Id | null };

/** How many events one window has. */
const WINDOW = 20_000;

/** The streams, and the types of events that decide what bytes there must be. */
const PARTS = [
  // What a purge looks at, too: is_purged_by() in sql/functions/retention.sql. A cancelled submission ends without bytes.
  {
    from: '00000000-0000-0000-0000-000000000000',
    to: PERMANENT,
    types: `type <> 'execution.refused'`,
  },
  // Test sets have manifests. There are as many of them as accounts ever made.
  { from: PERMANENT, to: null, types: `type like 'test_set.%'` },
] as const;

export type PayloadReport = { readonly rows: number; readonly purged: number };

export async function checkPayloads(
  db: Db,
  claims: readonly LogClaim[],
  options: { some_detached: boolean; removals: Removals | null; window_events?: number },
  problems: Problems,
): Promise<PayloadReport> {
  const claiming = claims.filter(({ type }) => REMOVING.has(type));
  const { removals, window_events = WINDOW } = options;
  // One that could be a choice counts only if the auditor allows it.
  const counting = purgesOf(claims).filter(
    (purge) => purge.last_id !== null || !removals || allowsPurge(removals, purge),
  );
  const check = new PayloadCheck(counting.map(withId), forgottenTimes(claims), problems);
  for (const part of PARTS)
    for (let from: string | null = part.from; from !== null; ) {
      const to: string | null = await windowEnd(db, from, part.to, window_events);
      await check.window(db, { from, to: to ?? part.to }, part.types);
      from = to;
    }
  const claimed = claiming.reduce((sum, { facts }) => sum + Number(facts['payloads']), 0);
  const differs = options.some_detached ? check.purged > claimed : check.purged !== claimed;
  if (differs)
    problems.add(
      'bytes',
      `purges claim to have removed ${claimed} payloads, and ${check.purged} are gone`,
    );
  return { rows: check.rows, purged: check.purged };
}

const REMOVING: ReadonlySet<string> = new Set(['payloads.purged', 'payloads.forgotten']);

/** By submission: when it was forgotten last. */
function forgottenTimes(claims: readonly LogClaim[]): Map<Id, Date> {
  const times = new Map<Id, Date>();
  for (const { at, submissions } of forgottenIn(claims))
    for (const id of submissions) times.set(latin(id), at);
  return times;
}

const latin = (uuid: string): Id => Buffer.from(uuid.replaceAll('-', ''), 'hex').toString('latin1');

const withId = ({ last_id, ...purge }: ClaimedPurge): Purge => ({
  ...purge,
  last_id: last_id === null ? null : latin(last_id),
});

/** Where a window ends that begins here: between two streams. Null: it is the last one before `to`. */
async function windowEnd(
  db: Db,
  from: string,
  to: string | null,
  window_events: number,
): Promise<string | null> {
  const before = to === null ? db`` : db`and stream < ${to}`;
  const [row] = await db<{ stream: string }[]>`
    select stream from runledger.events where stream >= ${from} ${before}
    order by stream offset ${window_events} limit 1`;
  if (!row) return null;
  // Otherwise there would be windows without end.
  if (row.stream < from)
    throw new Error(`the index of streams leads from ${from} back to ${row.stream}`);
  if (row.stream !== from) return row.stream;
  const [next] = await db<{ stream: string }[]>`
    select stream from runledger.events where stream > ${from} ${before} order by stream limit 1`;
  return next?.stream ?? null;
}

type Expected = {
  readonly size: number;
  readonly sha256: string;
  readonly at: Date;
  found: boolean;
};

type Stream = {
  readonly id: Id;
  readonly bytes: Map<string, Expected>;
  /** Kinds of which a second event has a digest. */
  readonly twice: string[];
  /** The latest time of its events up to the end: an end may not be dated to before what it ended. */
  ended_at: Date | null;
  latest: Date;
  /** When its deliveries waited; the last one may still wait. */
  readonly waited: { from: Date; to: Date | null }[];
  /** The times of its deliveries' events: a purge leaves a stream with an event that is not before its time. */
  readonly later: Date[];
  /** Of a test set: nothing of it may be there. */
  deleted: boolean;
};

/**
 * Purges by their time, and those of one time by their last id. A purge of ten million submissions is ten thousand events, and
 * each payload looks for its own, so none before it is tried.
 */
class PurgeIndex {
  readonly #times: { readonly ended_before: Date; readonly purges: Purge[] }[] = [];

  constructor(purges: readonly Purge[]) {
    const byTime = Map.groupBy(purges, ({ ended_before }) => ended_before.getTime());
    // A time that is none covers nothing.
    for (const [time, of_time] of byTime)
      if (!Number.isNaN(time))
        this.#times.push({
          ended_before: new Date(time),
          purges: of_time.sort((a, b) => Number(idBefore(b, a)) - Number(idBefore(a, b))),
        });
    this.#times.sort((a, b) => a.ended_before.getTime() - b.ended_before.getTime());
  }

  /** A purge that covers these bytes, and whose claim is of this kind. */
  find(stream: Stream, bytes: Expected, isOf: (purge: Purge) => boolean): Purge | null {
    const { ended_at } = stream;
    if (ended_at === null) return null;
    const times = this.#times;
    for (let n = firstFrom(times, (each) => each.ended_before > ended_at); n < times.length; n++) {
      const { purges } = times[n]!;
      const reaches = ({ last_id }: Purge) => last_id === null || stream.id <= last_id;
      for (let m = firstFrom(purges, reaches); m < purges.length; m++)
        if (isOf(purges[m]!) && covers(purges[m]!, stream, bytes)) return purges[m]!;
    }
    return null;
  }
}

/** One without a last id covers any id, so it is behind the others. */
const idBefore = (a: Purge, b: Purge): boolean =>
  a.last_id !== null && (b.last_id === null || a.last_id < b.last_id);

/** The index of the first element from which on all are of this kind. */
function firstFrom<Element>(list: readonly Element[], isOf: (element: Element) => boolean): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isOf(list[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}

class PayloadCheck {
  rows = 0;
  purged = 0;
  readonly #purges: PurgeIndex;
  readonly #forgotten: ReadonlyMap<Id, Date>;
  readonly #problems: Problems;

  constructor(purges: readonly Purge[], forgotten: ReadonlyMap<Id, Date>, problems: Problems) {
    this.#purges = new PurgeIndex(purges);
    this.#forgotten = forgotten;
    this.#problems = problems;
  }

  async window(
    db: Db,
    { from, to }: { readonly from: string; readonly to: string | null },
    types: string,
  ): Promise<void> {
    const where = `stream >= '${from}'${to === null ? '' : ` and stream < '${to}'`}`;
    const streams = await readStreams(db, `${where} and (${types})`);
    for await (const row of readPayloads(db, where)) {
      this.rows++;
      this.#compare(streams.get(row.stream), row);
    }
    for (const stream of streams.values()) {
      for (const [kind, expected] of stream.bytes)
        if (!expected.found && !stream.deleted) this.#missing(stream, kind, expected);
      for (const kind of stream.twice)
        this.#problems.add(
          'bytes',
          () => `two events of ${textOf(stream.id)} name the bytes of ${kind}`,
        );
    }
  }

  #compare(stream: Stream | undefined, { stream: id, kind, size, sha256 }: Payload): void {
    const expected = stream?.bytes.get(kind);
    if (!expected) {
      this.#problems.add(
        'bytes',
        () => `payloads: ${textOf(id)} ${kind} should not be there: no event names it`,
      );
      return;
    }
    expected.found = true;
    if (expected.size !== size || expected.sha256 !== sha256)
      this.#problems.add(
        'bytes',
        () => `payloads: ${textOf(id)} ${kind} does not have the bytes that its event names`,
      );
    if (stream!.deleted)
      this.#problems.add(
        'bytes',
        () => `payloads: ${textOf(id)} ${kind} is there, and its test set was deleted`,
      );
    const claim = this.#purges.find(stream!, expected, isRequired);
    const gone_at = claim?.at ?? this.#forgottenAt(stream!, expected);
    if (gone_at)
      this.#problems.add(
        'bytes',
        () =>
          `payloads: ${textOf(id)} ${kind} is there, and the ${claim ? 'purge' : 'removal'} at ${timeText(gone_at)} claims that it is gone`,
      );
  }

  /** When the bytes were removed because somebody asked for it; null if they were not. */
  #forgottenAt(stream: Stream, { at }: Expected): Date | null {
    const removed_at = this.#forgotten.get(stream.id);
    return removed_at && at <= removed_at && wasOver(stream, removed_at) ? removed_at : null;
  }

  #missing(stream: Stream, kind: string, expected: Expected): void {
    const claimed =
      this.#forgottenAt(stream, expected) ?? this.#purges.find(stream, expected, () => true);
    if (claimed) this.purged++;
    else
      this.#problems.add(
        'bytes',
        () => `payloads: ${textOf(stream.id)} ${kind} is missing, and no purge claims it`,
      );
  }
}

/** A submission is forgotten after it has ended, and while no delivery of it waits. */
const wasOver = ({ ended_at, waited }: Stream, at: Date): boolean =>
  ended_at !== null &&
  ended_at <= at &&
  !waited.some(({ from, to }) => from <= at && (to === null || at < to));

/** Whether the purge could have removed these bytes. */
function covers({ at, ended_before, last_id }: Purge, stream: Stream, bytes: Expected): boolean {
  return (
    stream.ended_at !== null &&
    stream.ended_at < ended_before &&
    (last_id === null || stream.id <= last_id) &&
    bytes.at <= at &&
    (last_id === null || !stream.later.some((time) => time >= ended_before && time <= at)) &&
    !stream.waited.some(({ from, to }) => from <= at && (to === null || at < to))
  );
}

/** Whether it must have removed what it covers. */
const isRequired = ({ last_id }: Purge): boolean => last_id !== null;

const WEBHOOK = 'webhook_url';

const isDelivery = ({ bytes }: Stream, type: string): boolean =>
  type.startsWith('delivery.') && bytes.has(WEBHOOK);

/** The events of a window that decide what bytes there must be, read as text: type, time, and the digests. */
async function readStreams(db: Db, where: string): Promise<Map<Id, Stream>> {
  const streams = new Map<Id, Stream>();
  const query = `select stream, type, at, facts -> 'bytes' from runledger.events
    where ${where} order by stream, version`;
  for await (const rows of readEntries(db, query)) for (const row of rows) addEvent(streams, row);
  return streams;
}

const idOf = (bytes: Buffer, at: number): Id => bytes.toString('latin1', at, at + 16);
const textOf = (id: Id): string => uuidText(Buffer.from(id, 'latin1'));

function addEvent(streams: Map<Id, Stream>, row: Buffer): void {
  const id = idOf(row, 6);
  const type_end = 26 + row.readInt32BE(22);
  const type = row.toString('latin1', 26, type_end);
  const at = timeOf(row.readBigInt64BE(type_end + 4));
  let stream = streams.get(id);
  if (!stream) {
    stream = {
      id,
      bytes: new Map(),
      twice: [],
      ended_at: null,
      latest: at,
      waited: [],
      later: [],
      deleted: false,
    };
    streams.set(id, stream);
  }
  if (at > stream.latest) stream.latest = at;
  if (isDelivery(stream, type)) stream.later.push(at);
  if (ENDING_TYPES.has(type)) stream.ended_at = stream.latest;
  else if (type === 'delivery.requested' && isDelivery(stream, type)) {
    // One that still waits may be requested again. It ends once.
    if (stream.waited.at(-1)?.to !== null) stream.waited.push({ from: at, to: null });
  } else if (type === 'delivery.ended' && stream.waited.length > 0) stream.waited.at(-1)!.to = at;
  else if (type === 'test_set.deleted') stream.deleted = true;
  if (row.readInt32BE(type_end + 12) < 0) return;
  const bytes: Record<string, Expected | null> | null = JSON.parse(
    row.toString('utf8', type_end + 17, row.length),
  );
  for (const [kind, digest] of Object.entries(bytes ?? {})) {
    const expected = { size: digest?.size ?? -1, sha256: digest?.sha256 ?? '', at, found: false };
    // The first counts: a later event cannot replace what was said.
    if (stream.bytes.has(kind)) stream.twice.push(kind);
    else stream.bytes.set(kind, expected);
  }
}

type Payload = { stream: Id; kind: string; size: number; sha256: string };

async function* readPayloads(db: Db, where: string): AsyncGenerator<Payload> {
  const query = `select stream, kind, salt, bytes from runledger.payloads where ${where} order by stream, kind`;
  for await (const rows of readEntries(db, query)) for (const row of rows) yield payloadOf(row);
}

const SMALL = 64 * 1024;

function payloadOf(row: Buffer): Payload {
  const kind_end = 26 + row.readInt32BE(22);
  const salt_end = kind_end + 4 + row.readInt32BE(kind_end);
  const salt = row.subarray(kind_end + 4, salt_end);
  const bytes = row.subarray(salt_end + 4);
  const sha256 =
    bytes.length < SMALL
      ? hash('sha256', Buffer.concat([salt, bytes]))
      : createHash('sha256').update(salt).update(bytes).digest('hex');
  return {
    stream: idOf(row, 6),
    kind: row.toString('utf8', 26, kind_end),
    size: bytes.length,
    sha256,
  };
}
