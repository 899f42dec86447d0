import t from 'tap';
import type { Db } from '../../src/db.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import { verify } from '../../src/store/verify.ts';
import type { DatabaseOptions } from '../support/database.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { idOf, outcome, start, submission, webhook, world } from './world.ts';

const well = async (db: Parameters<typeof verify>[0]) =>
  (await verify(db, { head: null, signers: [] })).problems;

async function scene(t: { teardown(work: () => unknown): void }, options: DatabaseOptions = {}) {
  const w = await world(t, options);
  await w.tier('free', 0, 4);
  const key = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const submitOne = async (change = {}) =>
    idOf(await submit({ secret_digest: key.digest, submission: submission(change) }));
  const runOne = async () => {
    const id = await submitOne({ webhook: webhook() });
    const [gated] = await w.db`select from runledger.gated where submission_id = ${id}`;
    if (gated) return id;
    await start(executions, id, 1);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    return id;
  };
  return { w, key, submitOne, runOne, executions };
}

t.test(
  'verify names the rows that do not match the log, and a rebuild corrects them',
  async (t) => {
    const s = await scene(t);
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push(await s.runOne());
    for (let n = 0; n < 6; n++) await s.submitOne();
    t.same(await well(s.w.db), []);
    const [first, second, third] = ids;
    await s.w
      .db`update runledger.submissions set verdict = 'WA', exit_code = 1 where id = ${first!}`;
    await s.w.db`delete from runledger.submissions where id = ${second!}`;
    await s.w.db`update runledger.deliveries set status = 'delivered' where id = ${third!}`;
    await s.w.db`update runledger.keys set revoked_at = now() where id = ${s.key.id}`;
    await s.w
      .db`insert into runledger.tiers values (gen_random_uuid(), 'forged', 1000, 1000, now())`;
    await s.w
      .db`update runledger.key_usage set dispatched = dispatched + 3, gated = gated - 1 where key_id = ${s.key.id}`;
    await s.w.db`update runledger.account_usage set pending = 77`;
    await s.w.db`update runledger.queue_state set accepted = accepted + 5`;

    const problems = await well(s.w.db);
    const of = (name: string) => problems.find((problem) => problem.startsWith(`${name}: `));
    t.equal(
      problems[0],
      `submissions: ${first} is {"verdict":"WA","exit_code":1} and should be {"verdict":"AC","exit_code":0}, and 1 more`,
    );
    t.match(of('deliveries'), `${third} is {"status":"delivered"}`);
    t.match(of('keys'), `${s.key.id} is {"revoked_at":`);
    t.match(of('tiers'), 'should not be there');
    t.match(of('counters of keys'), `${s.key.id} is {"gated":`);
    t.match(of('counters of accounts'), '{"pending":77}');
    t.match(of('counters of the queue'), 'is {"waiting":11} and should be {"waiting":6}');

    const done = await rebuild(s.w.db);
    t.match(done, { rows: 16, recounted: 3 });
    t.same(await well(s.w.db), []);
  },
);

t.test('a rebuild queues what waited behind a wrong counter', async (t) => {
  const s = await scene(t);
  await s.w.db`update runledger.key_usage set dispatched = 4 where key_id = ${s.key.id}`;
  for (let n = 0; n < 5; n++) await s.submitOne();
  const waiting = async () => {
    const [row] = await s.w.db<{ gated: number; queued: number }[]>`
      select (select count(*) from runledger.gated)::integer as gated,
        (select count(*) from graphile_worker._private_jobs)::integer as queued`;
    return { ...row! };
  };
  t.same(await waiting(), { gated: 5, queued: 0 });
  t.match(await rebuild(s.w.db), { recounted: 1 });
  t.same(await waiting(), { gated: 1, queued: 4 });
  t.same(await well(s.w.db), []);
});

t.test('a recount reads all submissions before it makes submitting wait', async (t) => {
  const s = await scene(t);
  await s.submitOne();
  const other = s.w.connect(s.w.database.url, 1);
  let recounting: Promise<unknown> | undefined;
  const submitting = s.w.connect(s.w.database.urls.web, 1);
  await s.w.db.begin(async (tx) => {
    await tx`lock table runledger.submissions in access exclusive mode`;
    recounting = other`select runledger.recount() as wrong`.execute();
    while ((await lockWaits(tx)) === 0);
    await tx`select from runledger.queue_state for update nowait`;
  });
  t.match(await recounting, [{ wrong: 0 }]);

  // What is accepted while it waits for the locks counts, too.
  await submitting.begin(async (tx) => {
    const { submit } = createSubmissions(tx as unknown as Db, { queue_capacity: 10 });
    idOf(await submit({ secret_digest: s.key.digest, submission: submission() }));
    recounting = other`select runledger.recount() as wrong`.execute();
    while ((await lockWaits(s.w.db)) === 0);
  });
  t.match(await recounting, [{ wrong: 0 }]);
  t.same(await well(s.w.db), []);
});

t.test('verify finds changed and missing payloads', async (t) => {
  const s = await scene(t);
  const id = await s.submitOne({ stdin: Buffer.from('secret') });
  await s.w
    .db`update runledger.payloads set bytes = 'other' where stream = ${id} and kind = 'code'`;
  t.match(
    (await well(s.w.db))[0],
    `payloads: ${id} code does not have the bytes that its event names`,
  );
  await s.w.db`delete from runledger.payloads where stream = ${id} and kind = 'code'`;
  t.match((await well(s.w.db))[0], `payloads: ${id} code is missing`);
});

t.test('verify finds a missing job, a missing lease and a missing trigger', async (t) => {
  const s = await scene(t);
  const id = await s.submitOne();
  const running = await s.submitOne();
  await start(s.executions, running);
  await s.w.db`delete from graphile_worker._private_jobs`;
  await s.w.db`delete from runledger.leases`;
  await s.w.db.unsafe('drop trigger refuse_truncate on runledger.events_default');
  await s.w.db.unsafe('alter table runledger.seals disable trigger refuse_change');
  const problems = await well(s.w.db);
  const of_schema = problems.filter((problem) => problem.startsWith('the schema '));
  for (const name of ['refuse_truncate on events_default', 'refuse_change on seals'])
    t.ok(
      of_schema.some((problem) => problem.startsWith(`the schema lacks: trigger ${name}: `)),
      name,
    );
  t.same(problems.slice(of_schema.length), [
    `leases: ${running} is missing`,
    `jobs of the queue: ${id} is missing`,
  ]);
});

t.test('events of an unknown type or schema are reported', async (t) => {
  const s = await scene(t, { strange_events: 'as a newer version appends them' });
  await s.w.db`select runledger.append_events(runledger.permanent_id(), 0, '{moon.landed,tier.set}',
    array['{}', '{"name": "x", "per_minute": 1, "concurrent": 1}']::jsonb[], '{1,9}')`;
  const problems = await well(s.w.db);
  t.match(problems[0], /version 1 \(moon.landed\) .*: no such event: moon.landed, schema 1$/);
  t.match(problems[1], /version 2 \(tier.set\) .*: no such event: tier.set, schema 9$/);
});

t.test('the service goes on during a rebuild, and nothing is lost', async (t) => {
  const s = await scene(t);
  await s.w.tier('free', 0, 0);
  for (let n = 0; n < 30; n++) await s.runOne();
  let stop = false;
  const ids: string[] = [];
  const working = Array.from({ length: 8 }, async () => {
    while (!stop) ids.push(await s.runOne());
  });
  const swaps: number[] = [];
  let caught_up = 0;
  for (let n = 0; n < 5; n++) {
    const done = await rebuild(s.w.db);
    swaps.push(done.locked_ms);
    caught_up += done.caught_up;
    t.equal(done.recounted, 0);
  }
  stop = true;
  await Promise.all(working);
  t.ok(caught_up > 0, `${caught_up} submissions got events during rebuilds`);
  t.comment(`others waited ${swaps.map(Math.round)} ms`);
  t.same(await well(s.w.db), []);
  const [row] = await s.w.db`
    select count(*)::integer as n from runledger.submissions where id = any (${`{${ids}}`}::text::uuid[]) and status = 'completed'`;
  t.equal(row!['n'], ids.length);
});

t.test('a rebuild leaves the tables as a migration makes them', async (t) => {
  const s = await scene(t);
  await s.runOne();
  const shape = () => s.w.db`
    select c.relname, c.relkind, c.reloptions, c.relispartition, pg_get_expr(c.relpartbound, c.oid) as bounds,
      (select array_agg(pg_get_constraintdef(o.oid) || o.conname order by o.conname) from pg_constraint o where o.conrelid = c.oid) as constraints
    from pg_class c where c.relnamespace = 'runledger'::regnamespace order by c.relname`;
  const before = await shape();
  await rebuild(s.w.db);
  t.same(await shape(), before);
});

t.test('a rebuild that fails leaves no tables', async (t) => {
  const s = await scene(t);
  await s.runOne();
  const failing = () => {
    throw new Error('its line cannot be written');
  };
  await t.rejects(rebuild(s.w.db, failing), /its line cannot be written/);
  const left = await s.w.db`
    select from pg_namespace where nspname in ('runledger_rebuild', 'runledger_replaced')`;
  t.equal(left.length, 0);
  t.same(await well(s.w.db), []);
});

t.test('a rebuild waits for a reader of a projection without blocking the service', async (t) => {
  const s = await scene(t);
  await s.runOne();
  const reader = s.w.connect(s.w.database.url, 1);
  await reader`begin`;
  await reader`select count(*) from runledger.submissions`;
  const said = Promise.withResolvers<string>();
  const rebuilding = rebuild(s.w.db, (line) => {
    if (line.startsWith('waiting')) said.resolve(line);
  });
  await said.promise;
  await s.runOne();
  await reader`commit`;
  t.match(await rebuilding, { recounted: 0 });
  t.same(await well(s.w.db), []);
});
