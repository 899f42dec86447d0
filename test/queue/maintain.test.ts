/** Chores of web processes that have no test of their own elsewhere. */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { createLog } from '../../src/log.ts';
import { choresOf, startMaintenance } from '../../src/queue/maintain.ts';
import { type FetchedJob, fetchExecutions } from '../../src/store/jobs.ts';
import { setTier } from '../../src/store/keys.ts';
import { webProcess } from '../http/support/web_process.ts';
import { newId, submission, world } from '../store/world.ts';
import { lockWaits } from '../support/lock_waits.ts';

t.test('all idempotency keys that are due are removed in one round', async (t) => {
  const w = await world(t);
  await w.key();
  await w.db`
    insert into runledger.idempotency (account_id, key, submission_id, request_digest, created_at)
    select a.id, gen_random_uuid(), gen_random_uuid(), '\\x00', now() - make_interval(hours => case when n > 5 then 26 else 24 end)
    from runledger.accounts a, generate_series(1, 25005) n`;
  const chores = choresOf({ pending_max_age_ms: 1_000, seal: null });
  const { run } = chores.find(({ name }) => name === 'idempotency')!;
  await run(w.web, new AbortController().signal);
  const [row] = await w.db`select count(*)::integer as left from runledger.idempotency`;
  t.same(row, { left: 5 });
});

t.test('all output that is old is forgotten in one round', async (t) => {
  const w = await world(t);
  await w.db`
    insert into runledger.output_pieces (submission_id, attempt, is_stderr, begins_at, bytes, shown_at)
    select gen_random_uuid(), 1, false, 0, '\\x61', now() - make_interval(secs => case when n > 5 then 60 else 0 end)
    from generate_series(25005, 1, -1) n`;
  const chores = choresOf({ pending_max_age_ms: 1_000, seal: null });
  const { run } = chores.find(({ name }) => name === 'output')!;
  await run(w.web, new AbortController().signal);
  const [row] = await w.db`select count(*)::integer as left from runledger.output_pieces`;
  t.same(row, { left: 5 });
});

t.test('all submissions that are too old are ended in one round, and no other', async (t) => {
  const w = await world(t);
  await setTier(w.db, { name: 'unlimited', per_minute: 0, concurrent: 0 });
  const { digest } = await w.key({ tier: 'unlimited' });
  const { submit, submitAll } = w.submissions();
  await submit({ secret_digest: digest, submission: submission() });
  const { id: consumer_id } = await w.consumer();
  const fetch = { consumer_id, epoch: 1, tasks: ['execute_python'], at_most: 1 };
  t.equal((await fetchExecutions(w.worker, fetch)).length, 1);
  await submit({ secret_digest: digest, submission: submission() });
  await wait(5);
  const [expired] = await w.db`select ended as n from runledger.expire_pending(interval '0 s', 1)`;
  t.match(expired, { n: 1 }, 'what runs takes no place among those that are ended');
  // More than one statement ends.
  for (let n = 0; n < 6; n += 1)
    await submitAll(
      Array.from({ length: 100 }, () => ({ secret_digest: digest, submission: submission() })),
    );
  const statuses = () =>
    w.db`select status, count(*)::int as n from runledger.submissions group by 1 order by 1`;
  t.match(await statuses(), [{ n: 1 }, { status: 'pending', n: 600 }, { status: 'running' }]);
  // The machine of its web process has another time. By the database's it is young.
  const young = { ...submission(), id: newId(Date.now() - 120_000) };
  t.match(await submit({ secret_digest: digest, submission: young }), { kind: 'accepted' });
  const round = (ms: number) =>
    choresOf({ pending_max_age_ms: ms, seal: null })
      .find(({ name }) => name === 'expire')!
      .run(w.web, new AbortController().signal);
  await round(60_000);
  t.match(await statuses(), [{ n: 1 }, { status: 'pending', n: 601 }, { status: 'running' }]);
  await wait(5);
  await round(1);
  t.match(await statuses(), [
    { status: 'error', n: 602 },
    { status: 'running', n: 1 },
  ]);
  const [jobs] = await w.db`select count(*)::int as n from graphile_worker.jobs`;
  t.same(jobs, { n: 1 }, 'that of the one that runs');
});

t.test('a database whose clock runs ahead ends and forgets nothing', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const idempotency_key = randomUUID();
  await w
    .submissions()
    .submit({ secret_digest: digest, submission: submission({ idempotency_key }) });
  await w.db.unsafe(`create or replace function runledger.clock() returns timestamptz
    language sql volatile as $$ select clock_timestamp() + interval '2 days' $$`);
  for (const { name, run } of choresOf({ pending_max_age_ms: 86_400_000, seal: null }))
    if (['expire', 'idempotency'].includes(name)) await run(w.web, new AbortController().signal);
  t.match(await w.db`select status from runledger.submissions`, [{ status: 'pending' }]);
  t.equal((await w.db`select from runledger.idempotency`).length, 1);
});

t.test('a job that an ended submission left is taken away in time', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  await w.submissions().submit({ secret_digest: digest, submission: submission() });
  await w.db`update runledger.submissions set status = 'cancelled'`;
  const left = async () => (await w.db`select from graphile_worker.jobs`).length;
  await w.db`select runledger.expire_pending(interval '1 hour')`;
  t.equal(await left(), 1);
  await wait(5);
  const expire = () => w.db`select done, ended from runledger.expire_pending(interval '0 s')`;
  t.match(await expire(), [{ done: 1, ended: 0 }]);
  t.equal(await left(), 0);
  await w.db`update runledger.submissions set status = 'pending'`;
  await w.submissions().submit({ secret_digest: digest, submission: submission() });
  const purged = newId(Date.now() - 1_000);
  await w.db`
    update graphile_worker._private_jobs set payload = json_build_object('id', ${purged}::text)`;
  t.match(await expire(), [{ done: 1, ended: 0 }], 'also one whose submission is not there');
  t.equal(await left(), 0);
});

t.test('the rounds of waiting jobs move with their base', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  await submit({ secret_digest: digest, submission: submission() });
  await w.db`update runledger.queue_state set round = 20000`;
  const rebase = () => w.web<{ moved: string }[]>`select runledger.rebase_rounds() as moved`;
  t.match(await rebase(), [{ moved: '20000' }]);
  const jobs = await w.db`select priority from graphile_worker.jobs`;
  t.match(jobs, [{ priority: -19_999 }], 'it was the first');
  t.match(await rebase(), [{ moved: '0' }]);
});

t.test('a fetch that meets a move of the base keeps its round', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  await w.db`update runledger.queue_state set round = 20000`;
  await w.submissions().submit({ secret_digest: digest, submission: submission() });
  const { id: consumer_id } = await w.consumer();
  const fetch = { consumer_id, epoch: 1, tasks: ['execute_python'], at_most: 1 };
  let fetching: Promise<FetchedJob[]> | undefined;
  await w.db.begin(async (tx) => {
    await tx`select from runledger.submissions for update`;
    fetching = fetchExecutions(w.worker, fetch);
    // Its job is locked, and its submission is not.
    while ((await lockWaits(w.db)) === 0);
    const [row] = await w.web`select runledger.rebase_rounds() as moved`;
    t.match(row, { moved: '20000' });
  });
  t.equal((await fetching)!.length, 1);
  const [progress] = await w.db`select round from runledger.queue_progress()`;
  t.equal(Number(progress!['round']), 20_000);
});

t.test('the partitions of the next months are made before there are requests', async (t) => {
  const w = await world(t);
  const partitions = () => w.db<{ name: string }[]>`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'runledger.events'::regclass order by 1`;
  const before = await partitions();
  await w.clock.advance(32 * 86_400_000);
  const chores = choresOf({ pending_max_age_ms: 1_000, seal: null });
  const log = createLog({ level: 'fatal', process: 'test', to: 'stderr' });
  const maintenance = await startMaintenance(w.web, chores, log);
  t.teardown(() => maintenance.stop());
  const after = await partitions();
  t.ok(after.length > before.length);

  // As after some months without a web process.
  await maintenance.stop();
  const months = after.filter(({ name }) => !before.some((one) => one.name === name));
  for (const { name } of months)
    for (const parent of ['events', 'payloads', 'submissions', 'deliveries'])
      await w.db.unsafe(`drop table runledger.${name.replace('events', parent)}`);
  await webProcess(t, w.database);
  t.same(await partitions(), after);
});
