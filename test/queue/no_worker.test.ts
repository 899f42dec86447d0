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
  observeService(metrics, () => w.web, { queue_capacity: 7, fresh_ms: 0 });
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
  const languages = ['python', 'java'];
  observeService(metrics, () => counted, { queue_capacity: 7, fresh_ms: 60_000, languages });
  const [text] = await Promise.all([metrics.text(), metrics.text()]);
  await metrics.text();
  t.equal(statements, 1);
  t.match(text, /\nrunledger_database_up 1\n/);
  t.match(text, /\nrunledger_language_slots\{language="python"\} 3\n/);
  t.match(text, /\nrunledger_language_workers\{language="java"\} 0\n/, 'offered, and none runs it');
  t.match(text, /\nrunledger_database_size_bytes \d{6,}\n/);
  t.match(text, /\nrunledger_database_connections_left [1-9]\d*\n/);
  t.match(text, /\nrunledger_retention_problem 0\n/);
});

t.test('without the database the other metrics are there', async (t) => {
  const metrics = createMetrics();
  const away = (() => Promise.reject(new Error('away'))) as never;
  observeService(metrics, () => away, { queue_capacity: 7 });
  const text = await metrics.text();
  t.match(text, /\nrunledger_database_up 0\n/);
  t.match(text, /\nrunledger_queue_capacity 7\n/);
  t.notMatch(text, /^runledger_queue_depth /m);
});

t.test(
  'a statement that takes long is the only one, and the page has the outcome before it',
  async (t) => {
    const row = (waiting: number) => [{ waiting, languages: [], retention: { problem: null } }];
    const observed = (outdated_ms: number, answers: (() => Promise<object>)[]) => {
      const metrics = createMetrics();
      const db = (() => answers.shift()!()) as never;
      observeService(metrics, () => db, {
        queue_capacity: 7,
        fresh_ms: 0,
        limit_ms: 20,
        outdated_ms,
      });
      return { metrics, answers };
    };
    // The limit's timer keeps no process.
    const keeper = setInterval(() => {}, 1_000);
    t.teardown(() => clearInterval(keeper));
    const long = Promise.withResolvers<object>();
    const { metrics, answers } = observed(3_600_000, [
      async () => row(5),
      () => long.promise,
      async () => Promise.reject(new Error('away')),
    ]);
    for (let scrape = 0; scrape < 4; scrape++) {
      const text = await metrics.text();
      t.match(text, /\nrunledger_queue_depth 5\n/);
      t.match(text, /\nrunledger_database_up 1\n/);
    }
    t.equal(answers.length, 1, 'no other statement beside it');
    long.resolve(row(6));
    await long.promise;
    t.match(await metrics.text(), /\nrunledger_database_up 0\n/, 'then the next one');

    const silent = observed(0, [async () => row(5), () => new Promise(() => {})]);
    t.match(await silent.metrics.text(), /\nrunledger_database_up 1\n/);
    for (let scrape = 0; scrape < 2; scrape++)
      t.match(await silent.metrics.text(), /\nrunledger_database_up 0\n/, 'too old to be shown');
  },
);
