/**
 * What sql/functions assumes of graphile-worker. A new version of it must pass this file before it is used: our statements
 * read and write its tables, and call its functions with these meanings.
 */
import t from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { createLog } from '../../src/log.ts';
import { joinQueue, QueueSchemaUnknown } from '../../src/queue/consumer.ts';
import { NO_RUNNER } from '../../src/queue/delivery_runner.ts';
import { queueSchemaProblem } from '../../src/store/consumers.ts';
import { freshDatabase } from '../support/database.ts';

type Test = { teardown(work: () => unknown): void };

type Job = {
  id: string;
  task: string;
  payload: Record<string, unknown>;
  priority: number;
  attempts: number;
  max_attempts: number;
  key: string | null;
  locked_by: string | null;
  locked_at: Date | null;
  is_available: boolean;
  run_at: Date;
};

async function scene(t: Test) {
  const database = await freshDatabase(t);
  const db = connect(database.url, { name: 'test', max: 2 });
  t.teardown(() => db.end({ timeout: 1 }));
  const jobs = () => db<Job[]>`
    select j.id, t.identifier as task, j.payload, j.priority, j.attempts, j.max_attempts, j.key, j.locked_by, j.locked_at,
      j.is_available, j.run_at
    from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id order by j.id`;
  const add = async (
    spec: { task?: string; key?: string; priority?: number; at?: string } = {},
  ) => {
    const { task = 'a_task', key = null, priority = null, at = null } = spec;
    const [job] = await db<{ id: string }[]>`select id from graphile_worker.add_jobs(array[(
      ${task}, '{"id": 1}', null, ${at}::timestamptz, 32767, ${key}, ${priority}::smallint, null)::graphile_worker.job_spec])`;
    return job!.id;
  };
  const lock = (id: string, locker: string, age = '0 s') => db`
    update graphile_worker._private_jobs set locked_by = ${locker}, locked_at = now() - ${age}::interval, attempts = attempts + 1
    where id = ${id}`;
  return { db, database, jobs, add, lock };
}

const list = (ids: readonly string[]) => `{${ids.join(',')}}`;

t.test('the schema is the one that is known', async (t) => {
  const { db, database } = await scene(t);
  t.equal(await queueSchemaProblem(db), null);
  const worker = connect(database.urls.worker, { name: 'test', max: 1 });
  t.teardown(() => worker.end({ timeout: 1 }));
  t.equal(await queueSchemaProblem(worker), null, 'as the worker sees it, too');
  const required = await db`
    select attname from pg_attribute where attrelid = 'graphile_worker._private_jobs'::regclass and attnum > 0
      and not attisdropped and attnotnull and not atthasdef and attidentity = '' and attname <> 'task_id'`;
  t.same([...required], [], 'task_id is the only column of a job without a default');
});

t.test('a consumer does not join a queue whose schema is unknown', async (t) => {
  const { db, database } = await scene(t);
  await db.unsafe(`
    alter table graphile_worker._private_jobs rename locked_by to locked;
    drop function graphile_worker.complete_jobs`);
  const joining = joinQueue({
    address: database.urls.worker,
    kind: 'worker',
    slots: 1,
    toolchains: {},
    isolation: {},
    openEpoch: () => NO_RUNNER,
    log: createLog({ level: 'silent', process: 'test', to: 'stderr' }),
  });
  await t.rejects(joining, QueueSchemaUnknown);
  await t.rejects(joining, {
    message: /missing: _private_jobs\.locked_by text, complete_jobs\(bigint\[\]\)$/,
  });
});

t.test('a job is available until it is locked, has no attempts left, or is deleted', async (t) => {
  const { db, jobs, add, lock } = await scene(t);
  const id = await add();
  t.match(await jobs(), [
    {
      task: 'a_task',
      priority: 0,
      attempts: 0,
      locked_by: null,
      is_available: true,
      max_attempts: 32767,
    },
  ]);
  await lock(id, 'me');
  t.match(await jobs(), [{ is_available: false, attempts: 1 }]);
  await db`update graphile_worker._private_jobs set locked_by = null, locked_at = null`;
  t.match(await jobs(), [{ is_available: true }]);
  await db`update graphile_worker._private_jobs set attempts = max_attempts`;
  t.match(await jobs(), [{ is_available: false }]);
  await t.rejects(db`update graphile_worker._private_jobs set is_available = true`, {
    code: '428C9',
  });
});

t.test('a job that our functions insert is like one of add_jobs()', async (t) => {
  const { db, jobs, add } = await scene(t);
  await add({ task: 'execute_python', priority: 3 });
  const [theirs] = await db`select * from graphile_worker._private_jobs`;
  await db`delete from graphile_worker._private_jobs`;
  await db`select runledger.add_executions(array[
    ('execute_python', '{"id": 1}', null, null, 32767, null, 3, null)::graphile_worker.job_spec])`;
  const [ours] = await db`select * from graphile_worker._private_jobs`;
  const comparable = ({
    id: _,
    created_at: _c,
    updated_at: _u,
    run_at: _r,
    ...rest
  }: Record<string, unknown>) => rest;
  t.same(comparable(ours!), comparable(theirs!));
  t.equal((await jobs())[0]?.task, 'execute_python');
});

t.test('a lower priority comes first, then an earlier time; both are small numbers', async (t) => {
  const { db, add, jobs } = await scene(t);
  const late = await add({ priority: 1 });
  const early = await add({ priority: -32768 });
  const later = await add({ priority: 1 });
  const order = await db<{ id: string }[]>`
    select id from graphile_worker._private_jobs where is_available order by priority, run_at`;
  t.same(
    order.map(({ id }) => id),
    [early, late, later],
  );
  await db`select graphile_worker.reschedule_jobs(${list([early])}::bigint[], priority => 7)`;
  t.equal((await jobs()).find(({ id }) => id === early)?.priority, 7);
});

t.test(
  'complete_jobs, reschedule_jobs and remove_job pass over a job that is locked',
  async (t) => {
    const { db, jobs, add, lock } = await scene(t);
    const [free, locked] = [await add(), await add({ key: 'k' })];
    await lock(locked, 'me');
    const both = list([free, locked]);
    await db`select graphile_worker.reschedule_jobs(${both}::bigint[], run_at => now() + interval '1 hour')`;
    t.same(
      (await jobs()).map(({ run_at }) => +run_at > Date.now()),
      [true, false],
    );
    await db`select graphile_worker.complete_jobs(${both}::bigint[])`;
    t.match(await jobs(), [{ id: locked }]);
    await db`select graphile_worker.remove_job('k')`;
    t.match(
      await jobs(),
      [{ id: locked, key: null, attempts: 32767, locked_by: 'me' }],
      'it loses its key and its retries',
    );
  },
);

t.test(
  'a job that is added by the key of a waiting job replaces it; a locked one stays, and cannot run again',
  async (t) => {
    const { jobs, add, lock } = await scene(t);
    const first = await add({ key: 'k' });
    t.equal(await add({ key: 'k', at: '2040-01-01' }), first, 'the same row');
    t.match(await jobs(), [{ key: 'k' }]);
    await lock(first, 'me');
    const second = await add({ key: 'k' });
    t.match(await jobs(), [
      { id: first, key: null, attempts: 32767, is_available: false },
      { id: second, key: 'k', is_available: true },
    ]);
  },
);

t.test(
  'force_unlock_workers unlocks by the exact name, and changes neither time nor attempts',
  async (t) => {
    const { db, jobs, add, lock } = await scene(t);
    const [mine, other] = [await add(), await add()];
    await lock(mine, 'me/1');
    await lock(other, 'me/11');
    const before = await jobs();
    await db`select graphile_worker.force_unlock_workers('{me/1}')`;
    t.same(await jobs(), [
      { ...before[0], locked_by: null, locked_at: null, is_available: true },
      before[1],
    ]);
  },
);

t.test('add_jobs announces on jobs:insert; our executions do not', async (t) => {
  const { db, add } = await scene(t);
  const heard: string[] = [];
  const listening = await db.listen('jobs:insert', (payload) => heard.push(payload));
  const done = Promise.withResolvers<void>();
  const last = await db.listen('last', () => done.resolve());
  t.teardown(() => Promise.all([listening.unlisten(), last.unlisten()]));
  await add();
  await db`select runledger.add_executions(array[
    ('execute_python', '{"id": 1}', null, null, 32767, null, 3, null)::graphile_worker.job_spec])`;
  await db`select pg_notify('last', '')`;
  await done.promise;
  t.equal(heard.length, 1);
  t.equal(JSON.parse(heard[0]!).count, 1);
});

t.test(
  'a runner frees a lock that is four hours old, so no execution may take as long',
  async (t) => {
    const { db, jobs, add, lock } = await scene(t);
    const id = await add();
    await lock(id, 'me', '3 hours 59 minutes');
    await complete(db, id);
    t.equal((await jobs()).length, 1);
    await lock(id, 'me', '4 hours 1 minute');
    await complete(db, id);
    t.equal((await jobs()).length, 0);
  },
);

const complete = (db: Db, id: string) =>
  db`select graphile_worker.complete_jobs(${list([id])}::bigint[])`;
