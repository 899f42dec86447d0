/**
 * How long does one key's submission wait while another key has 5,000 waiting? Those of key A take 200 ms each on every slot;
 * key B submits one at a time. For comparison, in the same run: B on an idle service.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect } from '../src/db.ts';
import { uuidv7 } from '../src/domain/ids.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { createResults } from '../src/store/results.ts';
import { createSubmissions } from '../src/store/submissions.ts';
import { createWaiters } from '../src/store/waiters.ts';
import { submission } from '../test/queue/given.ts';
import { ownServer } from '../test/support/database.ts';
import { type Measure, publish } from './support/report.ts';
import { median, quantile } from './support/stats.ts';

const A_WAITING = Number(process.env['BENCH_WAITING'] ?? 5000);
const A_RUN_MS = Number(process.env['BENCH_RUN_MS'] ?? 200);
const B_EVERY_MS = Number(process.env['BENCH_EVERY_MS'] ?? 1000);
const B_COUNT = Number(process.env['BENCH_COUNT'] ?? 30);
const SLOTS = 4;

const teardowns: (() => unknown)[] = [];
const server = await ownServer({ teardown: (work) => void teardowns.unshift(work) });
try {
  const db = connect(server.urls.web, { name: 'bench web', max: 8 });
  const owner = connect(server.url, { name: 'bench', max: 1 });
  await setTier(owner, { name: 'limited', per_minute: 0, concurrent: 10 });
  await setTier(owner, { name: 'unlimited', per_minute: 0, concurrent: 0 });
  const key = async (account: string, tier: string) => {
    const secret_digest = secretDigest(newSecret('rl'));
    await createKey(owner, { account, tier, prefix: 'rl', secret_digest });
    return secret_digest;
  };
  const b = await key('b', 'limited');
  const submissions = createSubmissions(db, { queue_capacity: 100_000 });
  const waiters = await createWaiters(db, createResults(db), () => {});
  const submit = async (secret_digest: Uint8Array, code: string) => {
    const sent = submission(uuidv7(Date.now(), randomBytes(10)), { code: Buffer.from(code) });
    const taken = await submissions.submit({ secret_digest, submission: sent });
    if (taken.kind !== 'accepted') throw new Error(taken.kind);
    return taken.id;
  };
  const program = fileURLToPath(new URL('support/sleeping_worker.ts', import.meta.url));
  const worker = spawn(process.execPath, [program], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: server.urls.worker,
      RUNLEDGER_SLOTS: `${SLOTS}`,
    },
  });
  teardowns.unshift(() => worker.kill('SIGKILL'));
  await once(worker, 'message');

  /** B's waits from submit to start, from the log. */
  const waits = async (): Promise<number[]> => {
    const ids: string[] = [];
    for (let n = 0; n < B_COUNT; n += 1) {
      ids.push(await submit(b, 'sleep 0'));
      await wait(B_EVERY_MS * (0.5 + Math.random()));
    }
    for (const id of ids) await waiters.wait(id, { timeout_ms: 60_000 });
    const rows = await owner<{ ms: number }[]>`
      select (extract(epoch from started_at - created_at) * 1000)::double precision as ms
      from runledger.submissions where id = any (${`{${ids.join(',')}}`}::text::uuid[]) and status = 'completed'`;
    if (rows.length !== B_COUNT) throw new Error('not all of B ended');
    return rows.map(({ ms }) => ms);
  };

  const idle = await waits();
  const measures: Measure[] = [
    { name: 'idle service: wait, p50', unit: 'ms', value: median(idle) },
    { name: 'idle service: wait, p99', unit: 'ms', value: quantile(idle, 0.99) },
  ];
  for (const tier of ['limited', 'unlimited']) {
    const a = await key(`a ${tier}`, tier);
    await Promise.all(Array.from({ length: A_WAITING }, () => submit(a, `sleep ${A_RUN_MS}`)));
    const busy = await waits();
    const [row] = await owner<{ waiting: number }[]>`
      select count(*)::integer as waiting from runledger.submissions where status = 'pending'`;
    if (row!.waiting === 0) throw new Error('A had too few waiting, so nothing was measured');
    const added_ms = quantile(busy, 0.99) - quantile(idle, 0.99);
    const name = `A (${tier}) has ${A_WAITING} of ${A_RUN_MS} ms waiting:`;
    measures.push(
      { name: `${name} B's wait, p50`, unit: 'ms', value: median(busy) },
      { name: `${name} B's wait, p99`, unit: 'ms', value: quantile(busy, 0.99) },
      {
        name: `${name} p99 over idle's, in executions of A`,
        unit: 'executions',
        value: added_ms / A_RUN_MS,
        at_most: 1,
      },
    );
    // End the rest of A's submissions, so that the next tier has the service for itself.
    await owner`select runledger.expire_pending(interval '0 s', ${A_WAITING})`;
  }
  publish('fairness', 'how long does one key wait behind 5,000 of another?', measures);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
for (const work of teardowns) await work();
process.exit();
