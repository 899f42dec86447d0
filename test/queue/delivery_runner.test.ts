/**
 * A runner takes no more than may begin. One whose database fails it ends, whatever was under way: else the jobs that it
 * has locked stay so.
 */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { createLog } from '../../src/log.ts';
import { connectRunner, startRunner } from '../../src/queue/runner.ts';
import { freshDatabase, ownServer } from '../support/database.ts';

const PATIENCE_MS = 30_000;

t.test('jobs that are finished one after the other while the database is away', async (t) => {
  const server = await ownServer(t);
  const db = connect(server.url, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const log = createLog({ level: 'silent', part: 'test', to: 'stderr' });
  const pool = connectRunner(server.url, 'test', log);
  t.teardown(() => pool.end());
  const ids = ['1', '2', '3'];
  const steps = new EventTarget();
  let begun = 0;
  let failed = false;
  const runner = startRunner({
    pool,
    locked_by: 'test/1',
    concurrency: 3,
    heed_ms: 0,
    free: () => 3,
    onShutdown: () => {
      failed = true;
    },
    log,
    tasks: {
      async held({ id }) {
        begun += 1;
        await once(steps, id);
        // Finished in another way: graphile-worker's count of the others is final when this one ends.
        if (id === ids.at(-1)) throw new Error('its lease was lost');
      },
    },
  });
  await db`select graphile_worker.add_job('held', json_build_object('id', id)) from unnest(${ids}::text[]) id`;
  while (begun < ids.length) await wait(10);
  await server.kill();
  for (const id of ids) {
    steps.dispatchEvent(new Event(id));
    await wait(200);
  }
  while (!failed) await wait(10);
  const over = new AbortController();
  const late = wait(PATIENCE_MS, 'hangs', { signal: over.signal }).catch(() => '');
  const outcome = await Promise.race([runner.ended.then(() => 'ended'), late]);
  over.abort();
  t.equal(outcome, 'ended');
  await server.start();
});

t.test(
  'no more jobs are fetched than may begin, also before the tasks of the last have',
  async (t) => {
    const { url } = await freshDatabase(t);
    const db = connect(url, { name: 'test', max: 1 });
    t.teardown(() => db.end({ timeout: 1 }));
    const log = createLog({ level: 'silent', part: 'test', to: 'stderr' });
    const pool = connectRunner(url, 'test', log);
    await db`select graphile_worker.add_job('short', json_build_object('id', n)) from generate_series(1, 40) n`;
    const most = 2;
    let running = 0;
    let seen = 0;
    let done = 0;
    const runner = startRunner({
      pool,
      locked_by: 'test/1',
      concurrency: 10,
      heed_ms: 0,
      free: () => most - running,
      onShutdown: () => {},
      log,
      tasks: {
        async short() {
          running += 1;
          seen = Math.max(seen, running);
          await wait(5);
          running -= 1;
          done += 1;
          runner.wake();
        },
      },
    });
    while (done < 40) await wait(10);
    t.equal(seen, most);
    await runner.stop();
    await pool.end();
  },
);

t.test('a deaf one listens to nothing, and fetches when it is told of jobs', async (t) => {
  const { url } = await freshDatabase(t);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const log = createLog({ level: 'silent', part: 'test', to: 'stderr' });
  const pool = connectRunner(url, 'deaf', log, { deaf: true });
  let fetches = 0;
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...given: unknown[]) => unknown;
    client.query = ((asked: { name?: string }, ...rest: unknown[]) => {
      if (asked?.name?.startsWith('get_job')) fetches += 1;
      return query(asked, ...rest);
    }) as typeof client.query;
  });
  const runner = startRunner({
    pool,
    locked_by: 'test/1',
    concurrency: 1,
    heed_ms: 0,
    free: () => 1,
    onShutdown: () => {},
    log,
    tasks: { async none() {} },
  });
  while (fetches === 0) await wait(10);
  const listening =
    await db`select query from pg_stat_activity where application_name = 'deaf' and query ~ 'LISTEN'`;
  t.equal(listening.length, 0);
  const began = performance.now();
  for (let round = 0; round < 10; round += 1) {
    const before = fetches;
    runner.news();
    while (fetches === before) await wait(1);
  }
  t.ok(performance.now() - began < 5_000, 'ten times without waiting for the poll of each second');
  await runner.stop();
  await pool.end();
});
