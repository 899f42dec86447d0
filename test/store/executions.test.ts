import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type postgres from 'postgres';
import t from 'tap';
import { connect, createSockets, listen } from '../../src/db.ts';
import { MOST_SLOTS } from '../../src/domain/launcher_bounds.ts';
import { VERDICT_NAMES } from '../../src/domain/verdicts.ts';
import { DELIVERIES_AT_ONCE } from '../../src/queue/web_jobs.ts';
import { advanceEpoch, registerConsumer } from '../../src/store/consumers.ts';
import { SMALL_ORDERS_BYTES } from '../../src/store/executions.ts';
import { fetchExecutions, returnJob } from '../../src/store/jobs.ts';
import { findObstacle } from '../../src/store/reruns.ts';
import { createTestSets } from '../../src/store/test_sets.ts';
import { verify } from '../../src/store/verify.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { aSet } from './a_set.ts';
import { seal } from './seal_now.ts';
import { besides } from './verified.ts';
import { idOf, outcome, start, submission, type World, webhook, world } from './world.ts';

type Scene = Awaited<ReturnType<typeof scene>>;

/** One submission that waits, and two consumers. */
async function scene(t: { teardown(work: () => unknown): void }, change = {}) {
  const w = await world(t);
  const key = await w.key();
  const { submit } = w.submissions();
  const one = submission(change);
  const id = idOf(await submit({ secret_digest: key.digest, submission: one }));
  return { w, key, id, submit, mine: await w.consumer(), others: await w.consumer() };
}

const eventsOf = async ({ w, id }: { w: World; id: string }) =>
  (await w.db`select type from runledger.events where stream = ${id} order by version`).map(
    (row) => row['type'],
  );

const rowOf = async ({ w, id }: { w: World; id: string }) => {
  const [row] = await w.db`select * from runledger.submissions where id = ${id}`;
  return row!;
};

const placesOf = async ({ w, key }: Scene) => {
  const [row] =
    await w.db`select dispatched, gated from runledger.key_usage where key_id = ${key.id}`;
  return { ...row };
};

t.test('start answers what there is to run, once', async (t) => {
  const s = await scene(t, { stdin: Buffer.from('in'), limits: { cpu_time_ms: 500 } });
  t.match(await start(s.mine.executions, s.id), {
    deaths: 0,
    order: {
      submission_id: s.id,
      attempt: 1,
      language: 'python',
      compare: 'lenient',
      limits: { cpu_time_ms: 500 },
    },
  });
  t.equal(await start(s.others.executions, s.id, 2), null, 'not to another consumer');
  t.match(await rowOf(s), { status: 'running', attempts: 1, version: 2 });
});

t.test('of two consumers that start the same submission at once, one gets it', async (t) => {
  const s = await scene(t);
  const answers = await Promise.all([
    start(s.mine.executions, s.id),
    start(s.others.executions, s.id, 2),
  ]);
  t.equal(answers.filter((answer) => answer !== null).length, 1);
  t.same(await eventsOf(s), ['submission.accepted', 'execution.started']);
});

t.test('complete ends it, keeps its output, and gives the place of its key back', async (t) => {
  const s = await scene(t);
  await start(s.mine.executions, s.id);
  t.same(await placesOf(s), { dispatched: 1, gated: 0 });
  const stdout = Buffer.from([0, 255, 10]);
  t.equal(
    await s.mine.executions.complete({
      submission_id: s.id,
      attempt: 1,
      outcome: outcome({ stdout }),
    }),
    'ended',
  );
  t.match(await rowOf(s), {
    status: 'completed',
    verdict: 'AC',
    exit_code: 0,
    stdout_truncated: false,
  });
  t.same(await placesOf(s), { dispatched: 0, gated: 0 });
  const [kept] = await s.w
    .db`select bytes from runledger.payloads where stream = ${s.id} and kind = 'stdout'`;
  t.same(kept!['bytes'], stdout);
});

t.test('a report without a lease is recorded and changes nothing', async (t) => {
  const s = await scene(t);
  await start(s.mine.executions, s.id);
  const late = { submission_id: s.id, attempt: 1, outcome: outcome({ verdict: 'WA' }) };
  t.equal(await s.others.executions.complete(late), 'refused', 'not by another consumer');
  t.equal(
    await s.mine.executions.complete({ ...late, attempt: 2 }),
    'refused',
    'not for another attempt',
  );
  t.match(await rowOf(s), { status: 'running', version: 4 });

  const facts = () => s.w.db`select waiting::integer, again::integer from runledger.queue_facts()`;
  // As the worker that fetched it does.
  await s.w.db`delete from graphile_worker._private_jobs`;
  t.same([...(await facts())], [{ waiting: 0, again: 0 }]);
  t.same(await s.mine.executions.release([s.id], 'shutdown'), { released: [s.id], ended: 0 });
  t.same([...(await facts())], [{ waiting: 0, again: 1 }], 'it takes no place in the queue');
  t.equal(await s.mine.executions.complete(late), 'refused', 'not after it was given back');
  t.match(await start(s.others.executions, s.id, 2), { order: { attempt: 2 } });
  t.equal(await s.mine.executions.complete(late), 'refused', 'not while another runs it');
  const good = { submission_id: s.id, attempt: 2, outcome: outcome() };
  t.equal(await s.others.executions.complete(good), 'ended');
  t.equal(await s.mine.executions.complete(late), 'refused', 'not after it has ended');
  t.equal(await s.mine.executions.complete(good), 'refused', 'not as a repeated report of another');
  t.match(await rowOf(s), { status: 'completed', verdict: 'AC', attempts: 2 });
  t.equal((await eventsOf(s)).filter((type) => type === 'execution.refused').length, 6);
});

t.test('a login of a worker or of web appends nothing that is never sealed', async (t) => {
  const s = await scene(t);
  const { w, mine } = s;
  const report = (verdict: string) => w.worker`
    select runledger.complete_many(${mine.id}, array[${s.id}]::uuid[], '{1}',
      jsonb_build_array(jsonb_build_object('status', 'completed', 'facts', jsonb_build_object('verdict', ${verdict}::text))),
      '{}', '{}', '{}')`;
  const long = 'x'.repeat(17_000_000);
  for (const verdict of [long, ...VERDICT_NAMES]) await report(verdict);
  const refused = await w.db<{ verdict: string | null }[]>`
    select facts ->> 'verdict' as verdict from runledger.events where type = 'execution.refused' order by version`;
  t.same(
    refused.map(({ verdict }) => verdict),
    [null, ...VERDICT_NAMES],
  );
  await start(mine.executions, s.id);
  await mine.executions.release([s.id], 'shutdown', { long });
  const [lost] = await w.db<{ evidence: object }[]>`
    select facts -> 'evidence' as evidence from runledger.events where type = 'execution.lost'`;
  t.same(lost!.evidence, { left_out: 'it is too long' });
  await start(mine.executions, s.id, 2);
  const ends = w.worker`
    select runledger.complete_many(${mine.id}, array[${s.id}]::uuid[], '{2}',
      jsonb_build_array(jsonb_build_object('status', 'error', 'facts', jsonb_build_object('verdict', 'IE', 'evidence',
        (select jsonb_object_agg(n, 1e130000::numeric) from generate_series(1, 100) n)))), '{}', '{}', '{}')`;
  await t.rejects(ends, {
    message: /^the facts of submission.failed have \d+ bytes, and may have /,
  });

  const [owner] = await w.db<{ account_id: string; key_id: string }[]>`
    select account_id, id as key_id from runledger.keys where id = ${s.key.id}`;
  const created = await createTestSets(w.web).create({
    owner: owner!,
    ...aSet('a set', [Buffer.from('1')]),
  });
  const { id } = created as { id: string };
  const facts = { x: 1, unused_since: 'then', operator: long, request_id: '', traceparent: 2 };
  await w.web`
    select runledger.remove_test_set(${owner!.account_id}, ${owner!.key_id}, ${id}, ${JSON.stringify(facts)}::text::jsonb)`;
  await seal(w.web);
  t.same(besides((await verify(w.db)).problems), []);
});

t.test('a report that waits for its row while another consumer starts it is refused', async (t) => {
  const s = await scene(t);
  await start(s.mine.executions, s.id);
  const report = { submission_id: s.id, attempt: 1, outcome: outcome() };
  let answer: Promise<unknown> | undefined;
  await s.w.db.begin(async (tx) => {
    await tx`select runledger.release_many(${s.mine.id}, array[${s.id}]::uuid[], 'no_slot')`;
    await tx`select from runledger.start_many(${s.others.id}, array[${s.id}]::uuid[], '{2}', '{0}')`;
    // Its statement begins now, and still sees the lease of the first attempt.
    answer = s.mine.executions.complete(report);
    while ((await lockWaits(s.w.db)) === 0);
  });
  t.equal(await answer, 'refused');
  t.match(await rowOf(s), { status: 'running', attempts: 2 });
});

t.test('start and complete answer the same if they are asked again', async (t) => {
  const s = await scene(t);
  const first = await start(s.mine.executions, s.id, 7);
  t.match(await start(s.mine.executions, s.id, 7), { order: { attempt: first!.order.attempt } });
  const report = { submission_id: s.id, attempt: 1, outcome: outcome() };
  t.equal(await s.mine.executions.complete(report), 'ended');
  t.equal(await s.mine.executions.complete(report), 'ended');
  t.same(await eventsOf(s), ['submission.accepted', 'execution.started', 'submission.completed']);
});

t.test('a released submission waits again, with its place and a new job', async (t) => {
  const s = await scene(t);
  await start(s.mine.executions, s.id);
  t.same(
    await s.others.executions.release([s.id], 'shutdown'),
    { released: [], ended: 0 },
    'only by the consumer that has it',
  );
  const both = await s.mine.executions.release([s.id, randomUUID()], 'shutdown');
  t.same(both, { released: [s.id], ended: 0 });
  t.match(await rowOf(s), { status: 'pending', attempts: 1, deaths: 0 });
  t.same(await placesOf(s), { dispatched: 1, gated: 0 });
  const [jobs] = await s.w.db`select count(*)::integer as n from graphile_worker._private_jobs`;
  t.equal(jobs!['n'], 1, 'the old job has gone with its lease');
});

t.test(
  'what no worker has room for comes in turn with newcomers, and delays no rerun',
  async (t) => {
    const w = await world(t);
    const { submit } = w.submissions();
    const [large, small] = [await w.key(), await w.key()];
    const add = async (key: typeof large) =>
      idOf(await submit({ secret_digest: key.digest, submission: submission() }));
    const { id: consumer_id, executions } = await w.consumer({ slots: 5 });
    const fetch = { consumer_id, epoch: 1, tasks: ['execute_python'], at_most: 5 };
    const roomless = [await add(large), await add(large), await add(large)];
    const fetched = await fetchExecutions(w.worker, fetch);
    t.equal(fetched.length, 3);
    for (const { submission_id } of fetched)
      await executions.release([submission_id], 'no_slot', {}, [1], null, true);
    // A moment later they wait longer than that.
    await w.db`update graphile_worker._private_jobs set run_at = now() + interval '1 hour'`;
    t.equal(await findObstacle(w.db, 1), null, 'no rerun waits for them');
    const newcomers = [await add(small), await add(small)];
    t.match(await findObstacle(w.db, 1), /until no submission waits/);
    await w.db`update graphile_worker._private_jobs set run_at = now() - interval '1 s' where payload ->> 'id' = any (${roomless})`;
    const next = await fetchExecutions(w.worker, fetch);
    const ofLast = (ids: readonly string[]) =>
      Math.max(...next.filter((job) => ids.includes(job.submission_id)).map((job) => job.priority));
    t.equal(next.length, 5);
    t.ok(ofLast(newcomers) < ofLast(roomless), 'they are not all before the second newcomer');
  },
);

t.test('a job that went back before its lease is deleted with it', async (t) => {
  const s = await scene(t);
  const fetch = { consumer_id: s.mine.id, epoch: 1, tasks: ['execute_python'], at_most: 1 };
  const [job] = await fetchExecutions(s.w.worker, fetch);
  await returnJob(s.w.worker, s.mine.id, job!, 'the release failed');
  t.match(await s.mine.executions.release([s.id], 'shutdown'), { released: [s.id] });
  const jobs = await s.w
    .db`select payload ->> 'id' as id, last_error from graphile_worker._private_jobs`;
  t.strictSame([...jobs], [{ id: s.id, last_error: null }]);
});

t.test('a consumer has no more slots than its process can have', async (t) => {
  const { w } = await scene(t);
  for (const [kind, db, most] of [
    ['worker', w.worker, MOST_SLOTS],
    ['web', w.web, DELIVERIES_AT_ONCE],
  ] as const) {
    const register = (slots: number, lock_key = String(2 ** 40)) =>
      registerConsumer(db, {
        ...{ id: randomUUID(), kind, host: 'test', slots, toolchains: {}, isolation: {} },
        lock_key,
      });
    await register(most);
    // Those of the service: sweeps, expiry, migrations, the tree, partitions.
    for (const own of [0x524c5357, 0x524c4558, 0x524c4447, 0x524c5452, -1, -(2 ** 31), 2 ** 32 - 1])
      await t.rejects(register(0, String(own)), {
        code: '22023',
        message: /^a consumer has a lock of more than 32 bits/,
      });
    await register(0, String(2 ** 32));
    await t.rejects(register(most + 1), {
      code: '22023',
      message: `a ${kind} has 0 to ${most} slots, and not ${most + 1}`,
    });
    await t.rejects(register(-1), { code: '22023' });
  }
});

t.test('a consumer that was declared dead starts nothing', async (t) => {
  const s = await scene(t);
  await s.w.db`select runledger.end_consumer(${s.mine.id}, 'test')`;
  await t.rejects(start(s.mine.executions, s.id), { code: 'RL410' });
  t.match(await rowOf(s), { status: 'pending' });
});

t.test('declaring a consumer dead waits for its start that is being executed', async (t) => {
  const s = await scene(t);
  const endConsumer = () =>
    s.w.db.begin(async (other) => {
      await other`set local lock_timeout = '50ms'`;
      await other`select runledger.end_consumer(${s.mine.id}, 'test')`;
    });
  await s.w.db.begin(async (tx) => {
    const started = await tx`
      select * from runledger.start_many(${s.mine.id}, array[${s.id}]::uuid[], '{1}', '{0}')`;
    t.equal(started.length, 1);
    await t.rejects(endConsumer(), { code: '55P03' });
  });
  await endConsumer();
  const progress = async () => {
    const [row] = await s.w.db`
      select p.started::integer, p.round::integer, (accepted - p.started)::integer as waiting,
        (select count(*)::integer from runledger.consumer_progress) as rows
      from runledger.queue_state, runledger.queue_progress() p`;
    return { ...row };
  };
  const counted = await progress();
  t.match(counted, { waiting: 0, started: 1, rows: 2 }, 'its count of starts is kept');
  const collect = () => s.w.web`select runledger.collect_progress() as rows`;
  t.match(await collect(), [{ rows: 1 }], 'a consumer that has not ended keeps its row');
  t.same(await progress(), { ...counted, rows: 1 });
  t.match(await collect(), [{ rows: 0 }]);
});

t.test('declaring a consumer dead does not lock what submitting locks', async (t) => {
  const s = await scene(t);
  await start(s.mine.executions, s.id);
  await s.w.db.begin(async (submitting) => {
    await submitting`select from runledger.queue_state for update`;
    t.match(
      await s.w.db`select executions from runledger.retire_consumer(${s.mine.id}, 'worker_died')`,
      [{ executions: 1 }],
    );
  });
  t.match(await rowOf(s), { status: 'pending', attempts: 1 });
});

t.test('all jobs are read before a submission of a dead consumer is locked', async (t) => {
  const s = await scene(t);
  for (const end of [
    (tx: postgres.TransactionSql) => tx`select runledger.advance_epoch(${s.mine.id}, 2, '{}')`,
    (tx: postgres.TransactionSql) =>
      tx`select runledger.retire_consumer(${s.mine.id}, 'worker_died')`,
  ]) {
    await start(s.mine.executions, s.id);
    const other = s.w.connect(s.w.database.url, 1);
    let ending: Promise<unknown> | undefined;
    await s.w.db.begin(async (tx) => {
      await tx`lock table graphile_worker._private_jobs in access exclusive mode`;
      // It gives up after a second without a lock.
      ending = other.begin(end).catch(() => {});
      while ((await lockWaits(tx)) === 0);
      const lock = tx`select from runledger.submissions where id = ${s.id} for update nowait`;
      await t.resolves(lock.execute(), 'nothing has locked it');
    });
    await ending;
  }
});

t.test('an epoch that a consumer has left starts nothing', async (t) => {
  const s = await scene(t);
  const startBy = (epoch: number) => s.w.worker`
    select * from runledger.start_many(${s.mine.id}, array[${s.id}]::uuid[], '{1}', '{0}', ${epoch})`;
  t.equal(await advanceEpoch(s.w.worker, s.mine.id, 2, []), true);
  await t.rejects(startBy(1), { code: 'RL410' });
  t.match(await rowOf(s), { status: 'pending', attempts: 0 });
  t.equal((await startBy(2)).length, 1);
  t.equal((await startBy(2)).length, 0, 'and the same job is not handed out again');
});

t.test(
  'an execution of an older epoch waits again if its job is not in flight, and else goes on',
  async (t) => {
    const s = await scene(t);
    const known = idOf(await s.submit({ secret_digest: s.key.digest, submission: submission() }));
    await start(s.mine.executions, s.id, 1);
    await start(s.mine.executions, known, 2);
    t.equal(await advanceEpoch(s.w.worker, s.mine.id, 2, ['2']), true);
    t.match(await rowOf(s), { status: 'pending', attempts: 1, deaths: 0 });
    t.match(await rowOf({ ...s, id: known }), { status: 'running' });
    t.equal((await eventsOf(s)).at(-1), 'execution.lost');
    const report = { submission_id: known, attempt: 1, outcome: outcome() };
    t.equal(await s.mine.executions.complete(report), 'ended');
  },
);

t.test('a new epoch waits for a start of the older one that is being executed', async (t) => {
  const s = await scene(t);
  await s.w.db.begin(async (tx) => {
    await tx`select from runledger.start_many(${s.mine.id}, array[${s.id}]::uuid[], '{1}', '{0}', 1)`;
    await t.rejects(advanceEpoch(s.w.worker, s.mine.id, 2, []), { code: '55P03' });
  });
  t.equal(await advanceEpoch(s.w.worker, s.mine.id, 2, []), true);
  t.match(await rowOf(s), { status: 'pending', attempts: 1 });
});

t.test('a consumer that was declared dead begins no epoch', async (t) => {
  const s = await scene(t);
  await s.w.db`select runledger.end_consumer(${s.mine.id}, 'test')`;
  t.equal(await advanceEpoch(s.w.worker, s.mine.id, 2, []), false);
});

t.test('a release names an attempt, and leaves a later one alone', async (t) => {
  const s = await scene(t);
  await start(s.mine.executions, s.id, 1);
  const release = async (attempt: number) =>
    (await s.mine.executions.release([s.id], 'no_slot', {}, [attempt])).released;
  t.same(await release(1), [s.id]);
  await start(s.mine.executions, s.id, 2);
  t.same(await release(1), [], 'asked again because the answer was lost');
  t.match(await rowOf(s), { status: 'running', attempts: 2 });
  t.same(await release(2), [s.id]);
});

t.test('more submissions can end with a release than one NOTIFY can name', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions(1000);
  const { id: consumer } = await w.consumer({ slots: MOST_SLOTS });
  // An id and a comma have 37 bytes, and a NOTIFY has less than 8,000.
  const ids = await Promise.all(
    Array.from({ length: 250 }, async () =>
      idOf(await submit({ secret_digest: digest, submission: submission() })),
    ),
  );
  const heard: string[] = [];
  const ready = Promise.withResolvers<void>();
  const hearing = listen(
    w.web,
    { runledger_done: (payload: string) => void heard.push(...payload.split(',')) },
    { onFault: ready.reject, onHearing: () => ready.resolve() },
  );
  t.teardown(() => hearing.close());
  await ready.promise;
  const list = `{${ids.join(',')}}`;
  for (const round of [1, 2, 3]) {
    const jobs = `{${ids.map((_, n) => round * 1000 + n).join(',')}}`;
    await w.worker`select from runledger.start_many(${consumer}, ${list}::text::uuid[], ${jobs}::text::bigint[],
      ${`{${ids.map(() => 0).join(',')}}`}::text::smallint[])`;
    await w.worker`select runledger.release_many(${consumer}, ${list}::text::uuid[], 'worker_died')`;
  }
  t.match(await w.db`select status, count(*)::integer as n from runledger.submissions group by 1`, [
    { status: 'error', n: ids.length },
  ]);
  while (heard.length < ids.length) await wait(5);
  t.same(heard.sort(), ids.sort(), 'each of them, once');
});

const LARGE = Buffer.alloc(SMALL_ORDERS_BYTES + 1, 'x');

t.test('a large order is read after its start, as often as it is asked for', async (t) => {
  const s = await scene(t, { stdin: LARGE, expected_output: Buffer.from('out'), args: ['a'] });
  const small = idOf(await s.submit({ secret_digest: s.key.digest, submission: submission() }));
  const fetch = { consumer_id: s.mine.id, epoch: 1, tasks: ['execute_python'], at_most: 2 };
  const jobs = await fetchExecutions(s.w.worker, fetch);
  const [large, beside] = [s.id, small].map(
    (id) => jobs.find(({ submission_id }) => submission_id === id)!.started!,
  );
  const size = LARGE.length + 'print(1)'.length + 'out'.length + '["a"]'.length;
  t.match(large, { large: size, order: { submission_id: s.id, attempt: 1, language: 'python' } });
  t.equal(large!.order.code.length, 0);
  t.match(beside, { large: null, order: { code: Buffer.from('print(1)') } });

  const command = { submission_id: s.id, attempt: 1, large: size };
  const whole = {
    ...{ large: null, deaths: 0, created_at: large!.created_at, started_at: large!.started_at },
    order: {
      ...{ submission_id: s.id, attempt: 1, compare: 'lenient', args: ['a'] },
      ...{ code: Buffer.from('print(1)'), stdin: LARGE, expected_output: Buffer.from('out') },
    },
  };
  t.match(await s.mine.executions.order(command), whole);
  t.match(await s.mine.executions.order(command), whole);
  t.equal(await s.mine.executions.order({ ...command, attempt: 2 }), null);
  t.equal(await s.others.executions.order(command), null, 'not by another consumer');
  await s.mine.executions.release([s.id], 'shutdown');
  t.equal(await s.mine.executions.order(command), null, 'not after it was given back');
});

t.test('starts bring together no more than a small order', async (t) => {
  const half = Buffer.alloc(SMALL_ORDERS_BYTES / 2 - 100, 'x');
  const s = await scene(t, { stdin: half });
  for (let n = 0; n < 3; n++)
    await s.submit({ secret_digest: s.key.digest, submission: submission({ stdin: half }) });
  const fetch = { consumer_id: s.mine.id, epoch: 1, tasks: ['execute_python'], at_most: 4 };
  const jobs = await fetchExecutions(s.w.worker, fetch);
  const sizes = jobs.map(({ started }) => started!.order.stdin.length);
  t.same(sizes.sort(), [0, 0, half.length, half.length].sort());
});

t.test('a fetch whose answer nobody reads holds no locks', async (t) => {
  // More than the buffers of both sockets have room for.
  const s = await scene(t, { stdin: Buffer.alloc(16 * 1024 * 1024, 'x') });
  const sockets = createSockets();
  let socket: Socket | undefined;
  // As the owner, whose sessions the test can see.
  const reader = connect(s.w.database.url, {
    ...{ name: 'reader', max: 1 },
    sockets: { ...sockets, add: (opened) => (socket = opened) },
  });
  t.teardown(() => reader.end({ timeout: 1 }));
  const fetch = { consumer_id: s.mine.id, epoch: 1, tasks: ['execute_python'], at_most: 1 };
  // Prepares the statement, so that it is sent without waiting for an answer.
  await fetchExecutions(reader, { ...fetch, tasks: ['execute_cpp'] });
  socket!.pause();
  const fetching = fetchExecutions(reader, fetch);
  const isDone = async () => {
    const [row] = await s.w.db`
      select (select status = 'running' from runledger.submissions where id = ${s.id}) or exists (
        select from pg_stat_activity where application_name = 'reader' and datname = current_database()
          and wait_event = 'ClientWrite') as done`;
    return row!['done'];
  };
  while (!(await isDone()));
  const has_committed = t.match(await rowOf(s), { status: 'running' }, 'it has committed');
  if (!has_committed) socket!.resume();
  await s.submit({ secret_digest: s.key.digest, submission: submission() });
  t.equal(await advanceEpoch(s.w.worker, s.mine.id, 2, []), true);
  t.match(await rowOf(s), { status: 'pending' }, 'it was given back');
  socket!.resume();
  const [job] = await fetching;
  t.ok(job!.started!.large);
  const command = { submission_id: s.id, attempt: 1, large: job!.started!.large! };
  t.equal(await s.mine.executions.order(command), null);
});

t.test('removing jobs does not wait for a job that is being fetched', async (t) => {
  const s = await scene(t);
  await wait(5);
  await s.w.db.begin(async (fetching) => {
    await fetching`select from graphile_worker._private_jobs for update`;
    const [row] = await s.w.db`select ended from runledger.expire_pending(interval '0 s', 10)`;
    t.equal(row!['ended'], 1);
  });
  t.match(await rowOf(s), { status: 'error' });
  t.equal(await start(s.mine.executions, s.id), null, 'its job is stale');
});

t.test('the delivery is requested with the result, in one transaction', async (t) => {
  const s = await scene(t, { webhook: webhook() });
  await start(s.mine.executions, s.id);
  await s.mine.executions.complete({ submission_id: s.id, attempt: 1, outcome: outcome() });
  t.same((await eventsOf(s)).slice(2), ['submission.completed', 'delivery.requested']);
  const [delivery] = await s.w
    .db`select status, attempts from runledger.deliveries where id = ${s.id}`;
  t.match(delivery, { status: 'waiting', attempts: 0 });
  const [job] = await s.w.db`
    select count(*)::integer as n from graphile_worker.jobs where task_identifier = 'deliver_webhook'`;
  t.equal(job!['n'], 1);
});

t.test('an end requests its delivery before it locks its key', async (t) => {
  const s = await scene(t, { webhook: webhook() });
  await start(s.mine.executions, s.id);
  let ending: Promise<unknown> | undefined;
  await s.w.db.begin(async (tx) => {
    await tx`select from runledger.key_usage where key_id = ${s.key.id} for update`;
    ending = s.mine.executions.complete({ submission_id: s.id, attempt: 1, outcome: outcome() });
    while ((await lockWaits(s.w.db)) === 0);
    const written = await s.w.db`
      select from pg_locks l join pg_locks waiting using (pid)
      where not waiting.granted and l.relation = 'runledger.deliveries'::regclass and l.mode = 'RowExclusiveLock'`;
    t.equal(written.length, 1);
  });
  t.equal(await ending, 'ended');
});

t.test('of a batch of ends, those with a webhook alone have a delivery', async (t) => {
  const s = await scene(t, { webhook: webhook() });
  const without = idOf(await s.submit({ secret_digest: s.key.digest, submission: submission() }));
  const ids = [without, s.id];
  for (const [n, id] of ids.entries()) await start(s.mine.executions, id, n);
  await Promise.all(
    ids.map((submission_id) =>
      s.mine.executions.complete({ submission_id, attempt: 1, outcome: outcome() }),
    ),
  );
  const ends = await s.w.db`select distinct completed_at from runledger.submissions`;
  t.equal(ends.length, 1, 'one batch has one time');
  const rows = await s.w.db`select id from runledger.deliveries`;
  t.same(
    rows.map(({ id }) => id),
    [s.id],
  );
});

/** Notifications on the queue's channels, in order; `done` waits until all of them have arrived. */
async function eavesdrop(t: { teardown(work: () => unknown): void }, { w }: Pick<Scene, 'w'>) {
  const heard: string[] = [];
  const last = Promise.withResolvers<void>();
  const ready = Promise.withResolvers<void>();
  const channels = {
    runledger_jobs: (payload: string) =>
      void heard.push(payload === '' ? 'executions' : `executions ${payload.split(' ')[1]}`),
    'jobs:insert': (payload: string) => void heard.push(`deliveries ${JSON.parse(payload).count}`),
    last: () => last.resolve(),
  };
  const onHearing = ready.resolve;
  const hearing = listen(w.web, channels, { onFault: ready.reject, onHearing });
  t.teardown(() => hearing.close());
  await ready.promise;
  const done = async () => {
    await w.db`select pg_notify('last', '')`;
    await last.promise;
    return heard;
  };
  return { done };
}

t.test(
  'workers are notified of jobs: new ones, promoted ones and those that run again',
  async (t) => {
    const s = await scene(t);
    await s.w.tier('one', 0, 1);
    const { digest } = await s.w.key({ tier: 'one' });
    const { done } = await eavesdrop(t, s);
    const both = [submission(), submission()];
    const accepted = await Promise.all(
      both.map((one) => s.submit({ secret_digest: digest, submission: one })),
    );
    const [first, second] = accepted.map(idOf);
    await start(s.mine.executions, first!);
    await s.mine.executions.complete({ submission_id: first!, attempt: 1, outcome: outcome() });
    await start(s.mine.executions, second!);
    await s.mine.executions.release([second!], 'shutdown');
    t.same(
      await done(),
      ['executions 1', 'executions 1', 'executions 1'],
      'the second one was gated at first',
    );
  },
);

t.test('web processes are notified of deliveries, and of no other end', async (t) => {
  const s = await scene(t, { webhook: webhook() });
  const without = idOf(await s.submit({ secret_digest: s.key.digest, submission: submission() }));
  const { done } = await eavesdrop(t, s);
  for (const id of [without, s.id]) {
    await start(s.mine.executions, id);
    await s.mine.executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  }
  t.same(await done(), ['deliveries 1']);
});

t.test('both are notified when a consumer that had jobs is found dead', async (t) => {
  const s = await scene(t);
  await start(s.mine.executions, s.id);
  const { done } = await eavesdrop(t, s);
  await s.w
    .db`update graphile_worker._private_jobs set locked_at = now(), locked_by = ${`${s.mine.id}/1`}`;
  await s.w.db`select runledger.retire_consumer(${s.mine.id}, 'worker_died')`;
  t.same(await done(), ['executions 1', 'executions', 'deliveries 1000']);
});

t.test('evidence that jsonb cannot hold does not lose the result', async (t) => {
  const s = await scene(t);
  await start(s.mine.executions, s.id);
  const evidence = { comm: 'a\u0000b\ud800', deep: [{ 'k\u0000': '\u0000' }] };
  t.equal(
    await s.mine.executions.complete({
      submission_id: s.id,
      attempt: 1,
      outcome: outcome({ evidence }),
    }),
    'ended',
  );
  const [event] = await s.w
    .db`select facts from runledger.events where stream = ${s.id} and version = 3`;
  t.same(event!['facts'].evidence, { comm: 'a\ufffdb\ufffd', deep: [{ 'k\ufffd': '\ufffd' }] });
});
