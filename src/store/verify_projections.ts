/**
 * Compares what is stored with what the log gives: every projection with its one definition (fold_submissions,
 * fold_deliveries and the views in sql/views/000_projections.sql), in both directions, and every counter with a recount.
 * Run in one snapshot, so the service may go on while it runs. The database computes the definitions, so what it answers is
 * worth what the check of its functions and views is worth (verify_shape.ts), which comes first.
 */
import type { Db } from '../db.ts';
import type { Run } from './lanes.ts';
import { BY_PAGES, reading } from './scans.ts';
import { PERMANENT } from './stream_kinds.ts';

export type Difference = {
  /** Which row, as its key's text. */
  row: string;
  /** What it should be and what it is, by column; null where there is no row. */
  expected: Record<string, unknown> | null;
  found: Record<string, unknown> | null;
};

export type Comparison = {
  name: string;
  rows: number;
  differences: number;
  first: Difference | null;
  /** Why there is nothing to compare with: the log holds an event that must not be there. */
  problem: string | null;
};

type Question = {
  name: string;
  key: string;
  expected: string;
  found: string;
  /** With events of this type, there is at least one row. */
  given_by?: string;
};

const projections: readonly Question[] = [
  {
    name: 'submissions',
    key: 'id',
    expected: 'fold_submissions()',
    given_by: 'submission.accepted',
  },
  {
    name: 'deliveries',
    key: 'id',
    expected: 'fold_deliveries()',
    given_by: 'delivery.requested',
  },
  { name: 'accounts', key: 'id', expected: 'accounts_from_log', given_by: 'account.created' },
  { name: 'tiers', key: 'id', expected: 'tiers_from_log', given_by: 'tier.set' },
  { name: 'keys', key: 'id', expected: 'keys_from_log', given_by: 'key.created' },
  { name: 'key_secrets', key: 'key_id, digest', expected: 'key_secrets_from_log' },
  { name: 'operators', key: 'id', expected: 'operators_from_log', given_by: 'operator.created' },
  { name: 'test_sets', key: 'id', expected: 'test_sets_from_log' },
  {
    name: 'test_set_contents',
    key: 'test_set_id, content_id',
    expected: 'test_set_contents_from_log',
  },
].map(({ name, expected, ...its }) => ({
  ...its,
  name,
  expected: `select * from runledger.${expected}`,
  found: `select * from runledger.${name}`,
}));

const WAITING = `s.status = 'pending' and s.attempts = 0`;

/** What is counted or stored beside the log, and what it must be by the projections, which are compared first. */
const counters: readonly Question[] = [
  {
    name: 'counters of keys',
    key: 'key_id',
    given_by: 'key.created',
    expected: `
      select k.id as key_id, coalesce(c.dispatched, 0) as dispatched, coalesce(c.gated, 0) as gated
      from runledger.keys k left join (
        select s.key_id, (count(*) filter (where h.submission_id is null))::integer as dispatched,
          (count(h.submission_id) filter (where h.aside is null))::integer as gated
        from runledger.submissions s
        left join runledger.gated h on h.key_id = s.key_id and h.submission_id = s.id
        where s.status in ('pending', 'running') group by s.key_id) c on c.key_id = k.id`,
    found: 'select key_id, dispatched, gated from runledger.key_usage',
  },
  {
    name: 'counters of accounts',
    key: 'account_id',
    given_by: 'account.created',
    expected: `
      select a.id as account_id, coalesce(c.pending, 0) as pending
      from runledger.accounts a left join (
        select s.account_id, count(*)::integer as pending
        from runledger.submissions s where ${WAITING} group by s.account_id) c on c.account_id = a.id`,
    found: 'select account_id, pending from runledger.account_usage',
  },
  {
    name: 'counters of the queue',
    key: 'queue',
    expected: `select 'one' as queue, count(*) as waiting from runledger.submissions s where ${WAITING}`,
    found: `select 'one' as queue, (q.accepted - p.started) as waiting
      from runledger.queue_state q, runledger.queue_progress() p`,
  },
  {
    name: 'gated submissions',
    key: 'submission_id',
    // Whether a submission is gated is not in the log; but only a pending one may be.
    expected: `
      select s.id as submission_id, s.key_id,
        case when starts_with(h.aside, s.language || '/') then h.aside when h.aside is not null then s.language end as aside
      from runledger.gated h
      join runledger.submissions s on s.id = h.submission_id where s.status = 'pending'`,
    found: 'select submission_id, key_id, aside from runledger.gated',
  },
  {
    name: 'leases',
    key: 'submission_id',
    expected: `select s.id as submission_id, s.attempts as attempt from runledger.submissions s where s.status = 'running'`,
    found: 'select submission_id, attempt from runledger.leases',
  },
  {
    name: 'jobs of the queue',
    key: 'submission_id',
    expected: `
      select s.id as submission_id from runledger.submissions s
      where s.status = 'pending' and not exists (
        select from runledger.gated h where h.key_id = s.key_id and h.submission_id = s.id)`,
    // A job may be left over; a submission that waits must have one.
    found: `
      select distinct s.id as submission_id from graphile_worker._private_jobs j
      join runledger.submissions s on s.id = (j.payload ->> 'id')::uuid
      where s.status = 'pending' and not exists (
        select from runledger.gated h where h.key_id = s.key_id and h.submission_id = s.id)`,
  },
  {
    name: 'jobs of deliveries',
    key: 'submission_id',
    expected: `select d.id as submission_id from runledger.deliveries d where d.status = 'waiting'`,
    // Here too a job may be left over.
    found: `
      select distinct d.id as submission_id from graphile_worker._private_jobs j
      join graphile_worker._private_tasks t on t.id = j.task_id and t.identifier = 'deliver_webhook'
      join runledger.deliveries d on d.id = (j.payload ->> 'id')::uuid
      where d.status = 'waiting'`,
  },
  {
    name: 'idempotency keys',
    key: 'account_id, key',
    // The service forgets a key after a day. What it still knows must be what was accepted.
    expected: `
      select (e.facts ->> 'account_id')::uuid as account_id, (e.facts ->> 'idempotency_key')::uuid as key,
        e.stream as submission_id, e.at as created_at
      from runledger.events e
      where e.type = 'submission.accepted' and e.version = 1 and e.facts ->> 'idempotency_key' is not null
        and exists (select from runledger.idempotency i where i.submission_id = e.stream)`,
    found: 'select account_id, key, submission_id, created_at from runledger.idempotency',
  },
  {
    name: 'secrets of webhooks',
    key: 'submission_id',
    // Stored for as long as there is something to sign, and no longer.
    expected: `
      select s.id as submission_id from runledger.submissions s
      left join runledger.deliveries d on d.id = s.id
      where s.has_webhook and coalesce(d.status = 'waiting', s.completed_at is null)`,
    found: 'select submission_id from runledger.webhook_secrets',
  },
  {
    name: 'schedule of retention',
    key: 'schedule',
    // The newest one that the log has, and none if it has none.
    expected: `
      select 'it' as schedule, (s.facts ->> 'keep_bytes_s')::bigint as keep_bytes_s, (s.facts ->> 'keep_events_s')::bigint as keep_events_s
      from (select 1) one left join (
        select e.facts from runledger.events e
        where e.stream >= '${PERMANENT}' and e.type = 'log.retention_set'
        order by e.generation desc, e.xid desc, e.seq desc limit 1) s on true`,
    found: `
      select 'it' as schedule, extract(epoch from r.keep_bytes)::bigint as keep_bytes_s,
        extract(epoch from r.keep_events)::bigint as keep_events_s
      from runledger.retention r`,
  },
];

/**
 * A row that its index hides is a row, too: the tables are read by their pages. An event that must not follow (RL422) stops the
 * fold, and not verify; so does a definition that somebody broke.
 */
export const compareAll = (run: Run): Promise<Comparison[]> =>
  Promise.all(
    [...projections, ...counters].map((question) =>
      run(
        (db) => reading(db, BY_PAGES, () => compare(db, question)),
        ({ message }) => ({
          ...{ name: question.name, rows: 0, differences: 1, first: null },
          problem: message,
        }),
      ),
    ),
  );

/** The database counts the rows, and the log was read here. `types`: of its events. */
export const believable = (
  comparisons: readonly Comparison[],
  types: ReadonlySet<string>,
): Comparison[] =>
  comparisons.map((each) => ({ ...each, problem: each.problem ?? doubt(each, types) }));

function doubt(
  { name, rows, differences, first }: Comparison,
  types: ReadonlySet<string>,
): string | null {
  const given_by = projections.concat(counters).find((each) => each.name === name)?.given_by;
  if (given_by !== undefined && types.has(given_by) && rows === 0)
    return `the database saw no rows, and the log has ${given_by}`;
  if (differences === 0 && first)
    return `the database counts no difference, and ${first.row} differs`;
  if (differences > 0 && !first) return 'the database counts differences, and names none';
  return null;
}

/** `*<>` compares bytes: a number that prints otherwise is another one. */
async function compare(db: Db, { name, key, expected, found }: Question): Promise<Comparison> {
  const [row] = await db.unsafe<
    {
      rows: number;
      differences: number;
      expected: Difference['found'];
      found: Difference['found'];
    }[]
  >(`
    with both_ways as (
      select ${key}, e, f, coalesce(e operator(pg_catalog.*<>) f, true) as differs
      from (${expected}) e full join (${found}) f using (${key})
    ), first as (
      select to_jsonb(e) as expected, to_jsonb(f) as found from both_ways where differs order by ${key} limit 1
    )
    select (select count(*) from both_ways)::integer as rows,
      (select count(*) from both_ways where differs)::integer as differences,
      (select expected from first) as expected, (select found from first) as found`);
  const { rows, differences } = row!;
  const differs = row!.expected !== null || row!.found !== null;
  const first = differs ? differenceOf(key, row!.expected, row!.found) : null;
  return { name, rows, differences, first, problem: null };
}

/** Only the columns that differ, where both are there. */
function differenceOf(
  key: string,
  expected: Difference['expected'],
  found: Difference['found'],
): Difference {
  const one = expected ?? found ?? {};
  const row = key
    .split(', ')
    .map((column) => String(one[column]))
    .join(' ');
  if (!expected || !found) return { row, expected, found };
  const differing = Object.keys(expected).filter(
    (column) => JSON.stringify(expected[column]) !== JSON.stringify(found[column]),
  );
  const pick = (from: Record<string, unknown>) =>
    Object.fromEntries(differing.map((column) => [column, from[column]]));
  return { row, expected: pick(expected), found: pick(found) };
}
