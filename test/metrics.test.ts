import t from 'tap';
import { createMetrics } from '../src/metrics.ts';

t.test('counters, histograms and gauges are printed in the Prometheus text format', async (t) => {
  const metrics = createMetrics();
  const requests = metrics.counter('runledger_requests_total', 'Requests.', ['a', 'b']);
  requests.add({ b: '2', a: '1' });
  requests.add({ a: '1', b: '2' }, 4);
  requests.add({ a: 'x"\\\n', b: '' });
  const seconds = metrics.histogram('runledger_seconds', 'Time.', [0.1, 1]);
  seconds.observe(0.1);
  seconds.observe(0.5);
  seconds.observe(9);
  metrics.gauge('runledger_now', 'Now.', () => 3);
  metrics.gauge('runledger_each', 'Each.', async () => [[{ of: 'x' }, 1]], ['of']);
  metrics.gauge('runledger_unknown', 'Not known.', () => null);
  metrics.total('runledger_read_total', 'Read.', () => 7);
  metrics.gauge('runledger_broken', 'Fails.', async () => {
    throw new Error('away');
  });
  t.equal(
    await metrics.text(),
    `# HELP runledger_requests_total Requests.
# TYPE runledger_requests_total counter
runledger_requests_total{a="1",b="2"} 5
runledger_requests_total{a="x\\"\\\\\\n",b=""} 1
# HELP runledger_seconds Time.
# TYPE runledger_seconds histogram
runledger_seconds_bucket{le="0.1"} 1
runledger_seconds_bucket{le="1"} 2
runledger_seconds_bucket{le="+Inf"} 3
runledger_seconds_sum 9.6
runledger_seconds_count 3
# HELP runledger_now Now.
# TYPE runledger_now gauge
runledger_now 3
# HELP runledger_each Each.
# TYPE runledger_each gauge
runledger_each{of="x"} 1
# HELP runledger_unknown Not known.
# TYPE runledger_unknown gauge
# HELP runledger_read_total Read.
# TYPE runledger_read_total counter
runledger_read_total 7
# HELP runledger_broken Fails.
# TYPE runledger_broken gauge
`,
  );
});

t.test('a name must begin with runledger_ and be new', async (t) => {
  const metrics = createMetrics();
  t.throws(() => metrics.counter('requests_total', ''), /bad name/);
  metrics.counter('runledger_x_total', '');
  t.throws(() => metrics.counter('runledger_x_total', ''), /is already defined/);
});
