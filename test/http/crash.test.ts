/** A client that gets an id finds its submission, even where the database crashes right after the answer. */

import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, type Db } from '../../src/db.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import { submission } from '../queue/given.ts';
import { newId } from '../store/world.ts';
import { ownServer } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { call } from './support/call.ts';
import { HELLO } from './support/service.ts';
import { webProcess } from './support/web_process.ts';

async function scene(t: { teardown(work: () => unknown): void }) {
  const server = await ownServer(t);
  const open = () => {
    const db = connect(server.urls.owner, { name: 'operator', max: 1 });
    t.teardown(() => db.end({ timeout: 1 }));
    return db;
  };
  const db = open();
  await setTier(db, { name: 'nine', per_minute: 0, concurrent: 9 });
  const secret = newSecret('rl');
  const secret_digest = secretDigest(secret);
  await createKey(db, { account: 'acme', tier: 'nine', prefix: 'rl', secret_digest });
  // A commit that nothing waits for stays in memory without it, so that the crash comes first.
  const root = connect(server.superuser_url, { name: 'operator', max: 1 });
  const [writer] = await root<{ pid: number }[]>`
    select pid from pg_stat_activity where backend_type = 'walwriter'`;
  await root.end();
  let is_stopped = true;
  process.kill(writer!.pid, 'SIGSTOP');
  // A server does not end before it.
  const killWriter = () => {
    if (is_stopped) process.kill(writer!.pid, 'SIGKILL');
    is_stopped = false;
  };
  t.teardown(killWriter);
  const crash = async () => {
    const killed = server.kill();
    killWriter();
    await killed;
    await server.start();
  };
  const ids = async () => {
    const db = open();
    const rows = await db`select id from runledger.submissions`;
    await db.end();
    return rows.map((row) => String(row['id']));
  };
  return { server, db, open, secret, secret_digest, crash, ids };
}

/** Blocks the other writes of web, heartbeats and checkpoints: their commits would flush a submission to the disk, too. */
async function quieten(db: Db): Promise<void> {
  await db`begin`;
  await db`lock table runledger.consumers, runledger.checkpoints in share mode`;
}

t.test(
  'a waiting request whose time is up answers with an id that a crash does not undo',
  async (t) => {
    const s = await scene(t);
    const web = await webProcess(t, s.server);
    await quieten(s.open());
    const headers = { prefer: 'wait=1' };
    const request = { path: '/api/submit', key: s.secret, headers, body: HELLO };
    let reply = await call(web.origin, request);
    // On a busy machine the database may need longer than web waits for it.
    while (reply.status === 503) reply = await call(web.origin, request);
    t.equal(reply.status, 202);
    await s.crash();
    t.ok((await s.ids()).includes(reply.json.id));
  },
);

t.test('a repeated request that waits answers with an id that a crash does not undo', async (t) => {
  const s = await scene(t);
  const web = await webProcess(t, s.server);
  await quieten(s.open());
  const same = { 'idempotency-key': randomUUID() };
  const left = new AbortController();
  const first = fetch(`${web.origin}/api/submit`, {
    method: 'POST',
    headers: {
      ...same,
      'x-api-key': s.secret,
      'content-type': 'application/json',
      prefer: 'wait=60',
    },
    body: JSON.stringify(HELLO),
    signal: left.signal,
  });
  await until(async () => (await s.ids()).length > 0);
  left.abort();
  await t.rejects(first, { name: 'AbortError' });
  const headers = { ...same, prefer: 'wait=1' };
  const request = { path: '/api/submit', key: s.secret, headers, body: HELLO };
  let reply = await call(web.origin, request);
  while (reply.status === 503) reply = await call(web.origin, request);
  t.match(reply, { status: 202, headers: { 'idempotency-replayed': 'true' } });
  await s.crash();
  t.same(await s.ids(), [reply.json.id]);
});

t.test('a waiting request whose submission a crash has undone answers without an id', async (t) => {
  const s = await scene(t);
  const web = await webProcess(t, s.server);
  await quieten(s.open());
  const headers = { prefer: 'wait=6' };
  const reply = call(web.origin, { path: '/api/submit', key: s.secret, headers, body: HELLO });
  while ((await s.ids()).length === 0) await wait(10);
  await s.crash();
  t.match(await reply, { status: 503, headers: { 'retry-after': /\d/ }, json: { id: undefined } });
  t.same(await s.ids(), []);
});

t.test('a crash may undo a submission whose id no client has, until it is settled', async (t) => {
  const s = await scene(t);
  const { submit, settle } = createSubmissions(s.db, { queue_capacity: 100 });
  const { secret_digest } = s;
  const [first, second] = [newId(), newId()];
  await submit({ secret_digest, submission: submission(first), unflushed: true });
  t.equal(await settle(first), true);
  await submit({ secret_digest, submission: submission(second), unflushed: true });
  await s.crash();
  t.same(await s.ids(), [first]);
  const again = createSubmissions(s.open(), { queue_capacity: 100 });
  t.same(await Promise.all([first, second].map(again.settle)), [true, false]);
});
