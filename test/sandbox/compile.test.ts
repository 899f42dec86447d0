/** Attacks at compile time, as tests; see cases/compile.ts. */
import t from 'tap';
import { compile } from './cases/compile.ts';
import { type CompileResult, runCompileCases } from './compile_suite.ts';

const wanted = process.env['RUNLEDGER_TEST_LANGUAGES']?.split(',');
const results: CompileResult[] = [];
await runCompileCases(
  compile.filter(({ language }) => wanted?.includes(language) ?? true),
  (result) => results.push(result),
);

for (const { name, claim, because } of compile) {
  const of = results.filter(({ test }) => test.name === name);
  if (of.length === 0) continue;
  t.test(`${name}: ${claim}, because ${because}`, async (t) => {
    for (const { test, side, problem, outcome } of of) {
      const said = Buffer.from(outcome?.stderr ?? '')
        .toString()
        .slice(0, 500);
      t.equal(problem, null, `${test.language} ${side}`, { said });
    }
  });
}
