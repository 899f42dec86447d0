/** The short way: the transaction that accepts a submission starts its execution, and the one that ends it tells the result. */
import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { type Db, listen } from '../../src/db.ts';
import { uuidv7 } from '../../src/domain/ids.ts';
import { advanceEpoch, leaveQueue, workerHeartbeat } from '../../src/store/consumers.ts';
import { handedJob, repliedResult, secretChannel } from '../../src/store/handed.ts';
import type { FetchedJob } from '../../src/store/jobs.ts';
import { createResults } from '../../src/store/results.ts';
import { createSubmissions, type NewSubmission } from '../../src/store/submissions.ts';
import { until } from '../support/eventually.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { idOf, outcome, submission, webhook, world } from './world.ts';

/** A heartbeat that stays fresh. Nothing is handed to a worker without one for two seconds, and a slow machine may take longer. */
async function freshHeartbeat(w: { db: Db; worker: Db }, consumer: string, hand_to: string) {
  const answer = await workerHeartbeat(w.worker, consumer, hand_to);
  await w.db`update runledger.consumers set heartbeat_at = runledger.clock() + interval '1 hour' where id = ${consumer}`;
  return answer;
}

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  await w.tier('one', 0, 1);
  const { digest } = await w.key({ tier: 'free' });
  const [reply_to, hand_to] = [secretChannel(), secretChannel()];
  const heard: { [channel: string]: string[] } = { [reply_to]: [], [hand_to]: [] };
  const hearing = Promise.withResolvers<void>();
  const listening = listen(
    w.db,
    Object.fromEntries(Object.keys(heard).map((name) => [name, (text) => heard[name]!.push(text)])),
    { onFault: (error) => hearing.reject(error), onHearing: hearing.resolve },
  );
  t.teardown(() => listening.close());
  await hearing.promise;
  const { submit, submitAll } = createSubmissions(w.web, {
    queue_capacity: 1_000,
    replyTo: () => reply_to,
  });
  const takers: string[] = [];
  const beat = async () => {
    for (const id of takers) await freshHeartbeat(w, id, hand_to);
  };
  /** A worker that takes executions. */
  const taker = async () => {
    const consumer = await w.consumer({ slots: 2 });
    takers.push(consumer.id);
    return consumer;
  };
  const next = async (channel: string) => {
    await until(() => heard[channel]!.length > 0);
    return heard[channel]!.shift()!;
  };
  const command = (given: Partial<NewSubmission> = {}, by = digest) => ({
    secret_digest: by,
    submission: submission(given),
    unflushed: true,
  });
  const add = async (given: Partial<NewSubmission> = {}, by = digest) => {
    await beat();
    return idOf(await submit(command(given, by)));
  };
  /** Settles when a statement of this database waits for a lock. */
  const isLockWaited = async () => {
    let gone = false;
    t.teardown(() => {
      gone = true;
    });
    while (!gone && (await lockWaits(w.db)) === 0) await wait(20);
    return 'waits for a lock';
  };
  /** How many jobs there are; a submission that was handed over has none. */
  const jobs = async () =>
    (
      await w.db`select from graphile_worker._private_jobs where task_id = any (array(
      select id from graphile_worker._private_tasks where identifier like 'execute_%'))`
    ).length;
  return {
    ...{ w, submit, submitAll, taker, beat, command, add, jobs, isLockWaited },
    sent: async (): Promise<FetchedJob> => handedJob(await next(hand_to)),
    replied: async () => repliedResult(await next(reply_to)),
    record: async (id: string) => (await createResults(w.web).ended([id], true))[0],
    leases: () => w.db`select * from runledger.leases`,
    events: async (id: string) =>
      (await w.db`select type from runledger.log where stream = ${id} order by version`).map(
        ({ type }) => type,
      ),
  };
}

t.test('a worker is sent what to run, and the web process the result', async (t) => {
  const s = await scene(t);
  const { id: consumer, executions } = await s.taker();
  const bytes = Buffer.from([0, 1, 2, 0x80, 0xff, 0x0a, 0x5c]);
  const given = {
    code: Buffer.from('print("ü€😀\\n\0")'.repeat(20)),
    stdin: bytes,
    args: ['a b', '"', '\\', 'ü', ''],
    expected_output: bytes,
    compare: 'exact' as const,
    limits: { cpu_time_ms: 1234 },
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    webhook: webhook(),
  };
  const id = await s.add(given);
  const job = await s.sent();
  const { started, ...named } = job;
  const { deaths, traceparent, unreadable, order, created_at, started_at } = started!;
  t.match(named, { epoch: 1, submission_id: id, alone: false, newcomer: false });
  const { code, stdin, args, expected_output, compare, limits } = given;
  t.strictSame(
    { deaths, traceparent, unreadable },
    { deaths: 0, traceparent: given.traceparent, unreadable: null },
  );
  // The same as if it had been asked for.
  const asked = await executions.start({ submission_id: id, job_id: job.id, priority: 0 });
  t.strictSame({ ...started, order: plain(order) }, { ...asked, order: plain(asked!.order) });
  t.match(plain(order), {
    ...plain({ code, stdin, args, expected_output, compare, limits }),
    attempt: 1,
  });
  t.ok(created_at <= started_at);
  t.same(await s.events(id), ['submission.accepted', 'execution.started']);
  t.match(await s.leases(), [
    { submission_id: id, consumer_id: consumer, attempt: 1, job_id: job.id },
  ]);
  t.equal(await s.jobs(), 0);
  t.same(await s.w.db`select runledger.recount() as wrong`, [{ wrong: 0 }], 'every count is right');

  const printed = { stdout: Buffer.concat([bytes, bytes]), stderr: Buffer.from('ä\n'.repeat(100)) };
  await executions.complete({ submission_id: id, attempt: 1, outcome: outcome(printed) });
  const said = await s.replied();
  // The request of the webhook is one more event.
  t.strictSame({ ...said, version: 4 }, await s.record(id));
  t.match(said, { id, verdict: 'AC', ...printed });
  t.equal((await s.leases()).length, 0);
});

t.test('empty output, a fault and a cancelled one are sent like any other', async (t) => {
  const s = await scene(t);
  const { executions } = await s.taker();
  const id = await s.add();
  const { started } = await s.sent();
  t.strictSame(started!.order.stdin, new Uint8Array());
  t.equal(started!.order.expected_output, null);
  const none = new Uint8Array();
  await executions.complete({ submission_id: id, attempt: 1, outcome: outcome({ stdout: none }) });
  t.strictSame(await s.replied(), await s.record(id));

  const cancelled = await s.add();
  await s.sent();
  await s.w.cancel(cancelled);
  const said = await s.replied();
  t.strictSame(said, await s.record(cancelled));
  t.match(said, { id: cancelled, status: 'cancelled' });
});

t.test('what is too large for a NOTIFY is named, and asked for', async (t) => {
  const s = await scene(t);
  const { executions } = await s.taker();
  const ended = async (id: string, stdout: Buffer) => {
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome({ stdout }) });
    return s.replied();
  };
  const id = await s.add({ code: Buffer.alloc(3_000, 'x'), stdin: Buffer.alloc(2_000, 'y') });
  t.equal((await s.sent()).started?.order.code.length, 3_000);
  t.match(await ended(id, Buffer.alloc(5_000, 'z')), { id, stdout: Buffer.alloc(5_000, 'z') });

  // Six bytes of JSON for each.
  const args = ['\x01'.repeat(1_500)];
  const large = await s.add({ args });
  const { started, id: job_id } = await s.sent();
  t.equal(started, null);
  const command = { submission_id: large, job_id, priority: 0 };
  t.strictSame((await executions.start(command))!.order.args, args);
  t.strictSame(await ended(large, Buffer.alloc(5_001, 'z')), { id: large });
  t.equal(await executions.start(command), null, 'it is over');
});

t.test('it gets a job, as any other', async (t) => {
  const s = await scene(t);
  const { w } = s;
  const { executions, id: consumer } = await s.taker();
  const handed = async (id: string) => (await s.events(id)).includes('execution.started');
  const end = async (id: string, attempt = 1) =>
    executions.complete({ submission_id: id, attempt, outcome: outcome() });
  const long = async (why: string, submitOne: () => Promise<string>) => {
    const id = await submitOne();
    t.equal(await handed(id), false, why);
    t.equal(await s.jobs(), 1);
    await w.cancel(id);
  };
  const isHanded = async (what: string) => {
    const id = await s.add();
    t.ok(await handed(id), what);
    await end(id);
  };
  const change = (set: string) => w.db.unsafe(`update runledger.consumers set ${set}`);

  await isHanded('at first');
  await long('no client waits', async () =>
    idOf(await s.submit({ ...s.command(), unflushed: false })),
  );
  await long('the worker does not run its language', () => s.add({ language: 'java' }));
  await long('it has tests', () =>
    s.add({ judging: { tests: 1, test_set: null, stop: null, packed: Buffer.from('{}') } }),
  );
  await long('the worker has not been heard of for long', async () => {
    await s.beat();
    await change(`heartbeat_at = runledger.clock() - interval '3 seconds'`);
    return idOf(await s.submit(s.command()));
  });
  await long('the lock of the worker is free', async () => {
    await s.beat();
    await change('lock_key = lock_key + 1');
    return idOf(await s.submit(s.command()));
  });
  await long('the worker listens no more', async () => {
    await workerHeartbeat(w.worker, consumer, null);
    return idOf(await s.submit(s.command()));
  });
  await long('the worker begins a new epoch', async () => {
    await s.beat();
    t.ok(await advanceEpoch(w.worker, consumer, 2, []));
    return idOf(await s.submit(s.command()));
  });
  for (const table of ['consumers', 'consumer_progress'])
    await long(`another transaction holds the worker's row of ${table}`, async () => {
      await s.beat();
      const submitted = await w.db.begin(async (tx) => {
        await tx.unsafe(`select from runledger.${table} for update`);
        const submitting = s.submit(s.command());
        t.equal(
          await Promise.race([submitting.then(() => 'goes on'), s.isLockWaited()]),
          'goes on',
        );
        return { submitting };
      });
      return idOf(await submitted.submitting);
    });
  await long('it is large', () => s.add({ stdin: Buffer.alloc(5_001 - 'print(1)'.length) }));
  await long('the channel of the worker is none of ours', async () => {
    await workerHeartbeat(w.worker, consumer, '');
    return idOf(await s.submit(s.command()));
  });
  await long('the channel of the web process is none of ours', async () => {
    await s.beat();
    const { submit } = createSubmissions(w.web, {
      queue_capacity: 9,
      replyTo: () => 'x'.repeat(64),
    });
    return idOf(await submit(s.command()));
  });
  await long('it is no worker', async () => {
    await s.beat();
    await change(`kind = 'web'`);
    return idOf(await s.submit(s.command()));
  });
  await change(`kind = 'worker'`);
  await isHanded('in the new epoch');

  const { digest } = await w.key({ tier: 'one' });
  const first = await s.add({}, digest);
  const gated = await s.add({}, digest);
  t.same([await handed(first), await handed(gated)], [true, false], 'the key has what it may');
  await end(first);
  t.equal(await s.jobs(), 1);
  const overtaking = await s.add();
  t.equal(await handed(overtaking), false, 'another one waits');
  for (const id of [gated, overtaking]) await w.cancel(id);

  const given_back = await s.add();
  await executions.release([given_back], 'shutdown');
  const later = await s.add();
  t.equal(await handed(later), false, 'what was given back waits');
  await w.cancel(later);
  await w.db`update graphile_worker._private_jobs set run_at = now() + interval '1 minute'`;
  await isHanded('a job waits for its time');
  await w.cancel(given_back);

  const java = await s.add({ language: 'java' });
  t.equal(await s.jobs(), 1);
  await isHanded('a job waits that this worker cannot run');
  await w.cancel(java);

  const two = [await s.add(), await s.add()];
  t.same(await Promise.all(two.map(handed)), [true, true]);
  await long('all slots are taken', () => s.add());
  for (const id of two) await end(id);
  await isHanded('a slot is free again');

  await s.beat();
  const both = await s.submitAll([s.command(), s.command()]);
  t.same(await Promise.all(both.map((one) => handed(idOf(one)))), [false, false], 'two at once');
  for (const one of both) await w.cancel(idOf(one));

  await leaveQueue(w.worker, consumer);
  await long('the worker has left', async () => idOf(await s.submit(s.command())));
});

t.test(
  'a hand-over does not wait for the disk, and a fetch that starts something does',
  async (t) => {
    const s = await scene(t);
    const { id: consumer } = await s.taker();
    // At the commit, it notes how the commit will be.
    await s.w.db.unsafe(`
    create table runledger.commits (submission_id uuid, synchronous_commit text);
    create function runledger.note_commit() returns trigger language plpgsql as $$
    begin
      insert into runledger.commits values (new.submission_id, current_setting('synchronous_commit'));
      return null;
    end $$;
    create constraint trigger note after insert on runledger.leases deferrable initially deferred
    for each row execute function runledger.note_commit();`);
    const commits = async () =>
      (await s.w.db`select * from runledger.commits`).map((row) => [
        row['submission_id'],
        row['synchronous_commit'],
      ]);
    const handed = await s.add();
    t.same(await commits(), [[handed, 'off']]);
    const fetched = idOf(await s.submit({ ...s.command(), unflushed: false }));
    await s.w.worker`select from runledger.fetch_executions(${consumer}, 1, '{execute_python}', 9)`;
    t.same(await commits(), [
      [handed, 'off'],
      [fetched, 'on'],
    ]);
  },
);

t.test('a report of a submission that a crash has undone is refused', async (t) => {
  const s = await scene(t);
  const { executions } = await s.taker();
  const undone = { submission_id: uuidv7(Date.now(), randomBytes(10)), attempt: 1 };
  t.equal(await executions.complete({ ...undone, outcome: outcome() }), 'refused');
  const none = { released: [], ended: 0 };
  t.same(await executions.release([undone.submission_id], 'shutdown'), none);
});

t.test('a search for executions does not read the deliveries that wait', async (t) => {
  const s = await scene(t);
  const { id: consumer } = await s.taker();
  const DELIVERIES = 1_000;
  await s.w.db`select graphile_worker.add_jobs((select array_agg((
    'deliver_webhook', '{}'::json, null, null, 9, null, runledger.delivery_priority(n % 2 = 0), null
  )::graphile_worker.job_spec) from generate_series(1, ${DELIVERIES}) n))`;
  const read = async () => {
    const [row] = await s.w.db`
      select pg_stat_force_next_flush(), pg_stat_clear_snapshot(), sum(idx_tup_read)::integer as tuples
      from pg_stat_user_indexes where schemaname = 'graphile_worker' and relname = '_private_jobs'`;
    return row!['tuples'] as number;
  };
  const readBy = async (db: typeof s.w.db, work: (db: typeof s.w.db) => PromiseLike<unknown>) => {
    const before = await read();
    await work(db);
    await db`select pg_stat_force_next_flush()`;
    return (await read()) - before;
  };
  const worker = s.w.connect(s.w.database.urls.worker, 1);
  const search = (tasks: string) => (db: typeof s.w.db) =>
    db`select from runledger.fetch_executions(${consumer}, 1, ${tasks}::text::text[], 9)`;
  t.ok((await readBy(worker, search('{execute_python}'))) < DELIVERIES / 10, 'of a fetch');

  const web = s.w.connect(s.w.database.urls.web, 1);
  const { submit } = createSubmissions(web, { queue_capacity: 9, replyTo: secretChannel });
  await s.beat();
  const handing = await readBy(web, async () => {
    const id = idOf(await submit(s.command()));
    t.ok((await s.events(id)).includes('execution.started'));
  });
  t.ok(handing < DELIVERIES / 10, 'of a hand-over');

  await s.w.db`select graphile_worker.add_jobs((select array_agg((
    'execute_java', '{}'::json, null, null, 9, null, 0, null)::graphile_worker.job_spec) from generate_series(1, ${DELIVERIES}) n))`;
  const beside = await readBy(web, async () => {
    const id = idOf(await submit(s.command()));
    t.ok((await s.events(id)).includes('execution.started'), 'however many wait for others');
  });
  t.ok(beside < DELIVERIES / 10, 'jobs of another language are not read either');

  await s.w.db`select graphile_worker.add_jobs((select array_agg((
    'execute_python', json_build_object('id', gen_random_uuid()), null, null, 9, null, -1, null)::graphile_worker.job_spec)
    from generate_series(1, ${DELIVERIES}) n))`;
  t.ok((await readBy(worker, search('{execute_python}'))) < DELIVERIES / 10, 'nor all of its own');
  const [bounds] = await s.w.db`
    select runledger.round_priority(0, 1e9::bigint) as least, runledger.delivery_priority(true) as put_back`;
  t.ok(bounds!['put_back'] < bounds!['least'], 'no round is a priority of deliveries');
});

t.test('one that the worker has not heard of', async (t) => {
  const s = await scene(t);
  const { id: consumer, executions } = await s.taker();
  // The clock stands still: from a second after its start, an execution is named.
  await s.w.clock.advance(0);
  const beat = () => workerHeartbeat(s.w.worker, consumer, secretChannel());
  const id = await s.add();
  const { id: job_id } = await s.sent();
  t.equal((await beat()).handed, null, 'it may still be on its way');
  const old = () =>
    s.w.db`update runledger.leases set started_at = started_at - interval '2 seconds'`;
  await old();
  t.same((await beat()).handed, [{ submission_id: id, job_id }], 'a heartbeat names it');
  await s.w.db`update runledger.leases set started_at = runledger.clock() + interval '1 hour'`;
  t.same(
    (await beat()).handed,
    [{ submission_id: id, job_id }],
    'also after the clock was set back',
  );
  const started = await executions.start({ submission_id: id, job_id, priority: 0 });
  t.match(started, { order: { submission_id: id, attempt: 1 } });

  t.ok(await advanceEpoch(s.w.worker, consumer, 2, [job_id]));
  t.equal((await s.leases()).length, 1, 'a new epoch keeps what the worker knows');
  t.ok(await advanceEpoch(s.w.worker, consumer, 3, []));
  t.same((await s.events(id)).at(-1), 'execution.lost', 'and gives the others back');
  t.equal(await s.jobs(), 1);
  t.equal((await beat()).handed, null);

  const before = await s.events(id);
  t.equal(await executions.start({ submission_id: id, job_id, priority: 0 }), null);
  t.same(await s.events(id), before, 'it is not started by that number');

  const fetched = await s.w
    .db`select (runledger.fetch_executions(${consumer}, 3, '{execute_python}', 9)).*`;
  t.equal(fetched.length, 1);
  await old();
  t.equal((await beat()).handed, null, 'what was fetched is not named');
});

t.test('two workers: the one with more free slots gets it', async (t) => {
  const s = await scene(t);
  const few = await s.w.consumer({ slots: 1 });
  const many = await s.w.consumer({ slots: 2 });
  const channels = new Map([few, many].map(({ id }) => [id, secretChannel()]));
  for (const [id, name] of channels) await freshHeartbeat(s.w, id, name);
  for (let n = 0; n < 4; n += 1) await s.add();
  const leases = await s.leases();
  t.equal(leases[0]!['consumer_id'], many.id);
  t.same(
    leases.map(({ consumer_id }) => consumer_id).toSorted(),
    [few.id, many.id, many.id].toSorted(),
  );
  t.equal(await s.jobs(), 1);
});

const plain = (order: object) =>
  Object.fromEntries(
    Object.entries(order).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
    ]),
  );

t.test("web takes no executions, in nobody's name", async (t) => {
  const s = await scene(t);
  const { id: consumer } = await s.w.consumer();
  await t.rejects(workerHeartbeat(s.w.web, consumer, secretChannel()), {
    message: /^permission denied for function worker_heartbeat/,
  });
  await workerHeartbeat(s.w.worker, consumer, secretChannel());
});
