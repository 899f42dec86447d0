/**
 * The console in a ledger of a million submissions, and at 20,000 accepted in each minute: the time of each page and of a refresh of
 * the first page in the database, the best of nine.
 *
 *   node bench/console_pages.ts
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect } from '../src/db.ts';
import { minutesToRead } from '../src/http/console/live_minutes.ts';
import { createConsole, PAGE_ROWS, type SearchQuery } from '../src/store/console.ts';
import { createReadNow, type Now } from '../src/store/console_now.ts';
import { createOperator, createSessions } from '../src/store/operators.ts';
import { FROM, fillLedger } from '../test/audit/large_ledger.ts';
import { NO_FILTER } from '../test/store/no_filter.ts';
import { ownServer } from '../test/support/database.ts';

const SUBMISSIONS = Number(process.env['SUBMISSIONS'] || 1_000_000);
const ROUNDS = 9;
const A_MINUTE = 20_000;
/** Of the ledger: beta, and four for the operator's commands. */
const TIERS = 5;

const undo: (() => unknown)[] = [];
const server = await ownServer(
  { teardown: (work) => void undo.unshift(work) },
  { max_wal_size: '8GB', checkpoint_timeout: '1h', shared_buffers: '512MB' },
  { strange_events: 'nothing in it is checked' },
);
const owner = connect(server.url, { name: 'console bench', max: 1 });
await fillLedger(owner, SUBMISSIONS);
const FILL = `
  insert into runledger.submissions (id, version, account_id, key_id, language, status, verdict, attempts, deaths, has_webhook,
    created_at, started_at, completed_at)
  select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid, 3,
    'fa000000-0000-4000-8000-000000000001', 'fb000000-0000-4000-8000-000000000001', 'python', 'completed', (array['AC', 'WA'])[1 + n % 2],
    1, 0, false, at, at + interval '10 ms', at + interval '1 ms' * (20 + n % 50)
  from (select n, now() - interval '8 minutes' + n * (interval '1 minute' / ${A_MINUTE}) as at from generate_series(0, ${8 * A_MINUTE}) n) x`;
await owner.unsafe(FILL);
await owner.unsafe('vacuum (analyze) runledger.submissions');

const db = connect(server.urls.web, { name: 'console bench', max: 1 });
const key_digest = randomBytes(32);
const asking = { session: randomBytes(32), request_id: 'bench' };
await createOperator(owner, { name: 'bench', key_digest });
await createSessions(db).begin(key_digest, asking.session, 'bench');
const store = createConsole(db);
const [backend] = await db<{ pid: number }[]>`select pg_backend_pid() as pid`;
const cpuMs = () =>
  Number(readFileSync(`/proc/${backend!.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

async function measure<T>(
  what: string,
  ask: () => Promise<T>,
  count: (found: T) => unknown,
  isRight: (found: T) => boolean,
) {
  const best = { ms: Infinity, cpu_ms: Infinity };
  let found: T | undefined;
  for (let n = 0; n < ROUNDS; n += 1) {
    const before = { ms: performance.now(), cpu: cpuMs() };
    found = await ask();
    best.ms = Math.min(best.ms, performance.now() - before.ms);
    best.cpu_ms = Math.min(best.cpu_ms, cpuMs() - before.cpu);
    if (!isRight(found)) throw new Error(`${what}: it found ${count(found)}`);
  }
  console.log(
    `${what}: ${best.ms.toFixed(1)} ms, CPU ${best.cpu_ms.toFixed(1)} ms, ${count(found!)}`,
  );
}

const ALL: SearchQuery = {
  ...NO_FILTER,
  ...{ limit: PAGE_ROWS, account: null },
};
const middle = new Date(Date.parse(FROM) + 15 * 86_400_000).toISOString();
const search = (what: string, query: Partial<SearchQuery>, expected = PAGE_ROWS) =>
  measure(
    what,
    () => store.search(asking, { ...ALL, ...query }),
    ({ rows, next }) => `${rows.length} rows${next ? ', more' : ''}`,
    ({ rows }) => rows.length === expected,
  );
const account = { name: 'account 0', id: null };

await search('all, newest', {});
await search('all, before a time in the middle', { to: middle });
await search('all, one verdict and language', { to: middle, verdict: 'TLE', language: 'java' });
await search('all, a verdict that none has', { to: middle, verdict: 'IE' }, 0);
await search('one account', { account });
await search('one account, a time', { account, from: middle });
await search('one account, a verdict that none has', { account, verdict: 'IE' }, 0);
const { rows } = await store.search(asking, { ...ALL, to: middle });
await measure(
  'one submission',
  () => store.submission(asking, rows[0]!.id),
  (found) => `${found?.events.length} events`,
  (found) => found !== null && found.events.length >= 3,
);
const list = ({ rows }: { rows: unknown[] }) => `${rows.length} rows`;
await measure(
  'deliveries',
  () => store.deliveries(asking, { status: null, before: null }),
  list,
  ({ rows }) => rows.length === PAGE_ROWS,
);
await measure(
  'deliveries in a status that none has',
  () => store.deliveries(asking, { status: 'gone', before: null }),
  list,
  ({ rows }) => rows.length === 0,
);
await measure(
  'accounts',
  () => store.accounts(asking, { part: '', after: '' }),
  list,
  ({ rows }) => rows.length === PAGE_ROWS,
);
await measure(
  'tiers',
  () => store.tiers(asking),
  (found) => found.length,
  (found) => found.length === TIERS,
);
await measure(
  'log',
  () => store.log(asking),
  ({ operators }) => `${operators.length} operators`,
  ({ operators }) => operators.length > 0,
);
await measure(
  'commands',
  () => store.commands(asking, { with_all: false, before: null }),
  list,
  ({ rows }) => rows.length === PAGE_ROWS,
);
const readNow = createReadNow(db);
const minutes = minutesToRead(new Map(), Date.now()).map((minute) => new Date(minute));
const accepted = ({ minutes }: Now) => minutes.map(({ accepted }) => accepted).join(' ');
/** The two newest minutes may have begun, or gone on, after the rows were made. */
const areFull = (many: number) => (now: Now) =>
  now.minutes.filter(({ accepted }) => accepted > 0).length >= many;
await measure('a refresh that reads eight minutes', () => readNow(minutes), accepted, areFull(6));
await measure(
  'a refresh that reads two minutes',
  () => readNow(minutes.slice(0, 2)),
  accepted,
  areFull(1),
);
await Promise.all([db, owner].map((each) => each.end()));
for (const work of undo) await work();
