/** graphile-worker's runner, and what an epoch adds to it: tasks begin only for a consumer that is alive and recorded. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { connect, type Db, listen } from '../../src/db.ts';
import { createLog } from '../../src/log.ts';
import type { EpochContext } from '../../src/queue/consumer.ts';
import {
  connectRunner,
  createAnnouncements,
  NO_RUNNER,
  openDeliveryEpoch,
  type RunnerOptions,
  startRunner,
} from '../../src/queue/delivery_runner.ts';
import { createInFlight } from '../../src/queue/in_flight_jobs.ts';
import { DELIVERIES_CHANNEL } from '../../src/store/channels.ts';
import { addLocker } from '../../src/store/consumers.ts';
import { world } from '../store/world.ts';
import { ownServer } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { losing } from './losing.ts';

const HANGS_MS = 120_000;
const log = createLog({ level: 'silent', process: 'test', to: 'stderr' });

const add = (db: Db, task: string, ids: readonly string[]) =>
  db`select graphile_worker.add_job(${task}, json_build_object('id', id)) from unnest(${`{${ids.join(',')}}`}::text::text[]) id`;

t.test('a runner whose database dies ends, whatever its tasks do when', async (t) => {
  const server = await ownServer(t);
  const db = connect(server.url, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const pool = connectRunner(server.url, 'test', log, 2);
  t.teardown(() => pool.end());
  const ids = ['1', '2', '3'];
  const steps = new EventTarget();
  let begun = 0;
  let failed = 0;
  const runner = startRunner(pool, {
    concurrency: 3,
    onFailed: () => {
      failed += 1;
    },
    log,
    tasks: {
      async gated({ id }) {
        begun += 1;
        await once(steps, id);
        // It ends in another way: graphile-worker's count of the others is final when this one ends.
        if (id === ids.at(-1)) throw new Error('its lease was lost');
      },
    },
  });
  await add(db, 'gated', ids);
  while (begun < ids.length) await wait(10);
  await server.kill();
  for (const id of ids) {
    steps.dispatchEvent(new Event(id));
    await wait(200);
  }
  while (failed === 0) await wait(10);
  const over = new AbortController();
  const late = wait(HANGS_MS, 'hangs', { signal: over.signal }).catch(() => '');
  const result = await Promise.race([runner.ended.then(() => 'ended'), late]);
  over.abort();
  t.equal(result, 'ended');
  t.equal(failed, 1);
  await server.start();
});

t.test('a runner that could not begin to fetch has failed', async (t) => {
  const server = await ownServer(t);
  const db = connect(server.superuser_url, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const done: string[] = [];
  const begin = async (onFailed: () => void, fetch_ms: number) => {
    const pool = connectRunner(server.url, 'test', log, 2);
    t.teardown(() => pool.end());
    const runner = startRunner(pool, {
      concurrency: 3,
      onFailed,
      fetch_ms,
      log,
      tasks: {
        async plain({ id }) {
          done.push(id);
        },
      },
    });
    t.teardown(() => runner.stop());
    return runner;
  };
  let failed = 0;
  await db`alter table graphile_worker._private_tasks rename to away`;
  const first = await begin(() => {
    failed += 1;
  }, 5_000);
  // Its statement has failed.
  const log_file = `${server.data_dir}.log`;
  await until(() => /_private_tasks" does not exist/.test(readFileSync(log_file, 'utf8')));
  await db`alter table graphile_worker.away rename to _private_tasks`;
  await add(db, 'plain', ['1']);
  await until(() => failed === 1);
  t.same(done, [], 'it would not fetch');
  await first.stop();
  await begin(() => t.fail('the one that fetches goes on'), 30_000);
  await until(() => done.length === 1);
  await wait(2_000);
});

for (const how of ['cut', 'silent'] as const) {
  t.test(`a runner that gets no answer to a fetch has failed (${how})`, async (t) => {
    const server = await ownServer(t);
    const db = connect(server.superuser_url, { name: 'test', max: 1 });
    t.teardown(() => db.end({ timeout: 1 }));
    const way = await losing(t, server.url);
    const done: string[] = [];
    let failed = 0;
    const pool = connectRunner(way.url, 'test', log, 2);
    const runner = startRunner(pool, {
      concurrency: 3,
      onFailed() {
        failed += 1;
      },
      fetch_ms: how === 'cut' ? 600_000 : 20_000,
      log,
      tasks: {
        async plain({ id }) {
          done.push(id);
        },
      },
    });
    t.teardown(() => Promise.race([runner.stop().then(() => pool.end()), wait(2_000)]));
    await add(db, 'plain', ['answered']);
    await until(() => done.length === 1);
    t.equal(failed, 0);
    way.lose('unanswered', how);
    await add(db, 'plain', ['unanswered']);
    await until(() => failed > 0);
    t.equal(way.lost(), 1);
    t.same(done, ['answered']);
    const [job] = await db`select locked_by from graphile_worker._private_jobs`;
    t.equal(job!['locked_by'], runner.locker, 'what it has locked is still locked in its name');
  });
}

t.test('a connection may be released twice', async (t) => {
  const server = await ownServer(t);
  const pool = connectRunner(server.url, 'test', log, 1);
  t.teardown(() => pool.end());
  const taken = () =>
    new Promise<() => void>((resolve, reject) =>
      pool.connect((error, _client, release) => (error ? reject(error) : resolve(release))),
    );
  const [first, second] = [await taken(), taken()];
  first();
  t.doesNotThrow(first);
  const release = await second;
  const third = taken();
  first();
  t.equal(await Promise.race([third.then(() => 'taken'), wait(300, 'waits')]), 'waits');
  release();
  (await third)();

  const over = connectRunner(server.url, 'test', log, 1);
  await over.end();
  const refused = new Promise<Error | undefined>((resolve) =>
    over.connect((error, _client, release) => {
      // As graphile-worker does when it has stopped.
      release?.();
      resolve(error);
    }),
  );
  t.match(await refused, { message: /after calling end/ }, 'there may be nothing to release');
});

type Test = { teardown(work: () => unknown): void };

/** So that whatever starts was not found by a poll. */
const NO_POLL_MS = 600_000;

async function scene(
  t: Test,
  { announcements, poll_ms }: Pick<RunnerOptions, 'announcements' | 'poll_ms'> = {},
) {
  const w = await world(t);
  const consumer_id = (await w.consumer()).id;
  const begun: string[] = [];
  const facts = { confirmed: true, leaving: false };
  const failed: string[] = [];
  const context: EpochContext<never> = {
    consumer_id,
    epoch: 1,
    in_flight: createInFlight(),
    lost: new AbortController().signal,
    mayFetch: () => true,
    turn: () => ({ place: 0, turns: 1 }),
    isConfirmed: () => facts.confirmed,
    hurry: () => {},
    isLeaving: () => facts.leaving,
    current: () => {
      throw new Error('not asked for');
    },
    onFailed: () => failed.push('failed'),
    onStuck: () => {},
    addLocker: (locker) => addLocker(w.web, consumer_id, locker),
  };
  const open = (over: Partial<EpochContext<never>> = {}) => {
    const epoch = openDeliveryEpoch(
      { ...context, ...over },
      {
        address: w.database.urls.web,
        concurrency: 5,
        connections: 2,
        announcements,
        poll_ms,
        log,
        tasks: {
          async deliver_webhook({ id }) {
            begun.push(id);
          },
        },
      },
    );
    t.teardown(async () => {
      await epoch.drain();
      await epoch.close();
    });
    return epoch;
  };
  const lockers = async () =>
    (await w.db`select lockers from runledger.consumers where id = ${consumer_id}`)[0]!['lockers'];
  /** The last statement of each connection of the runner. */
  const statements = async () =>
    (
      await w.web`
        select query from pg_stat_activity where application_name like 'runledger consumer%' and datname = current_database()`
    ).map(({ query }) => query as string);
  const jobs = () => w.db`select locked_by, last_error from graphile_worker._private_jobs`;
  return { w, consumer_id, begun, facts, failed, open, lockers, statements, jobs };
}

/** Adds one job after the other, when the one before has ended. */
async function startEach({ w, begun, jobs }: Awaited<ReturnType<typeof scene>>) {
  for (let n = 1; n <= 15; n += 1) {
    await add(w.db, 'deliver_webhook', [`${n}`]);
    await until(() => begun.length === n);
    await until(async () => (await jobs()).length === 0);
  }
}

t.test('jobs run as soon as they are added; each fetch need not wait for a poll', async (t) => {
  const s = await scene(t, { poll_ms: NO_POLL_MS });
  s.open();
  await until(async () => (await s.statements()).some((text) => /^listen/i.test(text)));
  await startEach(s);
  t.equal(s.begun.length, 15);
});

t.test('where announcements are passed to it, a runner listens on no connection', async (t) => {
  const announcements = createAnnouncements();
  const s = await scene(t, { announcements, poll_ms: NO_POLL_MS });
  s.open();
  await until(async () => (await s.statements()).some((text) => /^unlisten/i.test(text)));
  t.notOk(
    (await s.statements()).some((text) => /^listen/i.test(text)),
    'none listens',
  );

  const heard: string[] = [];
  const listening = listen(
    s.w.db,
    {
      [DELIVERIES_CHANNEL](payload) {
        heard.push(payload);
        announcements.hear(payload);
      },
    },
    { onFault: (error) => t.fail(String(error)) },
  );
  t.teardown(() => listening.close());
  await startEach(s);
  t.ok(heard.length > 0);
});

t.test('an announcement without a valid count stands for one job', (t) => {
  const announcements = createAnnouncements();
  const counts: number[] = [];
  const end = announcements.pass((count) => counts.push(count));
  for (const payload of ['{"count": 3}', '{"r": 1}', '{"count": "x"}', '{"count": -1}', 'null', ''])
    announcements.hear(payload);
  t.strictSame(counts, [3, 1, 1, 1, 1, 1]);
  end();
  announcements.hear('{"count": 3}');
  t.equal(counts.length, 6, 'a runner that has ended gets none');
  t.end();
});

t.test('no task begins before the name that locks its job is recorded', async (t) => {
  const s = await scene(t);
  await add(s.w.db, 'deliver_webhook', ['1']);
  const recording = Promise.withResolvers<boolean>();
  let locker = '';
  s.open({
    addLocker: async (name) => {
      locker = name;
      return recording.promise;
    },
  });
  await until(async () => (await s.jobs())[0]?.['locked_by'] === locker);
  await wait(20);
  t.same(s.begun, []);
  recording.resolve(true);
  await until(() => s.begun.length === 1);

  const dead = await scene(t);
  await add(dead.w.db, 'deliver_webhook', ['1']);
  dead.open({ addLocker: async () => false });
  await wait(2_000);
  t.same(dead.begun, [], 'and none if the consumer was declared dead');
});

t.test('no task begins while it is uncertain that the consumer is alive', async (t) => {
  const s = await scene(t);
  s.facts.confirmed = false;
  await add(s.w.db, 'deliver_webhook', ['1']);
  s.open();
  await until(async () => (await s.jobs())[0]?.['last_error'] != null);
  t.same(s.begun, []);
  t.same(s.failed, ['failed'], 'it asks for another epoch');
  // Three polls.
  await add(s.w.db, 'deliver_webhook', ['2']);
  await wait(3_000);
  const untried = await s.w.db`select from graphile_worker._private_jobs where attempts = 0`;
  t.equal(untried.length, 1, 'and leaves the jobs of others alone');
});

t.test(
  'the name is recorded with the consumer, and removed when the runner has ended',
  async (t) => {
    const s = await scene(t);
    const epoch = s.open();
    await until(async () => (await s.lockers()).length === 1);
    const [locker] = await s.lockers();
    // What it leaves locked, as when its last statements were lost.
    await add(s.w.db, 'other', ['1']);
    await s.w.db`update graphile_worker._private_jobs set locked_by = ${locker}, locked_at = now()`;
    await epoch.leave();
    await until(async () => (await s.lockers()).length === 0);
    t.match(await s.jobs(), [{ locked_by: null }]);
    t.same(s.failed, [], 'a runner that is stopped has not failed');
  },
);

t.test('a consumer that drains opens no runner', async (t) => {
  const s = await scene(t);
  s.facts.leaving = true;
  t.equal(s.open(), NO_RUNNER);
});
