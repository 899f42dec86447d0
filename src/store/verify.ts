/**
 * `./runledger verify`: does everything in the database follow from a log that nobody has changed? Nothing inside the database
 * is believed:
 *
 *   1. The schema must be the one of this release (verify_shape.ts), because the rest reads tables.
 *      No row may break a constraint (verify_constraints.ts), or be in another partition than its own (verify_places.ts). Each
 *      index must lead to the rows of its table, and to no two with a key that must be unique (verify_indexes.ts).
 *   2. The log is read as rows, hashed here, and compared with the tree and with every checkpoint (verify_log.ts).
 *   3. What retention claims is held against what is gone (verify_removals.ts, verify_payloads.ts), and the bytes of test sets
 *      against their hashes (verify_test_sets.ts).
 *   4. Everything that is derived from the log is compared with it (verify_projections.ts).
 *
 *   5. The schema must not have been changed in the meantime (catalogue_changes.ts).
 *
 * It reads one snapshot, so the service may go on while it runs, and what does not depend on another step is done at the same
 * time, on several connections (lanes.ts). The commands that exchange tables wait for it (beside_verify.ts). It goes on after a
 * problem, because the first one found is seldom the first one made.
 */
import { type Db, isAway } from '../db.ts';
import { agoText, DATED_BACK_LATE_MS, timeText } from '../domain/clocks.ts';
import { printable } from '../domain/printable.ts';
import { NO_REMOVALS, type Removals } from '../domain/removals.ts';
import type { HeadFile } from '../domain/seal_chain.ts';
import { noteText } from '../proof/note.ts';
import type { Policy } from '../proof/policy.ts';
import { type Attempt, attempts } from './attempts.ts';
import { VERIFY_LOCK } from './beside_verify.ts';
import { catalogueMarks, type Marks, reportChanges } from './catalogue_changes.ts';
import type { LogClaim } from './entry_check.ts';
import type { EventDifference } from './event_differences.ts';
import { inLanes, type Run } from './lanes.ts';
import { nameDifferences } from './name_differences.ts';
import { oneLine, Problems } from './problems.ts';
import { hasConflictCode, type OnGone } from './recovery.ts';
import {
  judgeSketch,
  type Kept,
  type Proven,
  type SignedNote,
  type Trust,
  type Unaccepted,
} from './signed_notes.ts';
import { checkIndexes } from './verify_indexes.ts';
import { checkLog, type LogReport } from './verify_log.ts';
import { checkPayloads } from './verify_payloads.ts';
import { believable, type Comparison, compareAll, type Difference } from './verify_projections.ts';
import { checkDetached, checkForgotten, checkRemovals, checkRepairs } from './verify_removals.ts';
import { type SealReport, verifySeals } from './verify_seals.ts';
import { readNow, sessionSettings } from './verify_session.ts';
import { checkRows, checkShape, knownDefinitions } from './verify_shape.ts';
import { checkStreams } from './verify_streams.ts';
import { checkTestSets, type TestSetReport } from './verify_test_sets.ts';

export type Verification = {
  /** No problem was found. */
  well: boolean;
  /** What is proven, where there is a policy and no problem. */
  proven: Proven | null;
  /** Why nothing is proven, where there is no problem. */
  unproven: string | null;
  /** What is sealed behind it. */
  unaccepted: Unaccepted | null;
  events: number;
  sealed: number;
  unsealed: number;
  /** The earliest time of those that are not sealed, as they say. */
  oldest_unsealed_at: Date | null;
  checkpoints: number;
  /** The newest checkpoint, with its cosignatures. */
  newest: { size: number; note: string } | null;
  /** The newest checkpoints of the names that the log had before, and did not give up. */
  earlier: { size: number; note: string }[];
  /** Months that retention detached. */
  detached: string[];
  /** Each repair of the tree, in one line. */
  repaired: string[];
  payloads: { rows: number; purged: number };
  test_sets: TestSetReport;
  first_difference: string | null;
  problems: string[];
  /** How many there are of each group. */
  problem_counts: Readonly<Record<string, number>>;
  /** The events that differ, as far as they can be named. */
  differences: EventDifference[];
  /** What could not be checked, on this server or in this database. */
  unchecked: string[];
  comparisons: Comparison[];
  /** The old chain, if a head of it was given. */
  seals: SealReport | null;
};

export type VerifyOptions = Partial<Trust> & {
  /** Null: there is no such file. With a policy, nothing may then have been removed. */
  readonly removals?: Removals | null;
  /** A checkpoint that was kept outside the database. */
  readonly kept?: Kept | null;
  /** The database is that of the service, and no earlier copy: what can be sealed is sealed and cosigned within a day. */
  readonly live?: boolean;
  /** A head of the old chain, and whose signatures count: public keys, base64. */
  readonly head?: HeadFile | null;
  readonly signers?: readonly string[];
};

/** verify could not go on. `problems`: what it had found. */
export class VerifyEnded extends Error {
  readonly problems: readonly string[];
  constructor(message: string, problems: readonly string[], options: ErrorOptions) {
    super(message, options);
    this.name = 'VerifyEnded';
    this.problems = problems;
  }

  static by(cause: Error, problems: readonly string[]): VerifyEnded {
    return new VerifyEnded(whyEnded(cause), problems, { cause });
  }
}

export async function verify(db: Db, options: VerifyOptions = {}): Promise<Verification> {
  const problems = new Problems();
  const gone = Promise.withResolvers<never>();
  try {
    return await Promise.race([verifyNow(db, options, problems, gone.reject), gone.promise]);
  } catch (error) {
    throw VerifyEnded.by(error as Error, problems.lines());
  }
}

function whyEnded(error: Error): string {
  const message = printable(error.message);
  if (hasConflictCode(error))
    return `the standby cancelled a statement of verify: ${message}. Run it again; with hot_standby_feedback, or a longer max_standby_streaming_delay, it happens less often`;
  // A connection that ends between two statements of a transaction is a TypeError in postgres.js.
  return isAway(error) || error instanceof TypeError
    ? `PostgreSQL ended the connection of verify: ${message}. Its log says why; a transaction_timeout of the role or the database can be the reason`
    : `verify could not go on: ${message}`;
}

async function verifyNow(
  db: Db,
  options: VerifyOptions,
  problems: Problems,
  onGone: OnGone,
): Promise<Verification> {
  const parts = Object.fromEntries(PARTS.map((name) => [name, problems.part()])) as Parts;
  const found = await inLanes(
    db,
    {
      settings: await sessionSettings(db),
      prepare: (run) =>
        attempts(run)(
          'schema',
          'the schema',
          parts.lock,
          (its) => its.unsafe(VERIFY_LOCK).simple(),
          null,
        ),
      begin: async (run) => {
        const attempt = attempts(run);
        const none: Marks = new Map();
        return {
          marks: await attempt('schema', 'the catalogue', parts.catalogue, catalogueMarks, none),
          shape: await attempt('schema', 'the schema', parts.schema, checkShape, []),
        };
      },
      onGone,
    },
    async (run, begun) => ({ ...begun, ...(await verifyIn(run, options, parts, begun.shape)) }),
  );
  await readNow(db, (tx) => reportChanges(tx, found.marks, parts.end));
  return conclude(found, options, problems, parts.end);
}

/** What they find comes out in this order, and not in that in which they end. */
const PARTS = [
  'lock',
  'catalogue',
  'schema',
  'rows',
  'indexes',
  'log',
  'sketch',
  'differences',
  'streams',
  'removals',
  'forgotten',
  'detached',
  'payloads',
  'test_sets',
  'derived',
  'seals',
  'age',
  'names',
  'end',
] as const;
type Parts = Readonly<Record<(typeof PARTS)[number], Problems>>;

async function verifyIn(run: Run, options: VerifyOptions, parts: Parts, shape: readonly string[]) {
  const { policy = null, head = null, signers = [] } = options;
  const attempt = attempts(run);
  const known = await knownDefinitions();
  // What takes longest begins first.
  const [of_log, compared, rows, stored, seals] = await Promise.all([
    readLog(attempt, options, parts),
    compareAll(run),
    attempt('schema', 'rows', parts.rows, checkRows, []),
    attempt('streams', 'streams', parts.streams, checkStreams, null),
    head
      ? attempt(
          'checkpoints',
          'the old chain',
          parts.seals,
          (db) => verifySeals(db, { head, signers }),
          null,
        )
      : null,
    checkIndexes(attempt, known, parts.indexes),
  ]);
  const { log, ...its } = of_log;
  if (stored !== null && log !== UNREAD && stored !== log.events)
    parts.streams.add(
      'order',
      `the tables hold ${stored} events, and their index of the feed gives ${log.events}`,
    );
  const comparisons = believable(compared, log.types);
  for (const comparison of comparisons) reportComparison(comparison, parts.derived);
  if (seals) reportSeals(seals, parts.seals);
  const unchecked = [...shape, ...rows];
  if (options.live) checkAge(log, parts.age);
  else unchecked.push(...unacceptedLines(log.unaccepted));
  unchecked.push(...absentLogs(log, policy, 'database'), ...(log.elsewhere ? [ELSEWHERE] : []));
  return { log, ...its, unchecked: [...unchecked, ...its.unjudged], comparisons, seals };
}

/** The log, and what is held against its claims. */
async function readLog(attempt: Attempt, options: VerifyOptions, parts: Parts) {
  const { policy = null, keys = [], kept = null } = options;
  const trust = { policy, keys };
  const removals = policy ? (options.removals ?? NO_REMOVALS) : null;
  const log = await attempt(
    'events',
    'the log',
    parts.log,
    (db, problems) => checkLog(db, { trust, kept }, problems),
    UNREAD,
  );
  const { claims } = log;
  const months = checkRemovals(claims, log.gaps, removals, parts.removals);
  checkRepairs(claims, policy, removals, parts.removals);
  const [differences, payloads, test_sets, unjudged] = await Promise.all([
    log.difference_count > 0 || log.kept_differs
      ? attempt(
          'events',
          'differences',
          parts.differences,
          (db, problems) => nameDifferences(db, { trust, kept }, log, problems),
          [],
        )
      : [],
    attempt(
      'bytes',
      'payloads',
      parts.payloads,
      (db, problems) =>
        checkPayloads(db, claims, { some_detached: months.length > 0, removals }, problems),
      { rows: 0, purged: 0 },
    ),
    attempt(
      'bytes',
      'test sets',
      parts.test_sets,
      (db, problems) => checkTestSets(db, claims, problems),
      { sets: 0, contents: 0 },
    ),
    policy
      ? attempt(
          'checkpoints',
          'names that the log gave up',
          parts.names,
          (db) => unjudgedNames(db, claims, policy),
          [],
        )
      : [],
    attempt(
      'checkpoints',
      'the sketch',
      parts.sketch,
      (db, problems) => checkStoredSketch(db, trust, log, problems),
      null,
    ),
    attempt(
      'removals',
      'what was forgotten',
      parts.forgotten,
      (db, problems) => checkForgotten(db, claims, problems),
      null,
    ),
    attempt(
      'removals',
      'removals',
      parts.detached,
      (db, problems) => checkDetached(db, months, problems),
      null,
    ),
  ]);
  return { log, months, payloads, test_sets, differences, unjudged };
}

const ELSEWHERE =
  'the log ran on another PostgreSQL last, so its newest events can be of transactions that had not begun there; `migrate` begins to seal them';

/**
 * Sealing waits for transactions that run. The longest are those of retention. Witnesses may be away for some hours. What
 * they have not signed, the holder of the log's key can still change.
 */
function checkAge({ oldest_unsealed_at, newest, unaccepted }: LogReport, problems: Problems): void {
  const now = Date.now();
  const ageOf = (time: Date | null | undefined) =>
    time && now - time.getTime() > DATED_BACK_LATE_MS ? agoText(time.getTime(), now) : null;
  const copy = 'for an earlier copy of the database, use --offline';
  const unsealed = newest && ageOf(oldest_unsealed_at);
  if (unsealed)
    problems.add(
      'checkpoints',
      `the log has checkpoints, and an event of ${unsealed} is not sealed: anybody could change it. \`doctor\` says why nothing is sealed; ${copy}`,
    );
  const age = ageOf(unaccepted?.oldest_at);
  if (age)
    problems.add(
      'checkpoints',
      `${unaccepted!.leaves} leaves are sealed behind the last checkpoint that the policy accepts, and one is of ${age}: the holder of the log's key could change them. \`doctor\` says why witnesses do not sign; ${copy}`,
    );
}

/** Where the age of a copy or of a file is no problem. */
export function unacceptedLines(unaccepted: Unaccepted | null): string[] {
  if (!unaccepted) return [];
  const { leaves, oldest_at } = unaccepted;
  const since = oldest_at ? ` since ${timeText(oldest_at)}` : '';
  return [`${leaves} leaves${since}, which are sealed, and which the policy has not accepted`];
}

/**
 * Witnesses are asked about the name of the newest checkpoint, so not about a later name, if the database was rolled back to
 * before it got that one. It is no problem: a policy can name a log before its first checkpoint.
 */
export function absentLogs(
  {
    origins,
    claims,
  }: Pick<LogReport, 'claims'> & { readonly origins: { has(name: string): boolean } },
  policy: Policy | null,
  place: 'database' | 'file',
): string[] {
  const given_up = claims.map(({ facts }) => (facts['before'] as Named | undefined)?.origin);
  const named = new Set((policy?.logs ?? []).map(({ key }) => key.name));
  return [...named]
    .filter((name) => !origins.has(name) && !given_up.includes(name))
    .map((name) => `the ${place} has no checkpoint of the log ${name}, which the policy names`);
}

type Named = { readonly origin: string };

/** A repair gives up its name, and anybody can write one: checkpoints of a name that the policy does not know have no judge. */
async function unjudgedNames(
  db: Db,
  claims: readonly LogClaim[],
  policy: Policy,
): Promise<string[]> {
  const given_up = claims
    .map(({ facts }) => (facts['before'] as Named | undefined)?.origin)
    .filter((name) => name !== undefined && !policy.logs.some(({ key }) => key.name === name));
  const rows = await db<{ origin: string; number: string; count: string }[]>`
    select origin, min(number) as number, count(*) as count from runledger.checkpoints
    where origin in (select jsonb_array_elements_text(${JSON.stringify(given_up)}::text::jsonb)) group by origin order by min(number)`;
  return rows.map(
    ({ origin, number, count }) =>
      `the checkpoints of ${printable(origin)} (${count}, from number ${number} on): a repair gave this name up, and the policy does not have it`,
  );
}

type Found = Awaited<ReturnType<typeof verifyIn>>;

function conclude(
  { log, months, payloads, unjudged: _, ...found }: Found,
  { policy }: VerifyOptions,
  problems: Problems,
  last: Problems,
): Verification {
  const unaccepted = policy && !log.proven ? log.unproven : null;
  if (unaccepted !== null)
    last.add('checkpoints', `the policy accepts no checkpoint of this log: ${unaccepted}`);
  const lines = problems.lines();
  const well = lines.length === 0;
  return {
    well,
    proven: well ? log.proven : null,
    unproven: well && !log.proven ? log.unproven : null,
    unaccepted: log.unaccepted,
    ...{ events: log.events, sealed: log.sealed, unsealed: log.unsealed },
    oldest_unsealed_at: log.oldest_unsealed_at,
    checkpoints: log.checkpoints,
    newest: log.newest && published(log.newest),
    earlier: [...log.origins.values()].filter((each) => each !== log.newest).map(published),
    detached: months.map(({ partition }) => partition),
    repaired: repairLines(log.claims),
    payloads,
    first_difference: lines[0] ?? null,
    problems: lines,
    problem_counts: problems.counts(),
    ...found,
  };
}

const published = ({ size, note }: SignedNote) => ({ size, note: noteText(note) });

export const repairLines = (claims: readonly LogClaim[]): string[] =>
  claims.filter(({ type }) => type === 'log.repaired').map(repairLine);

function repairLine({ at, facts }: LogClaim): string {
  const before = facts['before'] as { origin: string; size: number } | undefined;
  const from = before ? `, which was ${before.origin} over ${before.size} events` : '';
  return oneLine(
    `${timeText(at)} ${facts['origin']} over ${facts['size']} events${from}: ${facts['reason']} (${facts['operator']})`,
  );
}

const UNREAD: LogReport = {
  ...{ events: 0, sealed: 0, unsealed: 0, checkpoints: 0, proven: null, newest: null },
  unproven: 'the log could not be read',
  unaccepted: null,
  ...{
    origins: new Map(),
    gaps: [],
    claims: [],
    types: new Set(),
    oldest_unsealed_at: null,
    elsewhere: false,
    differences: [],
    difference_count: 0,
    kept_size: 0,
    kept_differs: false,
  },
};

async function checkStoredSketch(
  db: Db,
  trust: Trust,
  { newest, sealed }: LogReport,
  problems: Problems,
): Promise<void> {
  const [row] = await db<{ size: string; cells: Buffer; signature: Buffer }[]>`
    select size, cells, signature from runledger.log_sketch`;
  const name = 'the sketch in the database';
  if (!newest) {
    if (row) problems.add('checkpoints', `${name} belongs to no checkpoint`);
  } else if (Number(row?.size) !== sealed)
    problems.add(
      'checkpoints',
      `${name} is ${row ? 'of another checkpoint than the newest' : 'missing'}`,
    );
  else judgeSketch(trust, newest, row!, name, problems);
}

function reportComparison(
  { name, problem, differences, first }: Comparison,
  problems: Problems,
): void {
  if (problem) problems.add('projections', `${name}: ${problem}`);
  else if (first) {
    const more = differences > 1 ? `, and ${differences - 1} more` : '';
    problems.add('projections', `${name}: ${describe(first)}${more}`);
  }
}

function describe({ row, expected, found }: Difference): string {
  if (!found) return `${row} is missing`;
  if (!expected) return `${row} should not be there`;
  return `${row} is ${JSON.stringify(found)} and should be ${JSON.stringify(expected)}`;
}

function reportSeals({ events, problems: of_chain }: SealReport, problems: Problems): void {
  for (const { kind, stream, version, type } of events)
    problems.add(
      'events',
      `${kind} event: ${stream} version ${version}${type ? ` (${type})` : ''}`,
    );
  for (const problem of of_chain) problems.add('checkpoints', problem);
}
