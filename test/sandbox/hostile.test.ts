/**
 * The hostile suite as tests: every case in each of its languages. It needs a machine that offers
 * isolation. RUNLEDGER_TEST_LANGUAGES (cpp,python,java) selects languages, because a JVM takes minutes
 * in an emulated machine.
 */
import { availableParallelism } from 'node:os';
import t from 'tap';
import { CASES } from './cases/all.ts';
import { openBench, type Result, runCases, spokenBy } from './suite.ts';

const LEAST_CASES = 120;

t.comment(`${CASES.length} cases, ${availableParallelism()} processors`);
const wanted = process.env['RUNLEDGER_TEST_LANGUAGES']?.split(',');
const bench = await openBench();
t.teardown(() => bench.close());

const results: Result[] = [];
const runs = spokenBy(bench, CASES, (language) => wanted?.includes(language) ?? true);
await runCases(bench, runs, (result) => results.push(result));

t.test('the list is complete', async (t) => {
  t.ok(CASES.length >= LEAST_CASES, `${CASES.length} cases`);
  t.equal(
    new Set(CASES.map(({ topic, name }) => `${topic} ${name}`)).size,
    CASES.length,
    'every name is unique',
  );
  t.equal(results.length, runs.length * 2, 'both sides of each case ran');
});

for (const { topic, name, claim, because } of CASES) {
  const of = results.filter(({ test }) => test.topic === topic && test.name === name);
  if (of.length === 0) continue;
  t.test(`${topic}: ${name}: ${claim}, because ${because}`, async (t) => {
    for (const { language, warm, side, problem, seen } of of) {
      t.equal(problem, null, `${language}${warm ? ' (warm)' : ''} ${side}`, {
        said: seen?.stdout.slice(0, 500),
        erred: seen?.stderr.slice(0, 500),
      });
    }
  });
}
