/**
 * `./runledger verify`: is the log whole, is each event of its schema, does the log match its seals, and does everything
 * else match the log?
 */
import type { Db } from '../db.ts';
import { isKnown } from '../domain/events.ts';
import type { HeadFile } from '../domain/seal_chain.ts';
import { eventProblems, lineOf } from './verify_events.ts';
import { type Comparison, compareAll, type Difference } from './verify_projections.ts';
import { type SealReport, verifySeals } from './verify_seals.ts';

export type Verification = {
  well: boolean;
  events: number;
  /** The first problem, in one line. */
  first_difference: string | null;
  problems: string[];
  seals: SealReport;
  comparisons: Comparison[];
};

export type VerifyOptions = {
  head: HeadFile | null;
  /** Public keys whose signatures count, base64; none: signatures are not checked. */
  signers: readonly string[];
};

export async function verify(db: Db, options: VerifyOptions): Promise<Verification> {
  // Reading the events into Node takes about as long as all the rest, so the two go on side by side.
  if (db.options.max > 1) {
    const [rest, facts] = await Promise.all([verifyInOne(db, options), factProblems(db)]);
    return together(rest, facts);
  }
  return together(await verifyInOne(db, options), await factProblems(db));
}

type Parts = Omit<Verification, 'well' | 'first_difference' | 'problems'> & {
  /** Problems of the log itself, and then of everything else. */
  of_log: string[];
  of_rest: string[];
};

function together({ of_log, of_rest, ...parts }: Parts, facts: string[]): Verification {
  const problems = [...of_log, ...facts, ...of_rest];
  return { well: problems.length === 0, first_difference: problems[0] ?? null, problems, ...parts };
}

/** In one snapshot, so that the service may go on while it runs. */
async function verifyInOne(db: Db, options: VerifyOptions): Promise<Parts> {
  return (await db.begin('isolation level repeatable read read only', async (tx) => {
    // The cost is in hashing and sorting all of the log at once.
    await tx`set local work_mem = '256MB'`;
    const snapshot = tx as unknown as Db;
    const seals = await verifySeals(snapshot, options);
    const shape = await logShape(snapshot);
    const unknown = await unknownEvents(snapshot);
    const guards = await missingGuards(snapshot);
    const comparisons = await compareAll(tx);
    return {
      events: shape.events,
      seals,
      comparisons,
      of_log: [
        ...seals.events.map(
          (event) =>
            `${event.kind} event: ${event.stream} version ${event.version}${event.type ? ` (${event.type})` : ''}`,
        ),
        ...seals.problems,
        ...shape.problems,
        ...unknown,
      ],
      of_rest: [...guards, ...comparisons.flatMap(problemsOf)],
    };
  })) as Parts;
}

const MAX_SHOWN = 1000;

/** One line for each event whose facts are not of their schema. A snapshot of its own will do: an event never changes. */
async function factProblems(db: Db): Promise<string[]> {
  return (await db.begin('read only', async (tx) => {
    const problems: string[] = [];
    let more = 0;
    for await (const found of eventProblems(tx as unknown as Db)) {
      // unknownEvents() counts these.
      if (!isKnown(found.type, found.schema)) continue;
      if (problems.length < MAX_SHOWN) problems.push(lineOf(found));
      else more += 1;
    }
    return more > 0
      ? [...problems, `the facts of ${more} more events are not of their schema`]
      : problems;
  })) as string[];
}

/** Every stream's versions run from 1 without a gap. */
async function logShape(db: Db): Promise<{ events: number; problems: string[] }> {
  const [row] = await db<
    { events: number; stream: string | null; count: number; newest: number }[]
  >`
    with streams as (
      select stream, count(*)::integer as count, max(version) as newest, min(version) as oldest
      from runledger.events group by stream
    ), broken as (
      select * from streams where count <> newest or oldest <> 1 order by stream limit 1
    )
    select (select coalesce(sum(count), 0)::integer from streams) as events, b.stream, b.count, b.newest
    from (select) one left join broken b on true`;
  const { events, stream, count, newest } = row!;
  const problems = stream ? [`stream ${stream} has ${count} events up to version ${newest}`] : [];
  return { events, problems };
}

/** Types and shapes that this version does not know: an older version finds them in the log of a newer one. */
async function unknownEvents(db: Db): Promise<string[]> {
  const rows = await db<{ type: string; schema: number; count: number }[]>`
    select type, schema, count(*)::integer from runledger.events group by type, schema order by type, schema`;
  return rows
    .filter(({ type, schema }) => !isKnown(type, schema))
    .map(
      ({ type, schema, count }) =>
        `${count} events are of a type that is not known: ${type}, schema ${schema}`,
    );
}

/** The triggers that refuse changes, on every partition. */
async function missingGuards(db: Db): Promise<string[]> {
  const rows = await db<{ table: string; trigger: string }[]>`
    with guarded as (
      select relid as oid from pg_partition_tree('runledger.events') union all select 'runledger.seals'::regclass
    )
    select g.oid::regclass::text as table, w.trigger
    from guarded g cross join (values ('refuse_change'), ('refuse_truncate')) w(trigger)
    where not exists (
      select from pg_trigger t where t.tgrelid = g.oid and t.tgname = w.trigger and t.tgenabled = 'A')
    order by 1, 2`;
  return rows.map(
    ({ table, trigger }) => `${table} is not guarded: its trigger ${trigger} is missing or off`,
  );
}

function problemsOf({ name, problem, differences, first }: Comparison): string[] {
  if (problem) return [`${name}: ${problem}`];
  if (!first) return [];
  const more = differences > 1 ? `, and ${differences - 1} more` : '';
  return [`${name}: ${describe(first)}${more}`];
}

function describe({ row, expected, found }: Difference): string {
  if (!found) return `${row} is missing`;
  if (!expected) return `${row} should not be there`;
  return `${row} is ${JSON.stringify(found)} and should be ${JSON.stringify(expected)}`;
}
