import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { fetchExecutions } from '../../src/store/jobs.ts';
import { createSubmissions, type SubmitOutcome } from '../../src/store/submissions.ts';
import { verify } from '../../src/store/verify.ts';
import { eventually, until } from '../support/eventually.ts';
import { lockWaits } from '../support/lock_waits.ts';
import {
  idOf,
  newId,
  outcome,
  start,
  submission,
  tally,
  type World,
  webhook,
  world,
} from './world.ts';

const NOON = new Date('2026-11-20T12:00:00Z');

t.test(
  'at most N requests in any 60 s: the next one passes when the first is 60 s old',
  async (t) => {
    const w = await world(t);
    await w.clock.set(NOON);
    const { digest } = await w.key();
    const { submit } = w.submissions();
    const one = () => submit({ secret_digest: digest, submission: null });

    for (let n = 0; n < 60; n++) {
      const answer = await one();
      t.match(answer, { kind: 'spent', caller: { rate: { limit: 60, remaining: 59 - n } } });
      await w.clock.advance(100);
    }
    t.match(await one(), { kind: 'rate_limited', retry_after_s: 54 });
    await w.clock.set(new Date(NOON.getTime() + 59_999));
    t.match(await one(), { kind: 'rate_limited', retry_after_s: 1 }, 'the 61st fails at 59.999 s');
    await w.clock.set(new Date(NOON.getTime() + 60_000));
    t.match(await one(), { kind: 'spent' }, 'and passes at 60 s');
    t.match(await one(), { kind: 'rate_limited', retry_after_s: 1 }, 'one left, so one passed');
    await w.clock.set(new Date(NOON.getTime() + 60_100));
    t.match(await one(), { kind: 'spent' });
  },
);

t.test('exactly N of many simultaneous requests pass, over several processes', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const processes = [w.submissions(), w.submissions(), w.submissions()];
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, n) =>
      processes[n % 3]!.submit({ secret_digest: digest, submission: null }),
    ),
  );
  t.same(tally(answers), { spent: 60, rate_limited: 240 });
});

t.test('a submission that waited for a lock too long is not stored', async (t) => {
  const w = await world(t);
  await w.clock.set(NOON);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  // What others wait for, only a superuser sees.
  const root = w.connect(w.database.superuser_url, 1);
  const held = async (for_ms: number) => {
    const taken = submission();
    const { answer } = (await w.db.begin(async (tx) => {
      await tx`select from runledger.account_usage for update`;
      const answer = submit({ secret_digest: digest, submission: taken }).catch(
        (error: { code: string }) => error.code,
      );
      const waits = () => root`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%submit_many%'`;
      t.ok(await eventually(async () => (await waits()).length > 0));
      await w.clock.advance(for_ms);
      return { answer };
    })) as { answer: Promise<SubmitOutcome | string> };
    const outcome = await answer;
    const stored = await w.db`select from runledger.submissions where id = ${taken.id}`;
    return { answer: outcome, stored: stored.length };
  };
  await submit({ secret_digest: digest, submission: submission() });
  t.match(await held(29_000), { answer: { kind: 'accepted' } });
  t.match(await held(31_000), { answer: '57014', stored: 0 });
});

t.test('what its client has given up is not stored when the database is back', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const patience_ms = 2_000;
  const { submit } = createSubmissions(w.web, { queue_capacity: 9, patience_ms });
  const one = () => submit({ secret_digest: digest, submission: submission() });
  const [sent, waiting] = await w.db.begin(async (tx) => {
    await tx`select from runledger.queue_state for update`;
    const first = one();
    await until(async () => (await lockWaits(tx)) > 0);
    const second = one();
    await wait(patience_ms + 100);
    return [first, second.catch((error) => error.code)];
  });
  const stored = idOf(await sent!);
  t.equal(await waiting, 'ETIMEDOUT');
  t.same(await w.db`select id from runledger.submissions`, [{ id: stored }]);
});

t.test('each key of a batch spends its own rate', async (t) => {
  const w = await world(t);
  const keys = [await w.key(), await w.key(), await w.key()];
  const { submitAll } = w.submissions();
  const left = async () => {
    const answers = await submitAll(
      keys.map(({ digest }) => ({ secret_digest: digest, submission: null })),
    );
    return answers.map((answer) => 'caller' in answer && answer.caller.rate.remaining);
  };
  t.same(await left(), [59, 59, 59]);
  t.same(await left(), [58, 58, 58]);
});

t.test(
  'above 600 a minute requests are counted by the second, and the limit still holds in any 60 s',
  async (t) => {
    const w = await world(t);
    await w.tier('wide', 1000, 0);
    await w.clock.set(new Date(NOON.getTime() + 500));
    const { digest } = await w.key({ tier: 'wide' });
    const { submit } = w.submissions();
    const burst = (length: number) =>
      Promise.all(
        Array.from({ length }, () => submit({ secret_digest: digest, submission: null })),
      );

    t.same(tally(await burst(700)), { spent: 700 });
    await w.clock.advance(30_000);
    t.same(tally(await burst(400)), { spent: 300, rate_limited: 100 });
    await w.clock.set(new Date(NOON.getTime() + 60_499));
    t.same(tally(await burst(10)), { rate_limited: 10 }, 'the first burst is not 60 s old');
    await w.clock.set(new Date(NOON.getTime() + 61_000));
    t.same(tally(await burst(800)), { spent: 700, rate_limited: 100 });
  },
);

t.test('a change of the limit across 600 forgets no request', async (t) => {
  const w = await world(t);
  await w.clock.set(NOON);
  await w.tier('moving', 50, 0);
  const { digest } = await w.key({ tier: 'moving' });
  const { submit } = w.submissions();
  const burst = (length: number) =>
    Promise.all(Array.from({ length }, () => submit({ secret_digest: digest, submission: null })));
  t.same(tally(await burst(50)), { spent: 50 });
  await w.tier('moving', 700, 0);
  t.same(tally(await burst(700)), { spent: 650, rate_limited: 50 });
  await w.tier('moving', 100, 0);
  t.match((await burst(1))[0], { kind: 'rate_limited', caller: { rate: { remaining: 0 } } });
});

t.test('a tier of 0 a minute is unlimited', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => submit({ secret_digest: digest, submission: null })),
  );
  t.same(tally(answers), { spent: 200 });
});

t.test('an unknown key spends nothing, and the other requests of its batch pass', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const answers = await Promise.all([
    submit({ secret_digest: new Uint8Array(32), submission: submission() }),
    submit({ secret_digest: digest, submission: submission() }),
  ]);
  t.match(answers, [{ kind: 'unauthorized' }, { kind: 'accepted' }]);
});

t.test('an Idempotency-Key makes one submission', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const key = await w.key({ tier: 'free' });
  const other = await w.key({ tier: 'free' });
  const sibling = await w.key({ tier: 'free', account: key.account });
  const processes = [w.submissions(), w.submissions()];
  const idempotency_key = randomUUID();
  const send = (process: number, digest = key.digest, change: object = {}) =>
    processes[process]!.submit({
      secret_digest: digest,
      submission: submission({ idempotency_key, ...change }),
    });

  const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => send(n % 2)));
  t.same(tally(answers), { accepted: 1, replayed: 99 }, '100 equal requests at the same moment');
  const id = idOf(answers.find(({ kind }) => kind === 'accepted')!);
  t.ok(answers.every((answer) => 'id' in answer && answer.id === id));
  t.match(await send(0), { kind: 'replayed', id, mismatch: false }, 'later, too');
  t.match(
    await send(1, key.digest, { request_digest: Buffer.from('another request') }),
    { kind: 'replayed', id, mismatch: true },
    'another request under the same key still answers with the first, and says so',
  );
  t.match(
    await send(0, sibling.digest),
    { kind: 'replayed', id },
    "it is the account's, not the key's",
  );
  t.match(await send(0, other.digest), { kind: 'accepted' }, "another account's is its own");
  const [row] = await w.db`select count(*)::integer as n from runledger.submissions`;
  t.equal(row!.n, 2);
});

t.test('the bound of the queue is exact, and one account gets at most half of it', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 3);
  const keys = [
    await w.key({ tier: 'free' }),
    await w.key({ tier: 'free' }),
    await w.key({ tier: 'free' }),
  ];
  const processes = [w.submissions(100), w.submissions(100), w.submissions(100)];
  const flood = (key: number, length: number) =>
    Promise.all(
      Array.from({ length }, (_, n) =>
        processes[n % 3]!.submit({ secret_digest: keys[key]!.digest, submission: submission() }),
      ),
    );
  const first = await flood(0, 120);
  t.same(
    tally(first),
    { accepted: 50, account_queue_full: 70 },
    'half, though the other half is free',
  );
  const [second, third] = await Promise.all([flood(1, 60), flood(2, 60)]);
  const both = tally([...second, ...third]);
  t.same(both, { accepted: 50, queue_full: 70 }, 'and exactly 100 in all');

  const { executions } = await w.consumer();
  const ids = first.filter(({ kind }) => kind === 'accepted').map(idOf);
  await start(executions, ids[0]!);
  t.same(tally(await flood(0, 3)), { accepted: 1, queue_full: 2 }, 'a start frees a queue place');
  await executions.release([ids[0]!], 'shutdown');
  const [waiting] =
    await w.db`select count(*)::integer as n from runledger.submissions where status = 'pending'`;
  t.equal(waiting!.n, 101, 'a submission that waits again after a loss is exempt');
  await start(executions, ids[0]!, 2);
  t.same(tally(await flood(0, 3)), { queue_full: 3 }, 'its second start frees no queue place');
});

t.test('a replay is answered although the queue is full', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions(2);
  const idempotency_key = randomUUID();
  const kept = submission({ idempotency_key });
  t.match(await submit({ secret_digest: digest, submission: kept }), { kind: 'accepted' });
  t.match(await submit({ secret_digest: digest, submission: submission() }), {
    kind: 'queue_full',
  });
  t.match(await submit({ secret_digest: digest, submission: submission({ idempotency_key }) }), {
    kind: 'replayed',
    id: kept.id,
  });
});

t.test('a rejected submission stores nothing', async (t) => {
  const w = await world(t);
  await w.tier('one', 1, 1);
  const { digest } = await w.key({ tier: 'one' });
  const full = await w.key();
  const count = async () => {
    const [row] = await w.db`
      select (select count(*) from runledger.events where stream < 'f0000000-0000-0000-0000-000000000000')::integer as events,
        (select count(*) from runledger.payloads)::integer as payloads,
        (select count(*) from runledger.idempotency)::integer as idempotency,
        (select count(*) from runledger.webhook_secrets)::integer as secrets,
        (select count(*) from graphile_worker.jobs)::integer as jobs`;
    return row;
  };
  const { submit } = w.submissions();
  const whole = () => submission({ idempotency_key: randomUUID(), webhook: webhook() });
  await submit({ secret_digest: digest, submission: null });
  const before = await count();
  t.match(await submit({ secret_digest: digest, submission: whole() }), { kind: 'rate_limited' });
  t.match(await submit({ secret_digest: new Uint8Array(32), submission: whole() }), {
    kind: 'unauthorized',
  });
  const tight = w.submissions(0);
  t.match(await tight.submit({ secret_digest: full.digest, submission: whole() }), {
    kind: 'queue_full',
  });
  t.same(await count(), before);
});

t.test('an id of a time that no submission can have is refused', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const given = (id: string) => submit({ secret_digest: digest, submission: submission({ id }) });
  const hours = (n: number) => newId(Date.now() + n * 3_600_000);
  const never = ['f0000000-0000-7000-8000-000000000000', 'f0000000-0000-4000-8000-000000000001'];
  for (const id of [...never, 'efffffff-0000-7000-8000-000000000000', hours(25)])
    await t.rejects(given(id), { message: /set the clock of this machine right/ });
  const [row] = await w.db`select from runledger.events where type = 'submission.accepted'`;
  t.notOk(row);
  t.match(await given(hours(23)), { kind: 'accepted' });
  const together = ['f0000000-0000-7000-8000-000000000000', newId()].map(given);
  const [refused, stored] = await Promise.allSettled(together);
  t.match(refused, { status: 'rejected' });
  t.match(stored, { value: { kind: 'accepted' } }, 'what is stored is not sent again');
});

t.test('a row that the database cannot take fails alone', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const taken = submission();
  t.match(await submit({ secret_digest: digest, submission: taken }), { kind: 'accepted' });
  // The first call is sent at once. The others make one batch, and one of them has an id that is taken.
  const answers = await Promise.allSettled(
    [submission(), submission(), taken, submission()].map((one) =>
      submit({ secret_digest: digest, submission: one }),
    ),
  );
  t.match(answers, [
    { status: 'fulfilled', value: { kind: 'accepted' } },
    { status: 'fulfilled', value: { kind: 'accepted' } },
    { status: 'rejected', reason: { code: '23505' } },
    { status: 'fulfilled', value: { kind: 'accepted' } },
  ]);
});

t.test(
  'above its concurrency limit a key is gated, and an end promotes its oldest submission',
  async (t) => {
    const w = await world(t);
    await w.tier('two', 0, 2);
    const key = await w.key({ tier: 'two' });
    const { submit } = w.submissions();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) {
      ids.push(idOf(await submit({ secret_digest: key.digest, submission: submission() })));
      // Ids of one millisecond have no order.
      await wait(2);
    }
    const usage = async () => {
      const [row] = await w.db`
      select dispatched, gated, (select array_agg(submission_id order by submission_id) from runledger.gated) as waiting,
        (select array_agg(distinct (payload ->> 'id')::uuid) from graphile_worker._private_jobs) as jobs
      from runledger.key_usage where key_id = ${key.id}`;
      return row!;
    };
    t.match(await usage(), {
      dispatched: 2,
      gated: 3,
      waiting: ids.slice(2),
      jobs: ids.slice(0, 2).sort(),
    });

    const { executions } = await w.consumer();
    await start(executions, ids[1]!);
    t.match(await usage(), { dispatched: 2, gated: 3 }, 'a start frees none of the concurrency');
    await executions.complete({ submission_id: ids[1]!, attempt: 1, outcome: outcome() });
    const promoted = await usage();
    t.match(promoted, { dispatched: 2, gated: 2, waiting: ids.slice(3) });
    t.ok((promoted['jobs'] as string[]).includes(ids[2]!), 'the oldest has a job');

    await w.tier('two', 0, 4);
    t.match(await usage(), { dispatched: 4, gated: 0 }, 'a raised tier takes effect at once');
  },
);

/** Calls set_aside() or take_back(), and answers how many it moved. */
function moverOf(w: World) {
  return async (name: 'set_aside' | 'take_back', most = 200) => {
    // The workers are no processes and send no heartbeats: on a slow machine they would count as dead by now.
    await w.db`update runledger.consumers set heartbeat_at = runledger.clock() where ended_at is null`;
    const [row] = await w.web.unsafe(`select runledger.${name}(${most}) as moved`);
    return row!['moved'];
  };
}

t.test('what no worker can run holds up no other submission of its key', async (t) => {
  const w = await world(t);
  await w.tier('two', 0, 2);
  const key = await w.key({ tier: 'two' });
  const { submit } = w.submissions();
  const add = async (language: string) => {
    const one = submission({ language });
    const id = idOf(await submit({ secret_digest: key.digest, submission: one }));
    // Ids of one millisecond have no order.
    await wait(2);
    return id;
  };
  const java: string[] = [];
  for (let n = 0; n < 5; n++) java.push(await add('java'));
  const python = [await add('python'), await add('python'), await add('python')];
  const state = async () => {
    const [row] = await w.db`
      select dispatched, gated, (select array_agg(submission_id order by submission_id) from runledger.gated where aside is null) as waiting,
        (select array_agg(submission_id order by submission_id) from runledger.gated where aside = 'java') as aside,
        (select array_agg((payload ->> 'id')::uuid order by payload ->> 'id') from graphile_worker._private_jobs
          where (payload ->> 'id')::uuid in (select id from runledger.submissions where status = 'pending')) as jobs
      from runledger.key_usage where key_id = ${key.id}`;
    return row!;
  };
  const moved = moverOf(w);
  const full = { dispatched: 2, gated: 6, jobs: java.slice(0, 2), aside: null };
  t.match(await state(), full);
  t.equal(await moved('set_aside'), 0, 'nothing else could run');
  const { executions } = await w.consumer({ language: 'python' });
  // As an older version could leave one.
  await w.db`
    insert into graphile_worker._private_jobs (task_id, payload, max_attempts, priority)
    select task_id, payload, max_attempts, priority from graphile_worker._private_jobs where payload ->> 'id' = ${java[0]!}`;
  t.equal(await moved('set_aside'), 5);
  t.match(await state(), { dispatched: 2, gated: 1, aside: java, jobs: python.slice(0, 2) });
  t.equal(await moved('set_aside'), 0);
  t.same((await verify(w.db, { head: null, signers: [] })).problems, [], 'every counter is right');
  t.equal((await w.db`select runledger.recount() as wrong`)[0]!['wrong'], 0);
  await w.cancel(java[4]!);
  t.match(await state(), { dispatched: 2, gated: 1, aside: java.slice(0, 4) });
  await start(executions, python[0]!);
  await executions.complete({ submission_id: python[0]!, attempt: 1, outcome: outcome() });
  t.match(await state(), { dispatched: 2, gated: 0, jobs: python.slice(1) });
  t.equal(await moved('take_back'), 0, 'there is still no such worker');
  const later = await add('python');
  const gone = await w.consumer({ language: 'java' });
  t.equal(await moved('take_back'), 4);
  t.match(await state(), { dispatched: 2, gated: 5, aside: null });
  for (const submission_id of python.slice(1)) {
    await start(executions, submission_id);
    await executions.complete({ submission_id, attempt: 1, outcome: outcome() });
  }
  t.match(await state(), { dispatched: 2, gated: 3, jobs: java.slice(0, 2) });
  await start(gone.executions, java[0]!);
  // As the worker that fetched it does.
  await w.db`delete from graphile_worker._private_jobs where payload ->> 'id' = ${java[0]!}`;
  await w.db`select runledger.retire_consumer(${gone.id}, 'worker_died', '{}')`;
  t.equal(await moved('set_aside'), 0, 'its worker may be starting again');
  await w.db`
    update runledger.consumers set heartbeat_at = heartbeat_at - interval '31 s', ended_at = ended_at - interval '31 s'
    where id = ${gone.id}`;
  t.equal(await moved('set_aside'), 4, 'what was lost, too');
  t.match(await state(), { dispatched: 1, gated: 0, jobs: [later], aside: java.slice(0, 4) });
  t.same((await verify(w.db, { head: null, signers: [] })).problems, []);
  await w.consumer({ language: 'java' });
  t.equal(await moved('take_back'), 4);
  t.match(await state(), { dispatched: 2, gated: 3, jobs: [java[0], later] });
  const [alone] = await w.db`
    select payload ->> 'alone' as alone from graphile_worker._private_jobs where payload ->> 'id' = ${java[0]!}`;
  t.same(alone, { alone: 'true' }, 'it was there when its worker died');
  for (const id of [...java.slice(0, 4), later]) await w.cancel(id);
  t.match(await state(), { dispatched: 0, gated: 0, waiting: null });
});

t.test('nor what needs two languages that no worker has together', async (t) => {
  const w = await world(t);
  await w.tier('one', 0, 1);
  const key = await w.key({ tier: 'one' });
  const { submit } = w.submissions();
  const add = async () => {
    await wait(2);
    return idOf(await submit({ secret_digest: key.digest, submission: submission() }));
  };
  const [first, second] = [await add(), await add()];
  const python = await w.consumer({ language: 'python' });
  await w.consumer({ language: 'java' });
  await start(python.executions, first!);
  await w.db`delete from graphile_worker._private_jobs where payload ->> 'id' = ${first!}`;
  await python.executions.release([first!], 'no_slot', {}, [1], 'java');
  const moved = moverOf(w);
  const state = async () => ({
    jobs: (await w.db`select payload ->> 'id' as id from graphile_worker._private_jobs`).map(
      ({ id }) => id,
    ),
    gated: [...(await w.db`select submission_id as id, aside from runledger.gated`)],
  });
  t.equal(await moved('set_aside'), 1);
  t.same(await state(), { jobs: [second], gated: [{ id: first, aside: 'python/java' }] });
  t.equal(await moved('take_back'), 0, 'each of the two has one of them');
  t.same((await verify(w.db, { head: null, signers: [] })).problems, []);
  await w.consumer({ language: 'python', also: ['java'] });
  t.equal(await moved('take_back'), 1);
  t.equal(await moved('set_aside'), 0);
  await w.cancel(second!);
  t.same(await state(), { jobs: [first], gated: [] });
});

t.test('a key has a job although more wait than are set aside at once', async (t) => {
  const w = await world(t);
  await w.tier('two', 0, 2);
  const key = await w.key({ tier: 'two' });
  const { submit } = w.submissions();
  const all = ['java', 'java', 'java', 'java', 'java', 'python', 'python'];
  for (const language of all) {
    await submit({ secret_digest: key.digest, submission: submission({ language }) });
    await wait(2);
  }
  await w.consumer({ language: 'python' });
  const moved = moverOf(w);
  const setAside = () => moved('set_aside', 2);
  const jobs = async () => {
    const rows = await w.db`
      select t.identifier from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
      where t.identifier like 'execute%' order by 1`;
    return rows.map(({ identifier }) => identifier);
  };
  t.equal(await setAside(), 4);
  t.same(await jobs(), ['execute_java', 'execute_python']);
  t.equal(await setAside(), 1);
  t.same(await jobs(), ['execute_python', 'execute_python']);
  t.equal(await setAside(), 0);
  t.same((await verify(w.db, { head: null, signers: [] })).problems, []);
});

t.test('a key without a limit is gated at four for each slot, and at 16 at least', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { submit } = w.submissions();
  const flood = async ({ digest }: { digest: Uint8Array }, length: number) => {
    const all = Array.from({ length }, () =>
      submit({ secret_digest: digest, submission: submission() }),
    );
    t.same(tally(await Promise.all(all)), { accepted: length });
  };
  const usage = async ({ id }: { id: string }) => {
    const [row] =
      await w.db`select dispatched, gated from runledger.key_usage where key_id = ${id}`;
    return { ...row };
  };
  const first = await w.key({ tier: 'free' });
  await w.consumer({ slots: 4 });
  await flood(first, 50);
  t.same(await usage(first), { dispatched: 16, gated: 34 });
  const second = await w.key({ tier: 'free' });
  await w.consumer({ slots: 3 });
  await flood(second, 50);
  t.same(await usage(second), { dispatched: 28, gated: 22 });
  await flood(first, 1);
  t.same(await usage(first), { dispatched: 16, gated: 35 }, 'it does not overtake the gated ones');
});

t.test("a new key's job is next, not behind the jobs of another key", async (t) => {
  const w = await world(t);
  await w.tier('five', 0, 5);
  const busy = await w.key({ tier: 'five' });
  const calm = await w.key({ tier: 'five' });
  const { submit } = w.submissions();
  const jobs = async () =>
    (
      await w.db<{ id: string; priority: number }[]>`
      select payload ->> 'id' as id, priority from graphile_worker._private_jobs order by priority, id`
    ).map(({ id, priority }) => ({ id, priority }));
  const ids: string[] = [];
  for (let n = 0; n < 8; n++)
    ids.push(idOf(await submit({ secret_digest: busy.digest, submission: submission() })));
  t.same(
    (await jobs()).map(({ priority }) => priority),
    [1, 2, 3, 4, 5],
    "a key's jobs are rounds apart",
  );
  const first = idOf(await submit({ secret_digest: calm.digest, submission: submission() }));
  t.same((await jobs()).find(({ id }) => id === first)?.priority, 1, 'level with the first');

  const { id: consumer_id, executions } = await w.consumer();
  const rounds = await jobs();
  await fetchExecutions(w.worker, {
    consumer_id,
    epoch: 1,
    tasks: ['execute_python'],
    at_most: 3,
  });
  const late = await w.key({ tier: 'five' });
  const newest = idOf(await submit({ secret_digest: late.digest, submission: submission() }));
  const reached = Math.max(...rounds.slice(0, 3).map(({ priority }) => priority));
  t.equal(
    (await jobs()).find(({ id }) => id === newest)?.priority,
    reached,
    'at the round that is being started',
  );
  for (const { id } of rounds.slice(0, 3).filter(({ id }) => ids.includes(id)))
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  const promoted = (await jobs()).filter(({ id }) => ids.slice(5).includes(id));
  t.same(
    promoted.map(({ priority }) => priority),
    [6, 7],
    'promotion goes on where the key was',
  );
});

t.test(
  'several submissions promoted at once get successive rounds, after the one being started',
  async (t) => {
    const w = await world(t);
    await w.tier('one', 0, 1);
    await w.tier('many', 0, 40);
    const key = await w.key({ tier: 'one' });
    const busy = await w.key({ tier: 'many' });
    const { submit } = w.submissions();
    const submitOne = async (one: typeof key) =>
      idOf(await submit({ secret_digest: one.digest, submission: submission() }));
    const gated: string[] = [];
    for (let n = 0; n < 4; n++) gated.push(await submitOne(key));
    for (let n = 0; n < 30; n++) await submitOne(busy);
    const { id: consumer_id } = await w.consumer();
    await fetchExecutions(w.worker, {
      consumer_id,
      epoch: 1,
      tasks: ['execute_python'],
      at_most: 31,
    });
    await w.tier('one', 0, 4);
    const jobs = await w.db`
    select priority from graphile_worker._private_jobs
    where payload ->> 'id' = any (${gated.slice(1)}) order by priority`;
    t.same(
      jobs.map((row) => row['priority']),
      [30, 31, 32],
    );
  },
);

t.test('every Unicode scalar and every byte is returned as it was sent', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const code = Buffer.from('print("\u0000\u{1f600}\ufeff")\n');
  const stdin = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
  const args = ['a b', '{"x": "\\u0000"}', '\\', '"'];
  const answer: SubmitOutcome = await submit({
    secret_digest: digest,
    submission: submission({ code, stdin, args, expected_output: Buffer.from([0, 10]) }),
  });
  const { executions } = await w.consumer();
  const started = await start(executions, idOf(answer));
  t.same(Buffer.from(started!.order.code), code);
  t.same(Buffer.from(started!.order.stdin), stdin);
  t.same(started!.order.args, args);
  t.same(Buffer.from(started!.order.expected_output!), Buffer.from([0, 10]));
});

t.test('jobs are created in order, also for a language without earlier jobs', async (t) => {
  const w = await world(t);
  await w.tier('wide', 0, 0);
  const { digest } = await w.key({ tier: 'wide' });
  const { submit } = w.submissions();
  await w.db`truncate graphile_worker._private_tasks cascade`;
  const languages = ['java', 'python', 'java', 'cpp', 'python'];
  const answers = await Promise.all(
    languages.map((language) =>
      submit({ secret_digest: digest, submission: submission({ language }) }),
    ),
  );
  const jobs = await w.db`
    select task_identifier as task, p.payload, j.attempts, j.max_attempts
    from graphile_worker.jobs j join graphile_worker._private_jobs p using (id) order by id`;
  t.same(
    jobs.map((job) => ({ ...job })),
    languages.map((language, n) => ({
      task: `execute_${language}`,
      payload: { id: idOf(answers[n]!) },
      attempts: 0,
      max_attempts: 32767,
    })),
  );
});
