/** The auditor runs the queries of AUDIT.md as they are printed there. */
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { byteaArray } from '../../src/db.ts';
import { eventTypes } from '../../src/domain/events.ts';
import { replayDelivery } from '../../src/store/deliveries.ts';
import { setTier } from '../../src/store/keys.ts';
import { createOperator, revokeOperator } from '../../src/store/operators.ts';
import { forgetAccount, forgetSubmission } from '../../src/store/retention.ts';
import { filledIn, PAGE, questions } from '../audit/questions.ts';
import { seal } from '../store/seal_now.ts';
import { idOf, newId, outcome, start, submission, webhook, world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { matchLists } from '../support/match_lists.ts';

aloneOnItsServer();

t.test('twenty questions and their answers', async (t) => {
  const w = await world(t);
  const at = new Date('2026-11-20T12:00:00Z');
  await w.clock.set(at);
  await w.tier('free', 7, 5);
  const key = await w.key({ tier: 'free', account: 'acme' });
  const { submit } = w.submissions();
  const submitOne = async (change = {}, { digest } = key) =>
    idOf(await submit({ secret_digest: digest, submission: submission(change) }));
  // Nothing of it is in an answer about the first account, its receiver, its request or its tier.
  await w.tier('gold', 70, 50);
  const of_others = await w.key({ tier: 'gold', account: 'globex' });
  const consumer = await w.consumer();
  const other = await w.consumer();
  const request_id = 'router-4711';
  const idempotency_key = '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10';
  const id = await submitOne({ webhook: webhook(), request_id, idempotency_key });
  await w.clock.advance(2000);
  await start(consumer.executions, id);
  await w.clock.advance(1000);
  await consumer.executions.release([id], 'worker_died', { host: 'host-7' });
  await w.clock.advance(1000);
  await start(other.executions, id, 2);
  await w.clock.advance(500);
  await other.executions.complete({ submission_id: id, attempt: 2, outcome: outcome() });
  const waiting = await submitOne();
  const theirs = { ...webhook(), url: 'https://other.test/hook' };
  await submitOne({ webhook: theirs, request_id: 'router-9', idempotency_key }, of_others);
  const operator = 'ada@console';
  await setTier(w.db, { name: 'free', per_minute: 9, concurrent: 5, operator });
  await replayDelivery(w.db, id, null, operator);
  await w.web`select runledger.count_refusals(${JSON.stringify([
    {
      ...{ hour: at, error: 'rate_limited', key_id: key.id, digest: null, requests: 3 },
      ...{ last_at: at, last_request_id: 'router-4712' },
    },
    {
      ...{ hour: at, error: 'rate_limited', key_id: of_others.id, digest: null, requests: 1 },
      ...{ last_at: at, last_request_id: 'router-10' },
    },
  ])}::text::jsonb)`;
  await seal(w.web);
  const auditor = w.connect(w.database.urls.auditor, 1);
  const variables: Record<string, string> = {
    submission: id,
    account: 'acme',
    from: '2026-11-20T00:00:00Z',
    to: '2026-11-21T00:00:00Z',
    at: '2026-11-20T12:00:02.500Z',
    request: request_id,
    idempotency_key,
    host: 'receiver.test',
    tier: 'free',
    key: key.id,
    operator,
  };
  const ask = (query: string) => auditor.unsafe(filledIn(query, variables));
  const answers: Record<string, unknown>[][] = [];
  for (const { title, queries } of questions)
    for (const query of queries) {
      const rows = await ask(query);
      answers.push([...rows]);
      t.ok(rows.length > 0 || title.startsWith('10'), title);
    }
  t.same(
    questions.map(({ title }) => Number.parseInt(title, 10)),
    Array.from({ length: 20 }, (_, n) => n + 1),
  );
  const [
    timeline,
    submitted,
    keys,
    verdicts,
    waits,
    delivered,
    state,
    lost,
    limits,
    seals,
    ,
    ...rest
  ] = answers;
  const [requested, repeated, hosted, rejected, tiers, did, flying, losses, changes, commands] =
    rest;
  matchLists(t, timeline, [
    { type: 'submission.accepted', actor: `key ${key.id}`, request_id, sizes: { code: 8 } },
    { type: 'execution.started', actor: `consumer ${consumer.id}`, attempt: 1 },
    { type: 'execution.lost', actor: `consumer ${consumer.id}`, attempt: 1 },
    { type: 'execution.started', actor: `consumer ${other.id}`, attempt: 2 },
    { type: 'submission.completed', actor: `consumer ${other.id}`, sizes: { stdout: 2 } },
    { type: 'delivery.requested', actor: 'service' },
    { type: 'delivery.requested', actor: `operator ${operator}`, request_id: null },
  ]);
  matchLists(t, submitted, [
    { submission_id: id, verdict: 'AC', attempts: 2 },
    { submission_id: waiting, status: 'pending' },
  ]);
  matchLists(t, keys, [
    { account: 'acme', key_id: key.id, secret: '1', valid_until: null },
    { account: 'globex', key_id: of_others.id, secret: '1', valid_until: null },
  ]);
  matchLists(t, verdicts, [{ language: 'python', verdict: 'AC', submissions: '1' }]);
  matchLists(t, waits, [{ language: 'python', submissions: '1', wait_p50_s: 2, run_p99_s: 0.5 }]);
  matchLists(t, delivered, [{ status: 'waiting', attempt: null }]);
  matchLists(t, state, [{ status: 'running', submissions: '1' }]);
  matchLists(t, lost, [
    {
      submission_id: id,
      attempt: 1,
      host: 'host-7',
      reason: 'worker_died',
      counts: true,
      status: 'completed',
    },
  ]);
  t.equal(
    (lost![0]!['next_started_at'] as Date).getTime() - (lost![0]!['lost_at'] as Date).getTime(),
    1000,
  );
  matchLists(t, limits, [{ key_id: key.id, tier: 'free', per_minute: 7, concurrent: 5 }]);
  matchLists(t, seals, [{ number: '1', not_sealed_yet: '0' }]);
  matchLists(t, requested, [{ submission_id: id, account: 'acme', key_id: key.id, verdict: 'AC' }]);
  matchLists(t, repeated, [{ submission_id: id, request_id }]);
  matchLists(t, hosted, [{ submission_id: id, account: 'acme', status: 'waiting' }]);
  matchLists(t, rejected, [
    { error: 'rate_limited', requests: '3', last_request_id: 'router-4712' },
  ]);
  matchLists(t, tiers, [
    { per_minute: 7, set_by: 'operator' },
    { per_minute: 9, set_by: `operator ${operator}`, valid_until: null },
  ]);
  matchLists(t, did, [{ submission_id: id }, { submission_id: waiting }]);
  matchLists(t, flying, [{ submission_id: id }]);
  matchLists(t, losses, [{ reason: 'worker_died', host: 'host-7', losses: '1', deaths: '1' }]);
  matchLists(t, changes, [{ type: 'key.created', actor: 'operator', key_id: key.id }]);
  t.same(commands!.map(({ type, tier, submission_id }) => [type, tier ?? submission_id]).sort(), [
    ['delivery.requested', id],
    ['tier.set', 'free'],
  ]);
});

t.test('commands and removals say whom they were about', async (t) => {
  const w = await world(t);
  const { submit } = w.submissions();
  const { digest } = await w.key({ account: 'acme' });
  const { executions } = await w.consumer();
  const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
  await start(executions, id);
  await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  const [{ account_id } = { account_id: '' }] = await w.db<{ account_id: string }[]>`
    select account_id from runledger.submissions`;
  await createOperator(w.db, { name: 'grace', key_digest: Buffer.alloc(32, 1) });
  await revokeOperator(w.db, 'grace', 'ada@console');
  await forgetSubmission(w.db, id, 'ada@console');
  await forgetAccount(w.db, 'acme', 'ada@console');
  const auditor = w.connect(w.database.urls.auditor, 1);
  const commands = await auditor`
    select c.type, c.operator, c.account, c.about is not null as about from runledger.audit_commands c
    where c.type in ('operator.revoked', 'payloads.forgotten') order by c.at, c.type`;
  t.ok(
    commands.some((each) => each['type'] === 'operator.revoked' && each['operator'] === 'grace'),
  );
  const removals =
    await auditor`select type, account_id from runledger.audit_retention order by at`;
  matchLists(
    t,
    [...removals],
    removals.map(() => ({ type: 'payloads.forgotten', account_id })),
  );
  t.ok(removals.length > 0);
});

t.test('waiting after a loss is not running, whatever the clock did', async (t) => {
  const w = await world(t);
  const at = new Date('2026-11-20T12:00:00Z');
  await w.clock.set(at);
  const { submit } = w.submissions();
  const { digest } = await w.key();
  const { executions } = await w.consumer();
  const lost = async () => {
    const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
    await w.clock.advance(2000);
    await start(executions, id);
    await w.clock.advance(1000);
    await executions.release([id], 'worker_died', { host: 'host-7' });
    return id;
  };
  const waits = () => w.db`
    select submissions, run_max_s, wait_max_s from runledger.audit_waits_daily`;
  const id = await lost();
  await w.clock.advance(3_600_000);
  await w.cancel(id);
  t.match([...(await waits())], [{ submissions: '1', run_max_s: null, wait_max_s: 2 }]);

  await lost();
  await w.clock.advance(3_600_000);
  // Ids are of the real time, which is not that of this clock.
  const [row] = await w.db`select * from runledger.expire_pending(interval '-100 years', 10)`;
  t.match(row, { done: 2, ended: 1 }, 'one ends, and of the cancelled one a job goes');
  t.match([...(await waits())], [{ submissions: '2', run_max_s: null }]);

  // The clock is set back before the second start, and before the third.
  const back = await lost();
  const starts = [];
  for (const attempt of [2, 3]) {
    await w.clock.advance(-600_000);
    starts.push(new Date((await w.db`select runledger.clock() as at`)[0]!['at']));
    await start(executions, back, attempt);
    await w.clock.advance(1000);
    if (attempt === 2) await executions.release([back], 'worker_died', { host: 'host-7' });
  }
  const losses = await w.db`
    select attempt, started_at, next_started_at from runledger.audit_lost_executions
    where submission_id = ${back} order by attempt`;
  t.match(
    [...losses],
    [{ next_started_at: starts[0] }, { started_at: starts[0], next_started_at: starts[1] }],
  );
  await executions.complete({ submission_id: back, attempt: 3, outcome: outcome() });
  t.match([...(await waits())], [{ submissions: '3', run_max_s: 1 }]);
});

t.test('audit_state_at gives the state of any time', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const auditor = w.connect(w.database.urls.auditor, 1);
  let now = new Date('2026-11-20T12:00:00Z').getTime();
  const seen: { at: Date; rows: string }[] = [];
  const ids: string[] = [];
  const step = async (work: () => Promise<unknown>) => {
    now += 1000;
    await w.clock.set(new Date(now));
    await work();
    const rows = await w.db`
      select id as submission_id, status, verdict, attempts, completed_at from runledger.submissions order by id`;
    seen.push({ at: new Date(now + 500), rows: JSON.stringify(rows) });
  };
  const submitOne = async () =>
    ids.push(idOf(await submit({ secret_digest: digest, submission: submission() })));
  for (let n = 0; n < 4; n++) await step(submitOne);
  for (const id of ids) await step(() => start(executions, id));
  await step(() => executions.release([ids[1]!], 'shutdown'));
  await step(() => executions.complete({ submission_id: ids[0]!, attempt: 1, outcome: outcome() }));
  for (const { at, rows } of seen) {
    const then = await auditor`
      select submission_id, status, verdict, attempts, completed_at from runledger.audit_state_at(${at}) order by 1`;
    t.equal(JSON.stringify(then), rows, at.toISOString());
  }
});

t.test('a clock that stepped back leaves no gap in a history', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { executions } = await w.consumer();
  const at = (second: number) => new Date(Date.UTC(2026, 10, 20, 12, 0, second));
  await w.clock.set(at(10));
  const id = idOf(
    await w.submissions().submit({ secret_digest: digest, submission: submission() }),
  );
  await w.clock.set(at(5));
  await start(executions, id);
  const auditor = w.connect(w.database.urls.auditor, 1);
  const statuses = async (second: number) =>
    (await auditor`select status from runledger.audit_state_at(${at(second)})`).map(
      (row) => row['status'],
    );
  t.same(await statuses(7), []);
  t.same(await statuses(11), ['running']);
});

t.test('the table in AUDIT.md names every view', async (t) => {
  const w = await world(t);
  const views = (
    await w.db`select relname from pg_class where relnamespace = 'runledger'::regnamespace and relname like 'audit\\_%' and relkind = 'v' order by 1`
  ).map((row) => row['relname']);
  const named = [...PAGE.matchAll(/^\| `(audit_[a-z_]+)` \|/gm)].map((match) => match[1]).sort();
  t.same(named, views);
});

t.test('an operator is the actor of the types alone that say so', async (t) => {
  const w = await world(t);
  const types = Object.entries(eventTypes).map(([type, schemas]) => {
    const { entries } = schemas.at(-1) as unknown as { entries: object };
    return { type, operator: 'operator' in entries, scheduled: 'scheduled' in entries };
  });
  const facts = { attempt: 1, consumer: 'c', evidence: { found_at: 'x' }, verdict: 'AC' };
  const actorOf = async (type: string, more: object) => {
    const [row] = await w.db<{ actor: string }[]>`
      select runledger.actor_of(${type}, ${JSON.stringify({ ...facts, ...more })}::text::jsonb) as actor`;
    return row!.actor;
  };
  for (const { type, operator, scheduled } of types) {
    const actor = await actorOf(type, { operator: 'alice@console' });
    t.equal(actor === 'operator alice@console', operator, `${type}: ${actor}`);
    if (type === 'execution.lost') continue;
    t.equal((await actorOf(type, { scheduled: true })) === 'service', scheduled, type);
  }
});

t.test('no fact that a login of web or of a worker puts into the log ends a view', async (t) => {
  const w = await world(t, { strange_events: 'a login that is not ours puts them there' });
  await w.tier('free', 0, 0);
  const { digest, id: key_id } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { id: consumer, executions } = await w.consumer();
  const run = async (change = {}) => {
    const id = idOf(await submit({ secret_digest: digest, submission: submission(change) }));
    await start(executions, id);
    return id;
  };
  const tests = [
    { exit_code: 'x', cpu_time_us: 1e300, wall_time_us: 1.5, memory_peak_bytes: {}, score: 'x' },
    { exit_code: 2 ** 40, cpu_time_us: -1, score: '1e400' },
    { exit_code: 7, cpu_time_us: 5, score: 0.5 },
    7,
  ];
  const facts = { verdict: 'AC', exit_code: 0, consumer: 'x', tests };
  const judged = await run();
  const [ended] = await w.worker`
    select * from runledger.complete_many(${consumer}, ${`{${judged}}`}::text::uuid[], '{1}',
      ${JSON.stringify([{ status: 'completed', facts }]).replace('"1e400"', '1e400')}::text::jsonb,
      '{1,1}', '{tests,stdout}', ${byteaArray([Buffer.from('no JSON \xff', 'latin1'), Buffer.from('a')])}::text::bytea[])`;
  t.ok(ended);
  const cancelled = await run();
  const [account] = await w.db`select account_id from runledger.keys where id = ${key_id}`;
  const request = JSON.stringify({ attempt: 'x', consumer: 'y', key_id: 'z' });
  await w.web`
    select runledger.cancel_submission(${account!['account_id']}, ${key_id}, ${cancelled}, ${request}::text::jsonb)`;
  const delivered = await run({ webhook: webhook() });
  await executions.complete({ submission_id: delivered, attempt: 1, outcome: outcome() });
  const attempt = JSON.stringify({ consumer: 'x', status: 'y', outcome: 'z' });
  await w.web`
    select runledger.append_delivery_attempt(${delivered}, 0, ${attempt}::text::jsonb, '{"end": "delivered"}'::text::jsonb)`;
  const strange = JSON.stringify({
    tests: 'x',
    groups: 1.5,
    files: { count: [], size_bytes: null },
  });
  await w.web`
    select runledger.create_test_set(${account!['account_id']}, ${key_id}, ${Buffer.from('{}')}, ${strange}::text::jsonb,
      '{}', '{}', '{}')`;

  const auditor = w.connect(w.database.urls.auditor, 1);
  const views = await w.db<{ name: string }[]>`
    select viewname as name from pg_views where schemaname = 'runledger' and viewname like 'audit\\_%'`;
  t.ok(views.length > 20);
  for (const { name } of views) await auditor.unsafe(`select * from runledger.${name}`);
  await w.db`select * from runledger.list_deliveries(null, 10)`;
  t.match(
    [
      ...(await auditor`select * from runledger.audit_tests where submission_id = ${judged} order by n`),
    ],
    [
      {
        exit_code: null,
        cpu_time_us: null,
        wall_time_us: null,
        memory_peak_bytes: null,
        score: null,
      },
      { exit_code: null, cpu_time_us: '-1', score: null },
      { exit_code: 7, cpu_time_us: '5', score: 0.5 },
      { exit_code: null },
    ],
  );
  const times = await auditor`
    select type, attempt, consumer_id, actor from runledger.audit_timeline
    where submission_id in ${auditor([judged, cancelled])} and type in ('submission.completed', 'submission.cancelled') order by 1`;
  t.match(
    [...times],
    [
      { type: 'submission.cancelled', attempt: 1, consumer_id: null, actor: `key ${key_id}` },
      {
        type: 'submission.completed',
        attempt: 1,
        consumer_id: null,
        actor: `consumer ${consumer}`,
      },
    ],
  );
});

t.test('judging says nothing of whose a submission is, or whether it has a webhook', async (t) => {
  const w = await world(t);
  const [key, other] = [await w.key(), await w.key()];
  const id = newId();
  const judging = {
    ...{ tests: 1, stop: 'never', key_id: other.id, account_id: randomUUID(), webhook: true },
    ...{ language: 'cpp', limits: 7, bytes: {}, idempotency_key: randomUUID() },
  };
  const row = {
    ...{ digest: Buffer.from(key.digest).toString('hex'), id, language: 'python' },
    ...{ args: [], compare: 'lenient', limits: {}, judging },
  };
  const [accepted] = await w.web`
    select outcome from runledger.submit_many(${JSON.stringify([row])}::text::jsonb, '{x}', '{""}', '{NULL}', 10, true, '{x}')`;
  t.equal(accepted!['outcome'], 'accepted');
  const [stored] = await w.db`
    select key_id, language, has_webhook from runledger.submissions where id = ${id}`;
  t.same(stored, { key_id: key.id, language: 'python', has_webhook: false });
  const [event] = await w.db`select facts from runledger.events where stream = ${id}`;
  t.match(event, {
    facts: { tests: 1, stop: 'never', key_id: key.id, idempotency_key: undefined },
  });
});

t.test('what was sent is read in the console alone', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const sent = submission({ stdin: Buffer.from('in'), webhook: webhook() });
  const id = idOf(await submit({ secret_digest: digest, submission: sent }));
  await start(executions, id);
  const stdout = Buffer.from('out');
  await executions.complete({ submission_id: id, attempt: 1, outcome: outcome({ stdout }) });
  const kinds = await w.db<{ kind: string }[]>`
    select kind from runledger.payloads where stream = ${id} order by 1`;
  const all = kinds.map(({ kind }) => kind);
  t.same(all, ['code', 'stdin', 'stdout', 'webhook_url']);
  const slices = await w.web`
    select kind from runledger.record_slices(${id}, ${`{${all}}`}::text::text[])`;
  t.same([...slices], [{ kind: 'stdout' }]);
});
