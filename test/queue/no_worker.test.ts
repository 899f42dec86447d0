/** Web's log says once that no worker is alive, and once that one is again. */
import { Writable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { createMetrics } from '../../src/metrics.ts';
import { watchWorkers } from '../../src/queue/no_worker.ts';
import { observeService } from '../../src/queue/service_metrics.ts';
import { world } from '../store/world.ts';

t.test('no worker is alive, and then one is', async (t) => {
  const w = await world(t);
  const lines: { msg: string; pending?: number }[] = [];
  const to = new Writable({
    write(chunk, _, done) {
      lines.push(JSON.parse(String(chunk)));
      done();
    },
  });
  const { run } = watchWorkers(pino(to));
  const round = () => run(w.web, new AbortController().signal);
  const metrics = createMetrics();
  observeService(metrics, w.web, { queue_capacity: 7, fresh_ms: 0 });
  await round();
  t.same(lines, [], 'a worker that is restarted is no line');
  await round();
  await round();
  t.match(lines, [
    { msg: 'no worker is alive: submissions wait until one is started', pending: 0 },
  ]);
  t.equal(lines.length, 1, 'said once');
  t.match(await metrics.text(), /\nrunledger_workers_alive 0\n/);
  await w.consumer({ slots: 3 });
  await round();
  t.match(lines[1], { msg: 'a worker is alive again' });
  const text = await metrics.text();
  t.match(text, /\nrunledger_workers_alive 1\n/);
  t.match(text, /\nrunledger_worker_slots 3\n/);
  await w.clock.advance(60_000);
  await round();
  await round();
  t.equal(lines.length, 3, 'its heartbeats ended');
});

t.test('all metrics of the service are one statement, for all who ask in a second', async (t) => {
  const w = await world(t);
  await w.consumer({ slots: 3 });
  let statements = 0;
  const counted = ((...given: Parameters<typeof w.web>) => {
    statements += 1;
    return w.web(...given);
  }) as unknown as typeof w.web;
  const metrics = createMetrics();
  observeService(metrics, counted, { queue_capacity: 7, fresh_ms: 60_000 });
  const [text] = await Promise.all([metrics.text(), metrics.text()]);
  await metrics.text();
  t.equal(statements, 1);
  t.match(text, /\nrunledger_database_up 1\n/);
  t.match(text, /\nrunledger_language_slots\{language="python"\} 3\n/);
  t.match(text, /\nrunledger_database_size_bytes \d{6,}\n/);
  t.match(text, /\nrunledger_database_connections_left [1-9]\d*\n/);
  t.match(text, /\nrunledger_retention_problem 0\n/);
});

t.test('without the database the other metrics are there', async (t) => {
  const metrics = createMetrics();
  const away = (() => Promise.reject(new Error('away'))) as never;
  observeService(metrics, away, { queue_capacity: 7 });
  const text = await metrics.text();
  t.match(text, /\nrunledger_database_up 0\n/);
  t.match(text, /\nrunledger_queue_capacity 7\n/);
  t.notMatch(text, /^runledger_queue_depth /m);
});
