/** Requests that wait for many submissions: what they cost, and what they survive. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { LEAST_POOL, sharesOf } from '../../src/config/connections.ts';
import { eventually } from '../support/eventually.ts';
import { call, freePort } from './support/call.ts';
import { HELLO, type Service, startService } from './support/service.ts';
import { webProcess } from './support/web_process.ts';

async function submitted(service: Service, key: string, count: number): Promise<string[]> {
  const body = Array.from({ length: count }, () => HELLO);
  const { json } = await service.call({ path: '/api/submissions', key, body });
  return json.map(({ id }: { id: string }) => id);
}

const heldFor = (key: string, ids: readonly string[], seconds = 30) => ({
  path: `/api/submissions?ids=${ids.join(',')}`,
  key,
  headers: { prefer: `wait=${seconds}` },
});

type Shown = { id: string; status: string };
const statusesOf = ({ json }: { json: { submissions: Shown[] } }) =>
  json.submissions.map(({ status }) => status);

async function counted(env = {}) {
  const metrics = await freePort();
  const held = async () => {
    const { text } = await call(`http://127.0.0.1:${metrics}`, { path: '/metrics' });
    return Number(/^runledger_http_held_requests (\d+)$/m.exec(text)?.[1]);
  };
  return { held, env: { ...env, RUNLEDGER_METRICS_PORT: String(metrics) } };
}

t.test(
  '100 requests that wait for the same 100 hold no connection, and all are answered',
  async (t) => {
    const REQUESTS = 100;
    // Two connections for requests.
    const pool = LEAST_POOL + 3;
    t.match(sharesOf('web', pool), { requests: 2 });
    const { held, env } = await counted({ RUNLEDGER_DATABASE_POOL: String(pool) });
    const service = await startService(t, { webs: 1, env });
    const [key, other] = [await service.key(), await service.key()];
    const ids = await submitted(service, key, 100);
    const waiting = Array.from({ length: REQUESTS }, () => service.call(heldFor(key, ids)));
    t.ok(await eventually(async () => (await held()) === REQUESTS), 'each counts as one');
    const [row] = await service.db<{ count: number }[]>`
    select count(*)::integer from pg_stat_activity where usename = 'runledger_web' and xact_start is not null`;
    t.equal(row!.count, 0, 'no transaction is open');
    t.equal((await service.submit(other)).status, 202);
    for (const id of ids) await service.worker.finish(id);
    for (const reply of await Promise.all(waiting)) {
      t.equal(reply.status, 200);
      t.same([...new Set(statusesOf(reply))], ['completed']);
    }
    t.equal(await held(), 0);
  },
);

t.test('what ended while its notification was lost is found', async (t) => {
  const { held, env } = await counted();
  const service = await startService(t, { webs: 1, env });
  const key = await service.key();
  const ids = await submitted(service, key, 2);
  const waiting = service.call(heldFor(key, ids));
  t.ok(await eventually(async () => (await held()) === 1));
  for (const id of ids) {
    await service.worker.start(id);
    await service.db`select runledger.end_submissions(${`{${id}}`}::text::uuid[], now(),
      array['submission.failed'], array['{"verdict": "IE", "attempt": 1, "evidence": {}}'::jsonb])`;
  }
  t.same(statusesOf(await waiting), ['error', 'error']);
});

t.test(
  'a process that stops answers with the states as they are, and another one goes on',
  async (t) => {
    const { held, env } = await counted({ RUNLEDGER_SHUTDOWN_GRACE: '0s' });
    const service = await startService(t, { webs: 1 });
    const key = await service.key();
    const ids = await submitted(service, key, 2);
    const web = await webProcess(t, service.database, env);
    const waiting = call(web.origin, heldFor(key, ids));
    t.ok(await eventually(async () => (await held()) === 1));
    await service.worker.finish(ids[0]!);
    const ended = web.stop();
    const reply = await waiting;
    t.equal(reply.status, 200);
    t.same(statusesOf(reply), ['completed', 'pending']);
    t.equal(await ended, 0);
    const next = service.call(heldFor(key, ids));
    await wait(50);
    await service.worker.finish(ids[1]!);
    t.same(statusesOf(await next), ['completed', 'completed']);
  },
);
