import t from 'tap';
import {
  ASPECTS_OF_ANOTHER_SET,
  changesOf,
  type Measured,
  sumUp,
} from '../../src/domain/rerun_changes.ts';

const run = (change: Partial<Measured> = {}): Measured => ({
  verdict: 'AC',
  score: null,
  exit_code: 0,
  stdout_sha256: 'ab',
  tests: null,
  cpu_time_us: 100_000,
  memory_peak_bytes: 40_000_000,
  ...change,
});
const changed = (change: Partial<Measured>) => [...changesOf(run(), run(change))];

t.test('what differs, and in which direction', async (t) => {
  t.same(changed({}), []);
  t.same(changed({ verdict: 'WA' }), [['verdict', 'WA']]);
  t.same(changed({ score: 2.5 }), [['score', '2.5']]);
  t.same(changed({ exit_code: 1 }), [['exit code', '1']]);
  t.same(changed({ stdout_sha256: null }), [['output', 'null']]);
  t.same(changed({ tests: ['AC'] }), [['tests', 'AC']]);
  t.same(
    [...changesOf(run({ tests: ['AC', 'WA'] }), run({ tests: ['AC', 'AC'] }))],
    [['tests', 'AC,AC']],
  );
  t.same(changed({ cpu_time_us: 151_000 }), [['cpu', 'more']]);
  t.same(changed({ cpu_time_us: 49_000 }), [['cpu', 'less']]);
  t.same(changed({ memory_peak_bytes: 51_000_000 }), [['memory', 'more']]);
  t.same(changed({ memory_peak_bytes: 31_000_000 }), [['memory', 'less']]);
});

t.test('with another test set, verdict and score alone', async (t) => {
  const other = run({ score: 1, tests: ['AC'], stdout_sha256: null, cpu_time_us: 900_000 });
  t.same([...changesOf(run(), other, ASPECTS_OF_ANOTHER_SET)], [['score', '1']]);
});

t.test('what is noise', async (t) => {
  t.same(changed({ cpu_time_us: 149_000 }), [], 'less than half again');
  t.same(changed({ cpu_time_us: 51_000 }), []);
  t.same(changed({ cpu_time_us: null, memory_peak_bytes: null }), [], 'not known');
  const short = run({ cpu_time_us: 1_000, memory_peak_bytes: 1_000_000 });
  t.same([...changesOf(short, run({ cpu_time_us: 50_000, memory_peak_bytes: 9_000_000 }))], []);
});

t.test('a change counts if every rerun has it and the same one', async (t) => {
  const [slow, fast] = [run({ cpu_time_us: 900_000 }), run({ cpu_time_us: 10_000 })];
  const sum = (...runs: Measured[]) => sumUp(runs.map((each) => changesOf(run(), each)));
  t.same(sum(slow, slow, slow), { steady: ['cpu'], unsteady: [] });
  t.same(sum(slow, fast, slow), { steady: [], unsteady: ['cpu'] });
  t.same(sum(slow, run()), { steady: [], unsteady: ['cpu'] });
  t.same(sum(run({ verdict: 'WA', stdout_sha256: '1' }), run({ verdict: 'WA' })), {
    steady: ['verdict'],
    unsteady: ['output'],
  });
  const printed = ['1', '2', '3'].map((stdout_sha256) => run({ stdout_sha256 }));
  t.same(
    sum(...printed),
    { steady: [], unsteady: ['output'] },
    'it prints something else each time',
  );
  t.same(sum(run()), { steady: [], unsteady: [] });
});
