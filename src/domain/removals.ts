/**
 * The removals that an auditor allows: a file beside the policy, outside the database. What retention removed is claimed by
 * events of the log, and anybody who can append can append a claim. So each claim must be in this file.
 *
 *   detached PARTITION EVENTS LEAVES_SHA256     a month; - for a month that was detached before there was a tree
 *   purged TIME | older-than 90d                bytes of submissions that ended before the time, or so long before the purge
 *   forgotten ID                                bytes of a submission, of all of an account, or a test set that was asked for
 *   repaired NAME SIZE                          that the log gave up this name after a checkpoint over so many events
 */
export type Removals = {
  readonly detached: readonly {
    readonly partition: string;
    readonly events: number;
    readonly leaves_sha256: string | null;
  }[];
  /** Times before which a purge may have removed bytes. */
  readonly purged_before: readonly Date[];
  /** Ages from which a purge may remove bytes. */
  readonly purged_older_than_ms: readonly number[];
  /** Ids of submissions, accounts and test sets, in lower case. */
  readonly forgotten: ReadonlySet<string>;
  /** Checkpoints that the log need not have any more. */
  readonly repaired: readonly { readonly origin: string; readonly size: number }[];
};

/** What a payloads.purged event claims. */
export type Purge = {
  readonly at: Date;
  readonly ended_before: Date;
  /** It claims all that ended up to this id. Null in an event from before this fact existed: it claims some. */
  readonly last_id: string | null;
};

export class BadRemovals extends Error {}

export function parseRemovals(text: string): Removals {
  const detached: Removals['detached'][number][] = [];
  const purged_before: Date[] = [];
  const purged_older_than_ms: number[] = [];
  const forgotten = new Set<string>();
  const repaired: Removals['repaired'][number][] = [];
  text.split('\n').forEach((line, n) => {
    const words = line.split(/\s+/).filter(Boolean);
    if (words.length === 0 || words[0]!.startsWith('#')) return;
    const rest = words.slice(1).join(' ');
    const month = MONTH.exec(rest);
    const name = NAME_AND_SIZE.exec(rest);
    const age = /^older-than ([1-9]\d*)d$/.exec(rest);
    const time = timeIn(rest);
    if (words[0] === 'detached' && month && isSafe(month[2]!)) {
      const [, partition, events, sha256] = month;
      const leaves_sha256 = sha256 === '-' ? null : sha256!;
      detached.push({ partition: partition!, events: Number(events), leaves_sha256 });
    } else if (words[0] === 'repaired' && name && isSafe(name[2]!))
      repaired.push({ origin: name[1]!, size: Number(name[2]) });
    else if (words[0] === 'forgotten' && UUID.test(rest)) forgotten.add(rest);
    else if (words[0] === 'purged' && age && isSafe(age[1]!))
      purged_older_than_ms.push(Number(age[1]) * DAY_MS);
    else if (words[0] === 'purged' && time) purged_before.push(time);
    else throw new BadRemovals(`line ${n + 1}: not a removal: ${line.trim()}`);
  });
  return { detached, purged_before, purged_older_than_ms, forgotten, repaired };
}

const DAY_MS = 86_400_000;
/** Months that retention can have detached (src/store/uuid_months.ts). */
const MONTH = /^(events_(?:19[7-9]|20\d|21\d)\d_(?:0[1-9]|1[0-2])) (0|[1-9]\d*) ([0-9a-f]{64}|-)$/;
/** The name is as in a key of the policy. */
const NAME_AND_SIZE = /^([^\s+\p{Cc}]+) ([1-9]\d*)$/u;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const TIME =
  /^(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

const isSafe = (digits: string): boolean => Number.isSafeInteger(Number(digits));

/** A Date takes 30 February for 2 March, and 24:00 for the next day. Null for what is no time. */
function timeIn(text: string): Date | null {
  const date = DATE.test(text) ? text : TIME.exec(text)?.[1];
  const day = new Date(date ?? Number.NaN);
  if (Number.isNaN(day.getTime()) || !day.toISOString().startsWith(date!)) return null;
  return new Date(text);
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const isId = (text: string): boolean => UUID.test(text);

export const NO_REMOVALS: Removals = {
  detached: [],
  purged_before: [],
  purged_older_than_ms: [],
  forgotten: new Set(),
  repaired: [],
};

export function allowsDetached(
  removals: Removals,
  { partition, events, leaves_sha256 }: Removals['detached'][number],
): boolean {
  return removals.detached.some(
    (each) =>
      each.partition === partition &&
      each.events === events &&
      each.leaves_sha256 === leaves_sha256,
  );
}

/** An event without a last id could cover a choice of submissions. So an age does not allow it: a time must. */
export function allowsPurge(removals: Removals, { at, ended_before, last_id }: Purge): boolean {
  return (
    removals.purged_before.some((time) => ended_before <= time) ||
    (last_id !== null &&
      removals.purged_older_than_ms.some((ms) => at.getTime() - ended_before.getTime() >= ms))
  );
}

/** What a payloads.forgotten event claims. */
export type Forgotten = {
  readonly at: Date;
  readonly account_id: string | null;
  readonly submissions: readonly string[];
};

export const allowsForgotten = (
  { forgotten }: Removals,
  { account_id, submissions }: Forgotten,
): boolean =>
  (account_id !== null && forgotten.has(account_id)) ||
  submissions.every((id) => forgotten.has(id));

export const allowsRepair = (
  { repaired }: Removals,
  before: { origin: string; size: number },
): boolean => repaired.some(({ origin, size }) => origin === before.origin && size === before.size);
