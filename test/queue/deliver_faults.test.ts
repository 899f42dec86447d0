/** Deliveries while our own side fails, and while receivers are slow. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { ownServer } from '../support/database.ts';
import { openReceiver, trusted } from '../webhooks/receiver.ts';
import {
  type Bench,
  delivery,
  jobsAre,
  judgeTables,
  openBench,
  silent,
  until,
  urlTo,
} from './delivery_bench.ts';

t.test(
  'an attempt that our own stop cuts off is recorded as such, does not count, and is repeated at once',
  async (t) => {
    const bench = await openBench(t, {
      RUNLEDGER_SHUTDOWN_GRACE: '0s',
      RUNLEDGER_WEBHOOK_SCHEDULE: '1h',
    });
    await using receiver = await openReceiver(silent);
    const id = await bench.ended(urlTo(receiver.port));
    const first = await bench.start();
    await receiver.received(1);
    await first.stop();
    t.match(await delivery(bench, id), {
      status: 'waiting',
      attempts: 1,
      failures: 0,
      has_secret: true,
    });
    t.match((await bench.facts(id)).at(-1), {
      type: 'delivery.attempted',
      facts: { outcome: 'cut_off', counts: false },
    });
    const second = await bench.start();
    await receiver.received(2);
    await second.stop();
    t.match(await delivery(bench, id), { status: 'waiting', attempts: 2, failures: 0 });
    await judgeTables(t, bench);
  },
);

t.test('a process that was declared dead by mistake deletes no job but its own', async (t) => {
  const bench = await openBench(t, { RUNLEDGER_WEBHOOK_SCHEDULE: '1h' });
  const answer = Promise.withResolvers<void>();
  await using receiver = await openReceiver((_got, response) => {
    answer.promise.then(() => response.writeHead(500).end());
  });
  const id = await bench.ended(urlTo(receiver.port));
  const part = await bench.start();
  await receiver.received(1);
  // As the sweep unlocks it, and before another process fetches it.
  await bench.db`update graphile_worker._private_jobs
    set locked_by = null, locked_at = null, run_at = now() + interval '1 hour'`;
  answer.resolve();
  await until(bench, id, ({ attempts }) => attempts === 1);
  await part.stop();
  const [row] = await bench.db`
    select count(*)::integer as jobs from graphile_worker.jobs where key = ${`delivery/${id}`}`;
  t.equal(row?.['jobs'], 1, 'the next attempt has its job');
  await judgeTables(t, bench);
});

t.test('an attempt that is being sent when a stop begins may finish', async (t) => {
  const bench = await openBench(t);
  const answer = Promise.withResolvers<void>();
  await using receiver = await openReceiver((_got, response) => {
    answer.promise.then(() => response.writeHead(204).end());
  });
  const id = await bench.ended(urlTo(receiver.port));
  const part = await bench.start();
  await receiver.received(1);
  const stopped = part.stop();
  answer.resolve();
  await stopped;
  t.match(await delivery(bench, id), { status: 'delivered', attempts: 1 });
});

t.test(
  'after a process is killed while it sends, another sends again with the same id',
  async (t) => {
    const bench = await openBench(t);
    let killed = false;
    await using receiver = await openReceiver((_got, response) => {
      if (killed) response.writeHead(204).end();
    });
    const id = await bench.ended(urlTo(receiver.port));
    const program = fileURLToPath(new URL('delivering_process.ts', import.meta.url));
    const child = spawn(process.execPath, [program, JSON.stringify(trusted)], {
      env: { ...process.env, ...bench.env },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    await receiver.received(1);
    killed = true;
    child.kill('SIGKILL');
    await once(child, 'exit');
    const part = await bench.start();
    const got = await receiver.received(2);
    await part.stop();
    t.same(got[1]!.headers['webhook-id'], got[0]!.headers['webhook-id']);
    t.same(got[1]!.body, got[0]!.body);
    t.match(await delivery(bench, id), { status: 'delivered', attempts: 1 });
    await judgeTables(t, bench);
  },
);

t.test('the database dies during an attempt: the outcome is kept and recorded', async (t) => {
  const server = await ownServer(t);
  const bench = await openBench(t, {}, server);
  const answer = Promise.withResolvers<void>();
  await using receiver = await openReceiver((_got, response) => {
    answer.promise.then(() => response.writeHead(204).end());
  });
  const id = await bench.ended(urlTo(receiver.port));
  const part = await bench.start();
  await receiver.received(1);
  await server.kill();
  answer.resolve();
  await server.start();
  await until(bench, id, ({ status }) => status === 'delivered');
  // Its job was locked on connections that are gone. It is fetched again and has nothing to do.
  await jobsAre(bench, { due: 0, taken: 0 });
  await part.stop();
  t.equal(receiver.got.length, 1, 'and not sent again');
  t.match(await delivery(bench, id), { status: 'delivered', attempts: 1 });
  await judgeTables(t, bench);
});

t.test('a slow receiver occupies its own places and no others', async (t) => {
  const bench = await openBench(t, { RUNLEDGER_SHUTDOWN_GRACE: '0s' });
  await using slow = await openReceiver(silent);
  await using quick = await openReceiver();
  const stuck: string[] = [];
  for (let n = 0; n < 30; n += 1) stuck.push(await bench.ended(urlTo(slow.port)));
  const id = await bench.ended(`https://127.0.0.1:${quick.port}/`);
  const part = await bench.start();
  await slow.received(4);
  await until(bench, id, ({ status }) => status === 'delivered');
  await part.stop();
  t.match(await delivery(bench, id), { status: 'delivered' });
  t.equal(slow.connections(), 4);
  const rows = await Promise.all(stuck.map((one) => delivery(bench, one)));
  t.equal(rows.filter((row) => row?.['attempts'] === 1).length, 4, 'four were cut off');
  t.equal(
    rows.filter((row) => row?.['attempts'] === 0).length,
    26,
    'the others were put back and nothing was recorded',
  );
  const [jobs] =
    await bench.db`select count(distinct payload ->> 'id')::integer as waiting, count(*)::integer as jobs,
    count(*) filter (where locked_by is not null)::integer as locked from graphile_worker._private_jobs
    where task_id = (select id from graphile_worker._private_tasks where identifier = 'deliver_webhook')`;
  t.same(jobs, { waiting: 30, jobs: 30, locked: 0 });
});

t.test('a backlog for one receiver reaches it a few at a time, and completely', async (t) => {
  const bench = await openBench(t);
  let inside = 0;
  let most = 0;
  await using receiver = await openReceiver((_got, response) => {
    inside += 1;
    most = Math.max(most, inside);
    // Answer in another turn of the event loop: until then others may arrive.
    setImmediate(() => {
      inside -= 1;
      response.writeHead(204).end();
    });
  });
  for (let n = 0; n < 12; n += 1) await bench.ended(urlTo(receiver.port));
  const part = await bench.start();
  const got = await receiver.received(12);
  await part.stop();
  t.equal(new Set(got.map(({ headers }) => headers['webhook-id'])).size, 12);
  t.ok(most <= 4, `${most} at once`);
  await judgeTables(t, bench);
});

t.test('a job that comes twice, or is left over, sends nothing', async (t) => {
  const bench = await openBench(t, { RUNLEDGER_WEBHOOK_SCHEDULE: '1h' });
  const answer = Promise.withResolvers<void>();
  await using receiver = await openReceiver((_got, response) => {
    answer.promise.then(() => response.writeHead(500).end());
  });
  const id = await bench.ended(urlTo(receiver.port));
  const part = await bench.start();
  await receiver.received(1);
  await addJob(bench, id);
  await jobsAre(bench, { due: 2, taken: 2 });
  answer.resolve();
  await jobsAre(bench, { due: 0, taken: 0 });
  t.equal(receiver.got.length, 1, 'the second waited for the first and then had nothing to do');
  await addJob(bench, id);
  await jobsAre(bench, { due: 0, taken: 0 });
  await part.stop();
  t.equal(receiver.got.length, 1, 'its time had not come');
  t.match(await delivery(bench, id), { status: 'waiting', attempts: 1 });
  await judgeTables(t, bench);
});

/** A job beside the one that a delivery has by its key. */
const addJob = ({ db }: Bench, id: string) =>
  db`select graphile_worker.add_job('deliver_webhook', ${JSON.stringify({ id })}::text::json)`;
