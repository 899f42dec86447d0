/**
 * The hostile suite as tests: every case in each of its languages. It needs a machine that offers
 * isolation. RUNLEDGER_TEST_LANGUAGES (cpp,python,java) selects languages, because a JVM takes minutes
 * in an emulated machine.
 */
import { availableParallelism } from 'node:os';
import t from 'tap';
import type { Case } from './case.ts';
import { CASES } from './cases/all.ts';
import { ISOLATION } from './isolation.ts';
import { openBench, type Result, runCases, spokenBy } from './suite.ts';

const LEAST_CASES = 250;

t.comment(`${CASES.length} cases, ${availableParallelism()} processors`);
const wanted = process.env['RUNLEDGER_TEST_LANGUAGES']?.split(',');
const bench = await openBench();
t.teardown(() => bench.close());

const results: Result[] = [];
const isWanted = (language: string) => wanted?.includes(language) ?? true;
const runs = spokenBy(bench, CASES, isWanted);
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

/** Why a case does not run here in all of its languages; null if it does, or if nobody asked for it. */
function notRun(test: Case): string | null {
  const { degraded, missing } = bench.many.isolation;
  if (degraded && (test.needs_box || test.beside))
    return 'isolation' in ISOLATION ? null : 'no boxes on this machine';
  if (test.needs_quota && missing !== null) return `this machine has not all: ${missing}`;
  const lacking = test.languages.filter(isWanted).filter((one) => !bench.toolchains.has(one));
  return lacking.length > 0 ? `no ${lacking.join(', ')} on this machine` : null;
}

/** Both sides in each language, and in Python from a warm interpreter, too; none where something is not there. */
function leastResults(test: Case): number {
  if (bench.many.isolation.degraded || notRun(test) !== null) return 0;
  const ways = test.languages.filter(isWanted).map((one) => (one === 'python' ? 2 : 1));
  return 2 * ways.reduce((sum, n) => sum + n, 0);
}

for (const test of CASES) {
  const { topic, name, claim, because } = test;
  const of = results.filter((result) => result.test === test);
  const reason = notRun(test);
  if (reason !== null) t.pass(`${topic}: ${name}`, { skip: reason });
  const least = leastResults(test);
  if (of.length + least === 0) continue;
  t.test(`${topic}: ${name}: ${claim}, because ${because}`, async (t) => {
    t.ok(of.length >= least, `${of.length} results of at least ${least}`);
    for (const { language, warm, side, problem, seen } of of) {
      t.equal(problem, null, `${language}${warm ? ' (warm)' : ''} ${side}`, {
        said: seen?.stdout.slice(0, 500),
        erred: seen?.stderr.slice(0, 500),
      });
    }
  });
}
