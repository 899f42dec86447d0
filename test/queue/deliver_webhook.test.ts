import { Writable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { pino } from 'pino';
import t from 'tap';
import { createMetrics } from '../../src/metrics.ts';
import { createDeliverTask } from '../../src/queue/deliver_webhook.ts';
import { createDeliveries, type Deliveries, replayDelivery } from '../../src/store/deliveries.ts';
import { createKey } from '../../src/store/keys.ts';
import { type EncryptionKey, encryptSecret } from '../../src/webhooks/encrypt_secret.ts';
import { until as eventually } from '../support/eventually.ts';
import { openReceiver, RECEIVER_NAME, trusted } from '../webhooks/receiver.ts';
import {
  answers,
  type Bench,
  delivery,
  encryptionKey,
  jobsAre,
  judgeTables,
  openBench,
  quiet,
  SECRET,
  until,
  urlTo,
  verify,
} from './delivery_bench.ts';

/** Jobs that a process has at the moment. */
async function running({ db }: Bench): Promise<number> {
  const [row] = await db<{ running: number }[]>`
    select count(*)::integer as running from graphile_worker._private_jobs where locked_at is not null`;
  return row!.running;
}

/** An attempt that begins now. */
async function begun(deliveries: Deliveries, id: string) {
  const { attempts, version } = (await deliveries.open(id))!;
  return { id, after_attempts: attempts, after_version: version };
}

/** The facts of an attempt without an answer. */
const NO_ANSWER = {
  consumer: '0f000000-0000-4000-8000-000000000001',
  retry_after_ms: null,
  answer_bytes: 0,
  answer_cut: false,
  duration_ms: 1,
};

t.test(
  'a result is delivered once, signed and with the trace, and the secret is deleted',
  async (t) => {
    const bench = await openBench(t);
    await using receiver = await openReceiver();
    const id = await bench.ended(urlTo(receiver.port));
    t.match(await delivery(bench, id), { status: 'waiting', attempts: 0, has_secret: true });
    const part = await bench.start();
    const [got] = await receiver.received(1);
    await jobsAre(bench, { due: 0, taken: 0 });
    await part.stop();
    t.match(verify(got!), {
      type: 'submission.completed',
      data: { id, status: 'completed', verdict: 'AC', stdout_truncated: true },
    });
    const { stdout } = verify(got!).data;
    t.equal(stdout, `${'ü€😀'.repeat(7281)}ü€`, 'cut at 64 KiB, between two characters');
    t.match(got!.headers, {
      'webhook-id': id,
      'content-type': 'application/json',
      traceparent: /^00-0af7651916cd43dd8448eb211c80319c-/,
    });
    t.match(await delivery(bench, id), {
      status: 'delivered',
      attempts: 1,
      failures: 1,
      next_at: null,
      has_secret: false,
    });
    const recorded = await bench.facts(id);
    t.same(
      recorded.map(({ type }) => type),
      ['delivery.requested', 'delivery.attempted', 'delivery.ended'],
    );
    const actors = await bench.db`
      select actor from runledger.audit_timeline where submission_id = ${id} and type like 'delivery.%' order by version`;
    t.match(actors, [
      { actor: 'service' },
      { actor: /^consumer [0-9a-f-]{36}$/ },
      { actor: actors[1]!['actor'] },
    ]);
    t.match(recorded[1]!.facts, {
      attempt: 1,
      outcome: 'delivered',
      status: 204,
      address: '127.0.0.1',
      counts: true,
      duration_ms: Number,
    });
    t.notMatch(
      JSON.stringify(recorded),
      new RegExp(`${SECRET}|${RECEIVER_NAME}`),
      'no secret and no URL in the log',
    );
    t.equal(receiver.got.length, 1);
    await judgeTables(t, bench);
  },
);

t.test(
  'a failed attempt is repeated with the same id and bytes and a fresh signature',
  async (t) => {
    const bench = await openBench(t);
    // The times of signatures are in seconds, so each attempt ends in another second than it began.
    const answer = answers(500, 302);
    await using receiver = await openReceiver(
      (got, response) => void setTimeout(() => answer(got, response), 1000),
    );
    const id = await bench.ended(urlTo(receiver.port));
    const part = await bench.start();
    const got = await receiver.received(3);
    await part.stop();
    t.equal(new Set(got.map(({ headers }) => headers['webhook-timestamp'])).size, 3);
    t.equal(new Set(got.map(({ headers }) => headers['webhook-id'])).size, 1);
    t.equal(new Set(got.map(({ body }) => body.toString('hex'))).size, 1);
    for (const one of got) t.match(verify(one), { data: { id } });
    t.match(await delivery(bench, id), {
      status: 'delivered',
      attempts: 3,
      failures: 3,
      has_secret: false,
    });
    const recorded = await bench.facts(id);
    t.same(
      recorded
        .filter(({ type }) => type === 'delivery.attempted')
        .map(({ facts }) => facts['outcome']),
      ['refused_status', 'redirect', 'delivered'],
    );
    await judgeTables(t, bench);
  },
);

t.test('410 ends a delivery at once, and so does the end of the schedule', async (t) => {
  const bench = await openBench(t, { RUNLEDGER_WEBHOOK_SCHEDULE: '10ms' });
  await using gone = await openReceiver(answers(410));
  await using failing = await openReceiver(answers(500, 500, 500));
  const ids = [
    await bench.ended(urlTo(gone.port)),
    await bench.ended(urlTo(failing.port)),
  ] as const;
  const part = await bench.start();
  await Promise.all([gone.received(1), failing.received(2)]);
  await part.stop();
  t.match(await delivery(bench, ids[0]), { status: 'gone', attempts: 1, has_secret: false });
  t.match(await delivery(bench, ids[1]), {
    status: 'exhausted',
    attempts: 2,
    failures: 2,
    has_secret: false,
  });
  t.match((await bench.facts(ids[1])).at(-1), {
    type: 'delivery.ended',
    facts: { outcome: 'exhausted' },
  });
  await judgeTables(t, bench);
});

t.test('a key that was removed too early can be put back', async (t) => {
  const bench = await openBench(t, { RUNLEDGER_WEBHOOK_SCHEDULE: '1h' });
  await using receiver = await openReceiver();
  const id = await bench.ended(urlTo(receiver.port));
  const config = { ...bench.config, webhook_keys: [{ ...encryptionKey, id: 'k2' }] };
  const lines: string[] = [];
  const stream = new Writable({ write: (line, _, done) => done(void lines.push(String(line))) });
  const metrics = createMetrics();
  const log = pino({ level: 'warn' }, stream);
  const without = await bench.start({ config, metrics, log });
  const unsigned = /^runledger_delivery_attempts_total\{outcome="secret_unreadable"\} (\d)$/m;
  t.equal(unsigned.exec(await metrics.text())?.[1], '0', 'before the first one');
  await until(bench, id, ({ attempts }) => attempts === 1);
  await without.stop();
  t.equal(unsigned.exec(await metrics.text())?.[1], '1');
  t.match(
    lines.map((line) => JSON.parse(line)),
    [{ submission: id, outcome: 'secret_unreadable', detail: 'key_missing k1' }],
  );
  t.match((await bench.facts(id))[1], {
    facts: { outcome: 'secret_unreadable', detail: 'key_missing k1', counts: true },
  });
  t.equal(receiver.connections(), 0);
  t.equal(await replayDelivery(bench.db, id, null), 'replayed');
  const part = await bench.start();
  const [got] = await receiver.received(1);
  await part.stop();
  t.match(verify(got!), { data: { id } });
  t.match(await delivery(bench, id), { status: 'delivered', attempts: 2 });
});

t.test('if two processes make the same attempt, one is recorded', async (t) => {
  const bench = await openBench(t);
  const id = await bench.ended(urlTo(443));
  const deliveries = createDeliveries(bench.db);
  const facts = { outcome: 'timeout', status: null, detail: null, address: null };
  const next = { retry_in_ms: 0, counts: true };
  const recorded = {
    ...(await begun(deliveries, id)),
    facts: { ...facts, ...NO_ANSWER },
    next,
    body: null,
  };
  t.equal(await deliveries.attempted(recorded), 'waiting');
  t.equal(await deliveries.attempted(recorded), null);
  t.equal(
    await deliveries.attempted({
      ...recorded,
      ...(await begun(deliveries, id)),
      next: { end: 'gone' },
    }),
    'gone',
  );
  t.equal(await deliveries.attempted({ ...recorded, after_attempts: 2 }), null, 'it has ended');
  t.match(await delivery(bench, id), { status: 'gone', attempts: 2, failures: 2 });
});

t.test('an attempt that a stop cut off is an attempt and no failure', async (t) => {
  const bench = await openBench(t);
  const id = await bench.ended(urlTo(443));
  const facts = { outcome: 'cut_off' as const, status: null, detail: null, address: null };
  const next = { retry_in_ms: 0, counts: false };
  const deliveries = createDeliveries(bench.db);
  const cut = {
    ...(await begun(deliveries, id)),
    facts: { ...facts, ...NO_ANSWER },
    next,
    body: null,
  };
  t.equal(await deliveries.attempted(cut), 'waiting');
  t.match(await delivery(bench, id), { status: 'waiting', attempts: 1, failures: 0 });
});

t.test(
  'a body that must be sent again is kept, whatever a later version would render',
  async (t) => {
    const bench = await openBench(t);
    await using receiver = await openReceiver(answers(500, 500));
    const id = await bench.ended(urlTo(receiver.port));
    const deliveries = createDeliveries(bench.db);
    const opened = await deliveries.open(id);
    t.equal(opened?.body, null);
    const body = Buffer.from('{"type":"submission.completed","data":{"of":"another version"}}');
    const facts = { outcome: 'timeout', status: null, detail: null, address: null };
    const next = { retry_in_ms: 0, counts: true };
    await deliveries.attempted({
      ...(await begun(deliveries, id)),
      facts: { ...facts, ...NO_ANSWER },
      next,
      body,
    });
    const again = await deliveries.open(id);
    t.same(again?.body, body);
    t.match(again?.record, { id, status: 'completed' });
    t.equal(again?.record.stdout?.length, 0, 'what only a new body needs is not read');
    const part = await bench.start();
    for (const got of await receiver.received(3)) t.same(got.body, body);
    await part.stop();
    const kept = (await bench.facts(id)).map((event) => event.facts['bytes']).filter(Boolean);
    t.match(
      kept,
      [{ webhook_body: { size: body.length, sha256: /^[0-9a-f]{64}$/ } }],
      'recorded once',
    );
    await judgeTables(t, bench);
  },
);

t.test('a receiver is judged by the duration of the attempt alone', async (t) => {
  const bench = await openBench(t, { RUNLEDGER_WEBHOOK_SCHEDULE: '10ms' });
  await using receiver = await openReceiver(answers(500));
  const id = await bench.ended(urlTo(receiver.port));
  const left: unknown[] = [];
  const deliver = (keys: EncryptionKey[]) =>
    createDeliverTask({
      deliveries: createDeliveries(bench.db),
      bodyOf: async () => Buffer.from('{}'),
      ...{ keys, schedule_ms: [0, 0], random: () => 0, now: () => new Date(), log: quiet },
      send: {
        ...{ allow_loopback: true, limit_ms: 60_000, ca: trusted },
        resolve: async () => ({ kind: 'addresses', addresses: ['127.0.0.1'] }),
      },
      gate: {
        enter: async () => ({ kind: 'inside', leave: (took_ms) => void left.push(took_ms) }),
        busy: () => ({ inside: 0, waiting: 0 }),
      },
      ...{ stopping: new AbortController().signal, cut: new AbortController().signal },
      observe: { attempted: () => {}, ended: () => {} },
    })({ id }, NO_ANSWER.consumer);
  await deliver([encryptionKey]);
  await deliver([]);
  await deliver([encryptionKey]);
  const durations = (await bench.facts(id))
    .filter(({ type }) => type === 'delivery.attempted')
    .map(({ facts }) =>
      facts['outcome'] === 'secret_unreadable' ? undefined : facts['duration_ms'],
    );
  t.equal(durations.length, 3);
  t.same(left, durations);
});

t.test('a body goes to the database with the first attempt that fails only', async (t) => {
  const bench = await openBench(t);
  await bench.db.unsafe(`
    create schema other;
    alter function runledger.append_delivery_attempt set schema other;
    create table other.bodies (n serial, size integer);
    create function runledger.append_delivery_attempt(
      id uuid, after_attempts integer, facts jsonb, next jsonb, body bytea default null
    ) returns text language plpgsql security definer as $$
    begin
      insert into other.bodies (size) values (length(body));
      return other.append_delivery_attempt(id, after_attempts, facts, next, body);
    end $$;
    grant execute on function runledger.append_delivery_attempt(uuid, integer, jsonb, jsonb, bytea) to public`);
  await using receiver = await openReceiver(answers(500, 500, 204, 204));
  const url = urlTo(receiver.port);
  const part = await bench.start();
  t.teardown(() => part.stop());
  for (const attempts of [3, 1]) {
    const id = await bench.ended(url);
    await until(bench, id, ({ status }) => status === 'delivered');
    t.match(await delivery(bench, id), { attempts });
  }
  const sizes = await bench.db`select size from other.bodies order by n`;
  const first = receiver.got[0]!.body.length;
  t.same(
    sizes.map(({ size }) => size),
    [first, null, null, null],
  );
});

t.test('deliveries that hang do not delay another account at the same host', async (t) => {
  const bench = await openBench(t, { RUNLEDGER_SHUTDOWN_GRACE: '1ms' });
  await using receiver = await openReceiver((got, response) => {
    if (got.url === '/other') response.writeHead(204).end();
  });
  const url = urlTo(receiver.port);
  for (let n = 0; n < 10; n += 1) await bench.ended(url);
  const secret_digest = Buffer.alloc(32, 5);
  await createKey(bench.db, { account: 'other', tier: 'beta', prefix: 'rl', secret_digest });
  const id = await bench.ended(new URL('/other', url).href, secret_digest);
  const part = await bench.start();
  t.teardown(() => part.stop());
  await until(bench, id, ({ status }) => status === 'delivered');
  await receiver.received(5);
  t.equal(receiver.got.length, 5, 'four of the first account, which still hang');
});

/** The time that the database goes by; all jobs that wait are fetched soon. */
async function clockIs({ db }: Bench, ahead: string): Promise<void> {
  await db.unsafe(`create or replace function runledger.clock() returns timestamptz
    language sql volatile as $$ select clock_timestamp() + interval '${ahead}' $$`);
  await db`update graphile_worker._private_jobs set run_at = now() where locked_at is null`;
  await db`select runledger.announce_jobs()`;
  await wait(100);
}

t.test('what finds no room for a day beside attempts that hang ends by its schedule', async (t) => {
  const bench = await openBench(t, {
    RUNLEDGER_SHUTDOWN_GRACE: '1ms',
    RUNLEDGER_WEBHOOK_TIMEOUT: '5s',
    RUNLEDGER_WEBHOOK_SCHEDULE: '1h',
  });
  await using receiver = await openReceiver(() => {});
  for (let n = 0; n < 20; n += 1) await bench.ended(urlTo(receiver.port));
  /** Those of which every attempt was overdue. */
  const overdue = (attempts: number) => bench.db<
    { id: string; status: string; has_secret: boolean }[]
  >`
    select d.id, d.status, exists (select from runledger.webhook_secrets w where w.submission_id = d.id) as has_secret
    from runledger.deliveries d where d.attempts = ${attempts} and ${attempts} = (select count(*) from runledger.events e
      where e.stream = d.id and e.facts @> '{"outcome": "overdue", "status": null, "counts": true}')`;
  const untilOverdue = async (attempts: number, ahead: string) => {
    await eventually(async () => {
      await clockIs(bench, ahead);
      return (await overdue(attempts)).length > 0;
    });
    return (await overdue(attempts))[0]!;
  };
  const part = await bench.start();
  t.teardown(() => part.stop());
  await receiver.received(8);
  await clockIs(bench, '23 hours');
  t.same(await overdue(1), [], 'it is put back for a day');
  t.match(await untilOverdue(1, '25 hours'), { status: 'waiting', has_secret: true });
  const ended = await untilOverdue(2, '52 hours');
  t.match(ended, { status: 'exhausted', has_secret: false });
  const sent = receiver.got.map(({ headers }) => headers['webhook-id']);
  t.notOk(sent.includes(ended.id), 'nothing of it was sent');
});

t.test('after an outage of a day, a receiver that answers gets every delivery', async (t) => {
  const bench = await openBench(t);
  await using receiver = await openReceiver((_, response) => {
    setTimeout(() => response.writeHead(204).end(), 50);
  });
  const ids: string[] = [];
  for (let n = 0; n < 20; n += 1) ids.push(await bench.ended(urlTo(receiver.port)));
  await clockIs(bench, '25 hours');
  const part = await bench.start();
  await eventually(async () => {
    await clockIs(bench, '25 hours');
    return receiver.got.length >= ids.length;
  });
  await jobsAre(bench, { due: 0, taken: 0 });
  await part.stop();
  for (const id of ids) t.match(await delivery(bench, id), { status: 'delivered', attempts: 1 });
});

for (const [name, before] of [
  ['a job that comes before its time is put back, and the delivery keeps one', null],
  // The delivery is due when the task begins, and not any more when it has its turn.
  [
    'a clock that is set back while a delivery waits for its turn loses no job',
    `create or replace function runledger.clock() returns timestamptz language sql volatile as $$
      select clock_timestamp() + case when current_query() like '%delivery_open(%' then interval '0' else interval '2 hours' end $$`,
  ],
] as const)
  t.test(name, async (t) => {
    const bench = await openBench(t, { RUNLEDGER_WEBHOOK_SCHEDULE: '1h' });
    await using receiver = await openReceiver(answers(500));
    const id = await bench.ended(urlTo(receiver.port));
    const part = await bench.start();
    t.teardown(() => part.stop());
    await until(bench, id, ({ attempts }) => attempts === 1);
    const { next_at } = (await delivery(bench, id))!;
    const jobs = () => bench.db`
      select id, run_at from graphile_worker._private_jobs where key = ${`delivery/${id}`}`;
    const [first] = await jobs();
    if (before !== null) await bench.db.unsafe(before);
    await bench.db`update graphile_worker._private_jobs set run_at = now() where id = ${first!['id']}`;
    await bench.db`select runledger.announce_jobs()`;
    let left = await jobs();
    while (left[0]?.['id'] === first!['id']) left = await jobs();
    while (left.length === 0 && (await running(bench)) > 0) left = await jobs();
    t.match(left, [{ run_at: next_at }]);
    t.equal(receiver.got.length, 1);
    if (before === null) await judgeTables(t, bench);
  });

t.test('a clock that is set back delays no delivery, and loses none', async (t) => {
  const bench = await openBench(t);
  await using receiver = await openReceiver();
  const { db } = bench;
  const clockIs = (ahead: string) =>
    db.unsafe(`create or replace function runledger.clock() returns timestamptz
      language sql volatile as $$ select clock_timestamp() + interval '${ahead}' $$`);
  await clockIs('1 hour');
  const id = await bench.ended(urlTo(receiver.port));
  await clockIs('0');
  t.match(
    await db`select next_at > now() + interval '50 minutes' as late from runledger.deliveries`,
    [{ late: true }],
  );
  const part = await bench.start();
  await jobsAre(bench, { due: 0, taken: 0 });
  await part.stop();
  t.match(await delivery(bench, id), { status: 'delivered', attempts: 1 });
});

t.test('a replay during an attempt counts, unless that attempt succeeds', async (t) => {
  const bench = await openBench(t);
  const deliveries = createDeliveries(bench.db);
  const facts = { outcome: 'timeout', status: null, detail: null, address: null };
  const given = { facts: { ...facts, ...NO_ANSWER }, body: null };
  /** An attempt is under way when it is requested again. */
  const replayed = async (failures: number) => {
    const id = await bench.ended(urlTo(443));
    const next = { retry_in_ms: 0, counts: true };
    for (let failed = 0; failed < failures; failed++)
      await deliveries.attempted({ ...given, ...(await begun(deliveries, id)), next });
    const attempt = await begun(deliveries, id);
    t.equal(await replayDelivery(bench.db, id, null), 'replayed');
    return { ...given, ...attempt };
  };
  for (const failures of [0, 1]) {
    for (const next of [{ end: 'gone' }, { retry_in_ms: 3_600_000, counts: true }]) {
      const attempt = await replayed(failures);
      t.equal(await deliveries.attempted({ ...attempt, next }), 'waiting');
      t.match(await delivery(bench, attempt.id), {
        status: 'waiting',
        attempts: failures + 1,
        failures: 0,
        has_secret: true,
      });
      t.match(await deliveries.due(attempt.id), { is_due: true });
      const second = await begun(deliveries, attempt.id);
      t.equal(await deliveries.attempted({ ...given, ...second, next: { end: 'gone' } }), 'gone');
      t.match(await delivery(bench, attempt.id), { status: 'gone' }, 'it counts once');
    }
    const attempt = await replayed(failures);
    t.equal(await deliveries.attempted({ ...attempt, next: { end: 'delivered' } }), 'delivered');
    t.match(await delivery(bench, attempt.id), { status: 'delivered', has_secret: false });
  }
  await judgeTables(t, bench);
});

t.test('a success is the next attempt, if another process has failed in between', async (t) => {
  const settings = { RUNLEDGER_WEBHOOK_SCHEDULE: '1h', RUNLEDGER_SHUTDOWN_GRACE: '5min' };
  const bench = await openBench(t, { ...settings, RUNLEDGER_WEBHOOK_TIMEOUT: '60s' });
  const answered = Promise.withResolvers<void>();
  await using receiver = await openReceiver(async (_, response) => {
    const is_first = receiver.got.length === 1;
    if (is_first) await answered.promise;
    response.writeHead(is_first ? 204 : 500).end();
  });
  const id = await bench.ended(urlTo(receiver.port));
  const metrics = createMetrics();
  const first = await bench.start({ metrics });
  await receiver.received(1);
  // It takes no further job.
  const stopped = first.stop();
  t.equal(await replayDelivery(bench.db, id, null), 'replayed');
  const second = await bench.start();
  t.teardown(() => second.stop());
  await until(bench, id, ({ attempts }) => attempts === 1);
  t.match(await delivery(bench, id), { status: 'waiting', failures: 1 });
  answered.resolve();
  await stopped;
  t.match(await delivery(bench, id), { status: 'delivered', attempts: 2, has_secret: false });
  const events = (await bench.facts(id)).map(({ type, facts }) => [type, facts['attempt'] ?? null]);
  t.same(events, [
    ['delivery.requested', null],
    ['delivery.requested', null],
    ['delivery.attempted', 1],
    ['delivery.attempted', 2],
    ['delivery.ended', null],
  ]);
  t.match(await metrics.text(), /^runledger_deliveries_ended_total\{how="delivered"\} 1$/m);
  await judgeTables(t, bench);
});

t.test('a success that is stored twice ends no delivery that was requested since', async (t) => {
  const bench = await openBench(t);
  const id = await bench.ended(urlTo(443));
  const deliveries = createDeliveries(bench.db);
  const facts = { outcome: 'delivered', status: 204, detail: null, address: null, ...NO_ANSWER };
  const given = { ...(await begun(deliveries, id)), facts, next: { end: 'delivered' }, body: null };
  t.equal(await deliveries.attempted(given), 'delivered');
  const secret = encryptSecret([encryptionKey], id, SECRET);
  t.equal(await replayDelivery(bench.db, id, secret), 'replayed');
  t.equal(await deliveries.attempted(given), null, 'the answer to the first was lost');
  t.match(await delivery(bench, id), { status: 'waiting', attempts: 1, has_secret: true });
  await judgeTables(t, bench);
});

t.test('an end that a replay undid is not counted', async (t) => {
  const bench = await openBench(t);
  await using receiver = await openReceiver(async (_, response) => {
    const is_first = receiver.got.length === 1;
    if (is_first) t.equal(await replayDelivery(bench.db, id, null), 'replayed');
    response.writeHead(is_first ? 410 : 204).end();
  });
  const id = await bench.ended(urlTo(receiver.port));
  const metrics = createMetrics();
  const part = await bench.start({ metrics });
  await until(bench, id, ({ status }) => status === 'delivered');
  await part.stop();
  const page = await metrics.text();
  t.match(page, /^runledger_deliveries_ended_total\{how="gone"\} 0$/m);
  t.match(page, /^runledger_deliveries_ended_total\{how="delivered"\} 1$/m);
  t.match(await delivery(bench, id), { attempts: 2 });
});

t.test('a replay is due at once and begins the schedule again', async (t) => {
  const bench = await openBench(t, { RUNLEDGER_WEBHOOK_SCHEDULE: '1h' });
  await using receiver = await openReceiver(answers(500, 500, 204));
  const id = await bench.ended(urlTo(receiver.port));
  const part = await bench.start();
  await receiver.received(1);
  await until(bench, id, (row) => row['attempts'] === 1);
  const due = await bench.db`select * from runledger.delivery_due(${id})`;
  t.match([...due], [{ is_due: false }], 'its next attempt is an hour away');
  t.equal(await replayDelivery(bench.db, id, null), 'replayed');
  await receiver.received(2);
  await until(bench, id, (row) => row['attempts'] === 2);
  t.match(await delivery(bench, id), { status: 'waiting', failures: 1 });
  t.equal(await replayDelivery(bench.db, id, null), 'replayed');
  await until(bench, id, (row) => row['status'] === 'delivered');
  t.equal(await replayDelivery(bench.db, id, null), 'secret_needed');
  t.equal(
    await replayDelivery(bench.db, id, encryptSecret([encryptionKey], id, 'another secret')),
    'replayed',
  );
  const got = await receiver.received(4);
  await part.stop();
  t.match(verify(got[3]!, 'another secret'), { data: { id } });
  t.same(got[3]!.body, got[0]!.body);
  t.match(await delivery(bench, id), {
    status: 'delivered',
    attempts: 4,
    failures: 1,
    has_secret: false,
  });
  t.equal(await replayDelivery(bench.db, '01970000-0000-7000-8000-000000000000', null), 'unknown');
  await judgeTables(t, bench);
});
