/** Attacks at compile time, as tests; see cases/compile.ts. */
import t from 'tap';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { compile } from './cases/compile.ts';
import { type CompileResult, runCompileCases } from './compile_suite.ts';

const wanted = process.env['RUNLEDGER_TEST_LANGUAGES']?.split(',');
const results: CompileResult[] = [];
await runCompileCases(
  compile.filter(({ language }) => wanted?.includes(language) ?? true),
  (result) => results.push(result),
);

const { toolchains } = await findToolchains();
for (const attack of compile) {
  const { name, claim, because, language } = attack;
  if (!(wanted?.includes(language) ?? true)) continue;
  if (!toolchains.has(language)) {
    t.pass(name, { skip: `no ${language} on this machine` });
    continue;
  }
  const of = results.filter(({ test }) => test === attack);
  t.test(`${name}: ${claim}, because ${because}`, async (t) => {
    t.equal(of.length, 2, 'both sides ran');
    for (const { test, side, problem, outcome } of of) {
      const said = Buffer.from(outcome?.stderr ?? '')
        .toString()
        .slice(0, 500);
      t.equal(problem, null, `${test.language} ${side}`, { said });
    }
  });
}
