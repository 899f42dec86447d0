/**
 * Fills a ledger with submissions, set by set, as the service would have left them: 30 days of one month, 100 accounts of
 * which the first makes a twentieth of everything. One in ten has a webhook, one in a hundred was lost once, one in fifty has
 * an Idempotency-Key. The last hundred still wait.
 */
import { createHash } from 'node:crypto';
import type { Db } from '../../src/db.ts';

export const MONTH = '2026_06';
export const FROM = '2026-06-01T00:00:00Z';
const DAYS = 30;
const ACCOUNTS = 100;
const BATCH = 50_000;

/** What the questions are asked about, apart from times and one submission. */
export const THE = {
  account: 'account 0',
  key: 'fb000000-0000-4000-8000-000000000000',
  idempotency_key: md5Uuid(100),
  host: 'host7.test',
  tier: 'tier1',
  operator: 'ada1@console',
};

export async function fillLedger(db: Db, submissions: number): Promise<void> {
  const [clock] = await db<
    { now: string }[]
  >`select pg_get_functiondef('runledger.clock'::regproc) as now`;
  await db.unsafe(PREPARE).simple();
  await db.unsafe(clock!.now).simple();
  for (let first = 0; first < submissions; first += BATCH) {
    const last = Math.min(first + BATCH, submissions);
    for (const statement of STATEMENTS) {
      await db.unsafe(statement, [String(first), String(last), String(submissions)]);
    }
  }
  await db.unsafe(CHECKPOINTS).simple();
  for (const table of [
    'events',
    'submissions',
    'payloads',
    'deliveries',
    'refusals',
    'checkpoints',
    'cosignatures',
  ]) {
    await db.unsafe(`vacuum (analyze) runledger.${table}`);
  }
  await db.unsafe('vacuum (analyze) runledger.keys');
}

/**
 * ANALYZE samples how far the values of an index's expression follow the order of the rows. Of random values that is a number
 * near 0, by chance, and a plan may depend on it. This makes it exactly 0, the worst case.
 */
export async function withoutLuck(superuser: Db): Promise<void> {
  for (const slot of [1, 2, 3, 4, 5]) {
    const [kind, numbers] = [superuser(`stakind${slot}`), superuser(`stanumbers${slot}`)];
    await superuser`
      update pg_statistic set ${numbers} = '{0}' where ${kind} = 3 and starelid in (
        select indexrelid from pg_index where indrelid = ${`runledger.events_${MONTH}`}::regclass and indexprs is not null)`;
  }
}

/** The n-th account, key, consumer and submission have ids that can be computed. */
const idOf = (kind: string, n: string) =>
  `('f${kind}000000-0000-4000-8000-' || lpad((${n})::text, 12, '0'))::uuid`;
const operator = (n: string) => `'ada' || (${n}) % 3 || '@console'`;

const PREPARE = `
  set search_path = runledger, pg_temp;
  create or replace function clock() returns timestamptz language sql volatile as $$ select '${FROM}'::timestamptz $$;
  select ensure_partition(parent, '${MONTH}', format('for values from (%L) to (%L)',
    uuid_floor('${FROM}'), uuid_floor('${FROM}'::timestamptz + interval '1 month')))
  from unnest('{events,payloads,submissions,deliveries}'::text[]) parent;
  do $$ begin
    for n in 0 .. ${ACCOUNTS - 1} loop
      perform append_events(${idOf('a', 'n')}, 0, '{account.created}', array[jsonb_build_object('name', 'account ' || n, 'operator', ${operator('n')})]);
      perform project_access(${idOf('a', 'n')});
      perform append_events(${idOf('b', 'n')}, 0, '{key.created}', array[jsonb_build_object('account_id', ${idOf('a', 'n')},
        'tier', 'beta', 'prefix', 'rl', 'digest', encode(sha256(n::text::bytea), 'hex'), 'operator', ${operator('n')})]);
      perform project_access(${idOf('b', 'n')});
    end loop;
    perform set_tier('beta', 60, 10, ${operator('1')});
    for n in 1 .. 20 loop
      perform set_tier('tier' || n % 4, n * 10, n, ${operator('n')});
    end loop;
  end $$;
  insert into refusals
  select ${idOf('b', 'n')}, null, '${FROM}'::timestamptz + h * interval '1 hour', e, 1 + n, '${FROM}'::timestamptz + h * interval '1 hour', 'r' || n
  from generate_series(0, ${ACCOUNTS - 1}) n, generate_series(0, ${24 * DAYS - 1}, 12) h, unnest('{rate_limited,queue_full}'::text[]) e;
  reset search_path;`;

const GIVEN = `
  with given as (
    select n, at, (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid as id,
      case when n % 20 = 0 then 0 else n % ${ACCOUNTS} end as account, n % 10 = 1 as webhook, n % 100 = 7 as lost, n < $3::text::bigint - 100 as ended,
      (array['python', 'cpp', 'java'])[1 + n % 3] as language, (array['AC', 'WA', 'RE', 'TLE'])[1 + n % 7 % 4] as verdict
    from (
      select n, '${FROM}'::timestamptz + n * (interval '${DAYS} days' / $3::text::bigint) as at
      from generate_series($1::text::bigint, $2::text::bigint - 1) n
    ) x
  )`;

const STATEMENTS = [
  `${GIVEN}
  insert into runledger.events (stream, version, type, schema, at, generation, facts)
  select id, (row_number() over (partition by id order by v.step))::integer, v.type, runledger.current_schema_of(v.type), at + v.late, 1, v.facts
  from given cross join lateral (values
    (1, 'submission.accepted', interval '0', true, jsonb_strip_nulls(jsonb_build_object('account_id', ${idOf('a', 'account')}, 'key_id', ${idOf('b', 'account')},
      'language', language, 'compare', 'lenient', 'limits', '{}'::jsonb, 'webhook', case when webhook then true end,
      'bytes', jsonb_build_object('code', jsonb_build_object('size', 8, 'sha256', encode(sha256('\\x00'::bytea || convert_to('print(1)', 'UTF8')), 'hex'))),
      'request_id', md5('request ' || n)::uuid,
      'idempotency_key', case when n % 50 = 0 then md5(n::text)::uuid end))),
    (2, 'execution.started', interval '1 second', true, jsonb_build_object('attempt', 1, 'consumer', ${idOf('c', 'n % 8')})),
    (3, 'execution.lost', interval '2 seconds', lost, jsonb_build_object('attempt', 1, 'consumer', ${idOf('c', 'n % 8')}, 'reason', 'worker_died',
      'counts', true, 'evidence', jsonb_build_object('host', 'host-' || n % 8, 'found_at', at))),
    (4, 'execution.started', interval '3 seconds', lost, jsonb_build_object('attempt', 2, 'consumer', ${idOf('c', '(n + 1) % 8')})),
    (5, 'submission.completed', interval '5 seconds', ended, jsonb_build_object('attempt', 1 + lost::integer, 'verdict', verdict, 'exit_code', 0, 'signal', null,
      'cpu_time_us', 1200, 'wall_time_us', 3400, 'memory_peak_bytes', 9000000, 'stdout_truncated', false, 'stderr_truncated', false,
      'compile', null, 'limits', '{}'::jsonb, 'limit_exceeded', null, 'evidence', '{}'::jsonb, 'bytes', '{}'::jsonb)),
    (6, 'delivery.requested', interval '5 seconds', ended and webhook, jsonb_build_object('next_at', at)),
    (7, 'delivery.attempted', interval '6 seconds', ended and webhook, jsonb_build_object('attempt', 1, 'outcome', 'delivered', 'counts', true, 'status', 200,
      'detail', null, 'address', null, 'retry_after_ms', null, 'answer_bytes', 0, 'answer_cut', false, 'duration_ms', 12)),
    (8, 'delivery.ended', interval '6 seconds', ended and webhook, jsonb_build_object('outcome', 'delivered')),
    (9, 'delivery.requested', interval '9 seconds', ended and n % 1000 = 1, jsonb_build_object('next_at', at, 'replay', true, 'operator', ${operator('n')}))
  ) v(step, type, late, there, facts)
  where v.there order by id, v.step`,
  `${GIVEN}
  insert into runledger.payloads (stream, kind, salt, bytes)
  select id, v.kind, '\\x00'::bytea, convert_to(v.text, 'UTF8')
  from given cross join lateral (values
    ('code', 'print(1)', true), ('webhook_url', 'https://host' || n / 10 % 200 || '.test/hook?n=' || n, webhook)) v(kind, text, there)
  where v.there`,
  `${GIVEN}
  insert into runledger.submissions (id, version, account_id, key_id, language, status, verdict, exit_code, cpu_time_us, wall_time_us,
    memory_peak_bytes, stdout_truncated, stderr_truncated, attempts, deaths, has_webhook, created_at, started_at, completed_at, limits)
  select id, 2 + ended::integer + 2 * lost::integer + case when ended and webhook then 3 + (n % 1000 = 1)::integer else 0 end,
    ${idOf('a', 'account')}, ${idOf('b', 'account')}, language, case when ended then 'completed' else 'running' end,
    case when ended then verdict end, case when ended then 0 end, case when ended then 1200 end, case when ended then 3400 end,
    case when ended then 9000000 end, case when ended then false end, case when ended then false end,
    1 + lost::integer, lost::integer, webhook, at, at + case when lost then interval '3 seconds' else interval '1 second' end,
    case when ended then at + interval '5 seconds' end, case when ended then '{}'::jsonb end
  from given`,
  `${GIVEN}
  insert into runledger.deliveries (id, status, attempts, failures, created_at, next_at, ended_at)
  select id, case when n % 1000 = 1 then 'waiting' else 'delivered' end, 1, 0, at + interval '5 seconds', case when n % 1000 = 1 then at end,
    case when n % 1000 = 1 then null else at + interval '6 seconds' end
  from given where webhook and ended`,
];

/** One in ten seconds of the month, each with a cosignature. They stand for sealing, and prove nothing. */
const CHECKPOINTS = `
  insert into runledger.checkpoints
  select n, 'large ledger', n, decode(repeat('00', 32), 'hex'), '${FROM}'::timestamptz + n * interval '10 seconds', 1,
    pg_snapshot_xmin(pg_current_snapshot()), 'note'
  from generate_series(1, (select count(*) from runledger.submissions) * ${DAYS * 8_640} / 1000000) n;
  insert into runledger.cosignatures
  select origin, size, 'witness', sealed_at, 'line' from runledger.checkpoints`;

/** As PostgreSQL's md5(n::text)::uuid. */
function md5Uuid(n: number): string {
  const hex = createHash('md5').update(String(n)).digest('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
