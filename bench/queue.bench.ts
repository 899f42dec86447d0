/**
 * How many submissions a second go from submit to result if an execution takes no time, and how long does each wait for a
 * worker and for its result? For comparison, in the same run: graphile-worker with an empty task, and the plainest build.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect, type Db } from '../src/db.ts';
import { uuidv7 } from '../src/domain/ids.ts';
import { createLog } from '../src/log.ts';
import { connectRunner, startRunner } from '../src/queue/delivery_runner.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { createResults } from '../src/store/results.ts';
import { createSubmissions } from '../src/store/submissions.ts';
import { createWaiters } from '../src/store/waiters.ts';
import { submission } from '../test/queue/given.ts';
import { ownServer } from '../test/support/database.ts';
import { startPlain } from './support/plain.ts';
import { KEEPS_LOG, recycleLog } from './support/recycled_log.ts';
import { against, type Measure, publish } from './support/report.ts';
import { median, quantile } from './support/stats.ts';

const CALLERS = [1, 8, 64];
const ROUND_MS = Number(process.env['BENCH_ROUND_MS'] ?? 3000);
const ROUNDS = 3;
const EMPTY_JOBS = 20_000;
const SLOTS = '24';

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
const server = await ownServer(t, {
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  // For commit times: what a caller or a worker sees is later.
  track_commit_timestamp: 'on',
  ...KEEPS_LOG,
});
try {
  const empty = await emptyTasks();
  const ours = await startOurs();
  const plain = await startPlain(server.url);
  await rounds(64, 1000, ours.once);
  await rounds(64, 1000, plain.once);
  await recycleLog(server.superuser_url);
  const measures: Measure[] = [
    { name: 'graphile-worker, an empty task, alone', unit: 'jobs/s', value: empty },
  ];
  for (const callers of CALLERS) {
    const pairs: { ours: number; plain: number }[] = [];
    ours.begin();
    for (let n = 0; n < ROUNDS; n += 1) {
      // In turn, so that other load on the machine falls on both.
      pairs.push({
        ours: await rounds(callers, ROUND_MS, ours.once),
        plain: await rounds(callers, ROUND_MS, plain.once),
      });
    }
    const latencies = await ours.latencies();
    measures.push(
      against(
        `submit to result, ${callers} callers, over the plainest build, which runs one at a time`,
        'runs/s',
        median(pairs.map((pair) => pair.ours)),
        median(pairs.map((pair) => pair.plain)),
        {
          was: `submit to result, ${callers} callers, over the plainest build`,
          ...(callers === 64 && { at_least: 5 }),
        },
      ),
      ...millis(`commit to start, ${callers} callers`, latencies.to_start_ms),
      ...millis(`commit to waiter, ${callers} callers`, latencies.to_waiter_ms, 6),
    );
  }
  await plain.stop();
  await ours.stop();
  publish(
    'queue',
    'how many submissions a second pass from submit to result when executing takes no time?',
    measures,
  );
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
for (const work of teardowns) await work();
process.exit();

function millis(name: string, samples: number[], p99_at_most?: number): Measure[] {
  const p99 = { name: `${name}, p99`, unit: 'ms', value: quantile(samples, 0.99) };
  return [
    { name: `${name}, p50`, unit: 'ms', value: median(samples) },
    p99_at_most === undefined ? p99 : { ...p99, at_most: p99_at_most },
  ];
}

/** So many callers, each with one open submission; answers runs a second. */
async function rounds(callers: number, ms: number, runOnce: () => Promise<void>): Promise<number> {
  const began = performance.now();
  let runs = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() - began < ms) {
        await runOnce();
        runs += 1;
      }
    }),
  );
  return (runs / (performance.now() - began)) * 1000;
}

async function emptyTasks(): Promise<number> {
  const db = connect(server.url, { name: 'bench', max: 1 });
  await db`select graphile_worker.add_jobs(array(
    select ('empty', json_build_object('id', n), null, null, null, null, null, null)::graphile_worker.job_spec
    from generate_series(1, ${EMPTY_JOBS}) n))`;
  const log = createLog({ level: 'warn', process: 'bench', to: 'stderr' });
  const pool = connectRunner(server.url, 'bench', log, 3);
  const { promise, resolve } = Promise.withResolvers<void>();
  let done = 0;
  const began = performance.now();
  const runner = startRunner(pool, {
    concurrency: Number(SLOTS),
    log,
    tasks: {
      async empty() {
        done += 1;
        if (done === EMPTY_JOBS) resolve();
      },
    },
  });
  await promise;
  const seconds = (performance.now() - began) / 1000;
  await runner.stop();
  await pool.end();
  await db.end();
  return EMPTY_JOBS / seconds;
}

async function startOurs() {
  const db = connect(server.urls.web, { name: 'bench web', max: 10 });
  const owner = connect(server.url, { name: 'bench', max: 1 });
  const keys = await makeKeys(owner);
  const submissions = createSubmissions(db, { queue_capacity: 100_000 });
  const waiters = await createWaiters(db, createResults(db), () => {});
  const worker = await startWorkerProcess();
  let seen: { id: string; began_ms: number; answered_ms: number }[] = [];
  let turn = 0;
  return {
    begin: () => {
      seen = [];
    },
    async once() {
      turn += 1;
      const id = uuidv7(Date.now(), randomBytes(10));
      // As a waiting request does: it waits before it submits.
      const waiting = waiters.wait(id, { timeout_ms: 30_000, unborn: true });
      const taken = await submissions.submit({
        secret_digest: keys[turn % keys.length]!,
        submission: submission(id),
      });
      if (taken.kind !== 'accepted') throw new Error(taken.kind);
      const row = await waiting;
      const answered_ms = performance.timeOrigin + performance.now();
      if (row?.verdict !== 'AC') throw new Error('no result');
      seen.push({ id, began_ms: Number(Buffer.from(row.stdout!)), answered_ms });
    },
    async latencies() {
      const commits = await commitTimes(
        owner,
        seen.map(({ id }) => id),
      );
      const of = (n: 'accepted_ms' | 'completed_ms', at: 'began_ms' | 'answered_ms') =>
        seen.map((one) => one[at] - commits.get(one.id)![n]);
      return {
        to_start_ms: of('accepted_ms', 'began_ms'),
        to_waiter_ms: of('completed_ms', 'answered_ms'),
      };
    },
    async stop() {
      const gone = once(worker, 'exit');
      worker.kill('SIGTERM');
      await gone;
      await waiters.close();
      await Promise.all([db.end({ timeout: 1 }), owner.end({ timeout: 1 })]);
    },
  };
}

async function makeKeys(owner: Db): Promise<Uint8Array[]> {
  await setTier(owner, { name: 'bench', per_minute: 0, concurrent: 0 });
  const keys: Uint8Array[] = [];
  for (let n = 0; n < 16; n += 1) {
    const secret_digest = secretDigest(newSecret('rl'));
    await createKey(owner, { account: `bench ${n}`, tier: 'bench', prefix: 'rl', secret_digest });
    keys.push(secret_digest);
  }
  return keys;
}

async function startWorkerProcess(): Promise<ChildProcess> {
  const program = fileURLToPath(new URL('support/empty_worker.ts', import.meta.url));
  const worker = spawn(process.execPath, [...process.execArgv, program], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { PATH: process.env['PATH'], DATABASE_URL: server.urls.worker, RUNLEDGER_SLOTS: SLOTS },
  });
  await once(worker, 'message');
  t.teardown(() => worker.kill('SIGKILL'));
  return worker;
}

async function commitTimes(owner: Db, ids: string[]) {
  const rows = await owner<{ id: string; accepted_ms: number; completed_ms: number }[]>`
    select id,
      (max(at_ms) filter (where type = 'submission.accepted'))::double precision as accepted_ms,
      (max(at_ms) filter (where type = 'submission.completed'))::double precision as completed_ms
    from unnest(${`{${ids.join(',')}}`}::text::uuid[]) id
    cross join lateral (
      select type, extract(epoch from pg_xact_commit_timestamp(xid::xid)) * 1000 as at_ms
      from runledger.events where stream = id) committed
    group by 1`;
  return new Map(rows.map((row) => [row.id, row]));
}
