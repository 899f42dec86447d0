/**
 * GET /api/submissions in an account of a million submissions among a million of others: the time of one page in the database,
 * at several depths and with filters that fit many rows, one row or none; and the plan.
 *
 *   node bench/list_pages.ts
 */
import { readFileSync } from 'node:fs';
import { connect, type Db } from '../src/db.ts';
import { createLists, type ListQuery } from '../src/store/lists.ts';
import { ownServer } from '../test/support/database.ts';

const SUBMISSIONS = Number(process.env['SUBMISSIONS'] || 1_000_000);
const ROUNDS = 9;
const ACCOUNT = 'fa000000-0000-4000-8000-000000000001';
const ALL: ListQuery = {
  ...{ status: null, verdict: null, language: null, test_set: null, from: null, to: null },
  ...{ limit: 200, after: null },
};

/** Batches of eight have one time; every other row is of another account; one row has the verdict MLE, in the middle. */
const FILL = `
  insert into runledger.submissions (id, version, account_id, key_id, language, status, verdict, attempts, deaths, has_webhook,
    created_at, started_at, completed_at, limits)
  select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid, 3,
    case when n % 2 = 0 then '${ACCOUNT}'::uuid else ('fa000000-0000-4000-8000-0000000001' || lpad((n % 100)::text, 2, '0'))::uuid end,
    '${ACCOUNT}', (array['python', 'cpp', 'java'])[1 + n / 2 % 3], 'completed',
    case when n = ${SUBMISSIONS} then 'MLE' else (array['AC', 'WA'])[1 + n / 2 % 2] end,
    1, 0, false, at, at, at, '{"cpu_ms": 10000, "wall_ms": 20000, "memory_bytes": 268435456}'
  from (select n, date_trunc('month', now()) - interval '20 days' + (n / 8) * (interval '18 days' * 8 / ${2 * SUBMISSIONS}) as at
    from generate_series(0, ${2 * SUBMISSIONS - 1}) n) x`;

const undo: (() => unknown)[] = [];
const server = await ownServer(
  { teardown: (work) => void undo.unshift(work) },
  { max_wal_size: '8GB', checkpoint_timeout: '1h', shared_buffers: '512MB' },
);
const db = connect(server.url, { name: 'list bench', max: 1 });
const began = performance.now();
await db.unsafe(`select runledger.ensure_partition(parent, 'bench', format('for values from (%L) to (%L)',
  runledger.uuid_floor(date_trunc('month', now()) - interval '1 month'), runledger.uuid_floor(date_trunc('month', now()))))
  from unnest('{events,payloads,submissions,deliveries}'::text[]) parent`);
await db.unsafe(FILL);
await db.unsafe('vacuum (analyze) runledger.submissions');
console.log(`${2 * SUBMISSIONS} rows after ${Math.round((performance.now() - began) / 1000)} s`);

const { page } = createLists(db);
const [backend] = await db<{ pid: number }[]>`select pg_backend_pid() as pid`;
const cpuMs = () =>
  Number(readFileSync(`/proc/${backend!.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

async function measure(what: string, query: Partial<ListQuery>, expected: number): Promise<void> {
  const best = { ms: Infinity, cpu_ms: Infinity };
  let rows = 0;
  for (let n = 0; n < ROUNDS; n += 1) {
    const before = { ms: performance.now(), cpu: cpuMs() };
    rows = (await page(ACCOUNT, { ...ALL, ...query })).rows.length;
    if (rows !== expected) throw new Error(`${what}: ${rows} rows instead of ${expected}`);
    best.ms = Math.min(best.ms, performance.now() - before.ms);
    best.cpu_ms = Math.min(best.cpu_ms, cpuMs() - before.cpu);
  }
  console.log(`${what}: ${best.ms.toFixed(1)} ms, CPU ${best.cpu_ms.toFixed(1)} ms, ${rows} rows`);
}

async function cursorAt(share: number) {
  const [row] = await db<{ at_us: string; id: string }[]>`
    select (extract(epoch from created_at) * 1000000)::bigint as at_us, id from runledger.submissions
    where account_id = ${ACCOUNT} order by created_at desc, id desc limit 1 offset ${Math.floor(share * SUBMISSIONS)}`;
  return { at_us: Number(row!.at_us), id: row!.id };
}

for (const limit of [50, 200]) await measure(`first page of ${limit}`, { limit }, limit);
for (const share of [0.01, 0.5, 0.99])
  await measure(`200 after ${share * SUBMISSIONS}`, { after: await cursorAt(share) }, 200);
await measure('200 in python', { language: 'python' }, 200);
await measure('a verdict that no row has, first page', { verdict: 'OLE' }, 0);
await measure('the same, in the middle', { verdict: 'OLE', after: await cursorAt(0.5) }, 0);
const { at_us } = await cursorAt(0.5);
await measure('200 of a time', { to: new Date(at_us / 1000).toISOString() }, 200);

let pages = 0;
let found = 0;
for (let after: ListQuery['after'] = null; ; pages += 1) {
  const { rows, next } = await page(ACCOUNT, { ...ALL, verdict: 'MLE', after });
  found += rows.length;
  after = next;
  if (next === null) break;
}
if (found !== 1) throw new Error(`${found} rows have the verdict that one row has`);
console.log(`the verdict that one row has: ${found} row in ${pages + 1} pages`);
await explain(db);
await db.end();
for (const work of undo) await work();

async function explain(db: Db): Promise<void> {
  const { at_us, id } = await cursorAt(0.5);
  const rows =
    await db.unsafe(`set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off; set jit = off;
    explain (analyze, costs off, timing off, buffers) select id, created_at, status, verdict, language from runledger.submissions
    where account_id = '${ACCOUNT}' and created_at >= '-infinity' and created_at < 'infinity'
      and created_at <= 'epoch'::timestamptz + ${at_us} * interval '1 microsecond'
      and (created_at, id) < ('epoch'::timestamptz + ${at_us} * interval '1 microsecond', '${id}')
    order by created_at desc, id desc limit 5000`);
  const plan = (rows as unknown as Record<string, string>[][]).at(-1)!;
  for (const row of plan) console.log(`    ${row['QUERY PLAN']}`);
}
