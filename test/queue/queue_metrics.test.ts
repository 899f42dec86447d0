/** What Prometheus reads of a real web process: the submissions that end without a worker, each once. */
import t from 'tap';
import { createMetrics } from '../../src/metrics.ts';
import { executionObserver } from '../../src/queue/queue_metrics.ts';
import { startService } from '../http/support/service.ts';
import { until } from '../support/eventually.ts';

t.test('a submission that ends without a worker is counted, once', async (t) => {
  const service = await startService(t, {
    webs: 1,
    env: { RUNLEDGER_METRICS_PORT: '0', RUNLEDGER_PENDING_MAX_AGE: '1s' },
  });
  const { written } = service.webs[0]!;
  const [, port] = /"port":(\d+),"msg":"metrics are served"/.exec(written.join('\n'))!;
  const counted = async () => {
    const page = await fetch(`http://127.0.0.1:${port}/metrics`).then((answer) => answer.text());
    return page.match(/^runledger_submissions_(cancelled|given_up)_total.*/gm);
  };
  t.same(await counted(), [
    'runledger_submissions_given_up_total{reason="age"} 0',
    'runledger_submissions_given_up_total{reason="losses"} 0',
    'runledger_submissions_cancelled_total 0',
  ]);

  const key = await service.key();
  const submitted = async () => (await service.submit(key)).json.id as string;
  const cancel = async (id: string) =>
    (await service.call({ path: `/api/submissions/${id}`, key, method: 'DELETE' })).status;
  const running = await submitted();
  await service.worker.start(running);
  for (const id of [running, await submitted()])
    t.same([await cancel(id), await cancel(id)], [200, 200]);
  await Promise.all([submitted(), submitted()]);
  await until(async () => {
    const [row] = await service.db`
      select count(*)::integer as n from runledger.submissions where status = 'error'`;
    return row!['n'] === 2;
  });
  // The round that ended them may still be at its last statement.
  await until(async () => !(await counted())![0]!.endsWith(' 0'));
  t.same(await counted(), [
    'runledger_submissions_given_up_total{reason="age"} 2',
    'runledger_submissions_given_up_total{reason="losses"} 0',
    'runledger_submissions_cancelled_total 2',
  ]);
});

t.test('a wait of minutes and one of hours are in different buckets, up to a day', async (t) => {
  const metrics = createMetrics();
  const { phase } = executionObserver(metrics, ['python']);
  const waits_s = [0.02, 90, 600, 3_600, 80_000];
  for (const seconds of waits_s) phase('queue', 'python', seconds);
  const edges = (await metrics.text())
    .split('\n')
    .flatMap((line) => /^runledger_phase_.*_bucket\{.*le="([\d.]+)".* \d+$/.exec(line)?.[1] ?? [])
    .map(Number);
  const edgeOf = (seconds: number) => edges.find((edge) => seconds <= edge);
  t.equal(new Set(waits_s.map(edgeOf)).size, waits_s.length, 'each in a bucket of its own');
  t.equal(edgeOf(86_400), 86_400, 'the longest wait is in a bucket with an end');
});
