/** The chore that seals: what it logs, and that metrics and health agree with it. */
import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { createMetrics } from '../../src/metrics.ts';
import { observeSealer } from '../../src/queue/queue_metrics.ts';
import { sealing } from '../../src/queue/sealing.ts';
import { observeService } from '../../src/queue/service_metrics.ts';
import { createSealer } from '../../src/store/checkpoints.ts';
import { createHealth } from '../../src/store/service_health.ts';
import { append, key, seal } from '../store/seal_now.ts';
import { world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';

aloneOnItsServer();

t.test('why the log is not sealed is logged once, and that it goes on', async (t) => {
  const w = await world(t);
  await append(w.db, 3);
  await seal(w.web);
  await append(w.db, 2);
  const out = new PassThrough({ encoding: 'utf8' });
  const lines = () =>
    (out.read() ?? '')
      .split('\n')
      .filter(Boolean)
      .map((line: string) => JSON.parse(line));
  const log = pino({ level: 'info' }, out);
  const sealer = createSealer(key);
  const chore = sealing(sealer, log);
  const metrics = createMetrics();
  observeService(metrics, () => w.web, { queue_capacity: 7, fresh_ms: 0 });
  observeSealer(metrics, sealer);
  const root = w.connect(w.database.superuser_url, 1);
  await root`alter table runledger.checkpoints disable trigger all`;
  const [{ note }] = (await root`select note from runledger.checkpoints`) as unknown as [
    { note: string },
  ];
  await root`update runledger.checkpoints set note = 'forged'`;
  await chore(w.web);
  await chore(w.web);
  const reason = /^checkpoint 1 of .* is not signed by our key/;
  const stopped = lines();
  t.match(stopped, [{ level: 50, reason, msg: 'the log is not sealed' }]);
  t.equal(stopped.length, 1);
  t.equal(sealer.problem()?.search(reason), 0);
  t.match(await metrics.text(), /\nrunledger_log_sealing 0\n/);
  t.match(await metrics.text(), /\nrunledger_log_unsealed_events 2\n/);
  t.match(await createHealth(w.web).read(), { unsealed: 2, checkpoint_age_s: Number });

  await root`update runledger.checkpoints set note = ${note}`;
  await chore(w.web);
  t.match(lines(), [{ level: 30, msg: 'the log is sealed again' }]);
  t.match(await metrics.text(), /\nrunledger_log_sealing 1\n/);
  t.match(await metrics.text(), /\nrunledger_log_unsealed_events 0\n/);
  await chore(w.web);
  t.same(lines(), []);
});

t.test('without a checkpoint its age has no value', async (t) => {
  const w = await world(t);
  await append(w.db, 1);
  const metrics = createMetrics();
  observeService(metrics, () => w.web, { queue_capacity: 7, fresh_ms: 0 });
  const age = /\nrunledger_log_checkpoint_age_seconds \d/;
  const before = await metrics.text();
  t.match(before, /\nrunledger_log_unsealed_events [1-9]/);
  t.notMatch(before, age);
  await seal(w.web);
  t.match(await metrics.text(), age);
});

t.test('after the clock was set back, nothing has an age below zero', async (t) => {
  const w = await world(t);
  const noon = new Date('2026-03-01T12:00:00Z');
  await w.clock.set(noon);
  await append(w.db, 1);
  await seal(w.web);
  await append(w.db, 1);
  await w.clock.set(new Date(noon.getTime() - 3_600_000));
  const [row] = await w.db`select * from runledger.sealing_lag(10)`;
  t.match(row, { unsealed: '1', unsealed_s: 0, checkpoint_age_s: 0 });
});

t.test('another error of the chore is not taken for one of these', async (t) => {
  const w = await world(t);
  const chore = sealing(createSealer(key), pino({ level: 'silent' }));
  await t.rejects(chore(w.worker), { code: '42501' });
});

t.test('a stop makes no further checkpoint', async (t) => {
  const w = await world(t);
  await append(w.db, 3);
  const sealer = createSealer(key);
  t.same(await sealer.seal(w.web, AbortSignal.abort()), []);
  t.equal((await sealer.seal(w.web)).length, 1);
});
