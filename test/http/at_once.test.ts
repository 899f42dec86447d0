/** Bounds that must be exact when many requests arrive at once, on two web processes with one database. */

import { randomUUID } from 'node:crypto';
import t from 'tap';
import { setClockOf } from './contract/stage.ts';
import { untilAnswered } from './support/call.ts';
import { seeded, seedOfRun } from './support/random.ts';
import { announceAccessChange, HELLO, startService } from './support/service.ts';

t.test('200 equal requests with one Idempotency-Key make one submission', async (t) => {
  const service = await startService(t);
  const key = await service.key();
  const idempotency = randomUUID();
  const headers = { 'idempotency-key': idempotency };
  let asked = 0;
  const ask = () => {
    asked += 1;
    return service.submit(key, HELLO, { headers });
  };
  const replies = await Promise.all(Array.from({ length: 200 }, () => untilAnswered(ask)));
  t.same([...new Set(replies.map((reply) => reply.status))], [202]);
  t.equal(new Set(replies.map((reply) => reply.json.id)).size, 1, 'all ids are equal');
  const first = replies.filter((reply) => reply.headers['idempotency-replayed'] === undefined);
  // On a busy machine it may be one that was not answered.
  const is_answered = asked === replies.length || first.length > 0;
  t.equal(first.length, is_answered ? 1 : 0, 'one of them was the first');
  const [row] = await service.db`select
    (select count(*)::integer from runledger.submissions) as submissions,
    (select count(*)::integer from runledger.events where type = 'submission.accepted') as events,
    (select count(*)::integer from runledger.idempotency) as keys`;
  t.equal(row!['submissions'], 1);
  t.equal(row!['keys'], 1);
});

t.test('exactly 60 requests pass in any 60 s, however they are spread', async (t) => {
  const seed = seedOfRun();
  t.comment(`SEED=${seed}`);
  const { next: random } = seeded(seed);
  const service = await startService(t);
  const key = await service.key({ tier: 'beta' });
  const passed: number[] = [];
  let now = 0;
  let rejectedWithRoom = 0;
  for (let burst = 0; burst < 60; burst += 1) {
    // Long and short pauses, so that windows begin and end within bursts.
    now += random() < 0.3 ? random() * 40 : random() * 3;
    now = Math.round(now * 1000) / 1000;
    await setClockOf(service.db, now);
    // The clock jumped, so what the processes remember in real seconds no longer applies.
    await announceAccessChange(service);
    const size = 1 + Math.floor(random() * 12);
    const replies = await Promise.all(
      Array.from({ length: size }, () => service.call({ path: '/api/languages', key })),
    );
    const room = 60 - passed.filter((at) => at > now - 60).length;
    const passing = replies.filter((reply) => reply.status === 200).length;
    for (let n = 0; n < passing; n += 1) passed.push(now);
    if (passing !== Math.min(room, size)) rejectedWithRoom += 1;
  }
  t.equal(rejectedWithRoom, 0, 'of every burst as many passed as the rate allowed');
  const most = Math.max(
    ...passed.map((from) => passed.filter((at) => at >= from && at < from + 60).length),
  );
  t.ok(most <= 60, `at most ${most} passed in any 60 s`);
  t.ok(passed.length > 200, `${passed.length} passed in ${now} s`);
});

t.test('500 submitters against a queue of 100: exactly 100 are accepted', async (t) => {
  const service = await startService(t, { env: { RUNLEDGER_QUEUE_CAPACITY: '100' } });
  const keys = await Promise.all(Array.from({ length: 5 }, () => service.key()));
  const submit = (key: string) => {
    const headers = { 'idempotency-key': randomUUID() };
    return untilAnswered(() => service.submit(key, HELLO, { headers }));
  };
  const replies = await Promise.all(
    Array.from({ length: 500 }, (_, n) => submit(keys[n % keys.length]!)),
  );
  const accepted = replies.filter((reply) => reply.status === 202);
  const rejected = replies.filter((reply) => reply.status === 503);
  t.equal(accepted.length, 100);
  t.equal(new Set(accepted.map((reply) => reply.json.id)).size, 100, 'each is one of its own');
  t.equal(rejected.length, 400);
  t.ok(rejected.every((reply) => reply.json.error === 'queue_full'));
  t.ok(rejected.every((reply) => /^[1-9]\d*$/.test(reply.headers['retry-after'] ?? '')));
  await Promise.all(accepted.map((reply) => service.worker.finish(reply.json.id)));
  const again = await Promise.all(keys.map(submit));
  t.same(
    again.map((reply) => reply.status),
    [202, 202, 202, 202, 202],
    'accepted again',
  );
});
