/**
 * `make tamper`: does each manipulation as a superuser to a copy of a small sealed ledger, runs verify with a policy, and prints
 * what it said. ONLY=words: those whose name matches this expression. Exit status 1 if something passes that must be caught, or if
 * verify names something that it was said not to be able to catch.
 */

import { allManipulations, tamper } from './all.ts';
import { makeLedger } from './ledger.ts';

const undo: (() => unknown)[] = [];
const only = process.env['ONLY'] ?? '';
try {
  const ledger = await makeLedger({ teardown: (work) => void undo.unshift(work) });
  let failed = 0;
  const count = { caught: 0, not: 0 };
  console.log('| manipulation | verify said | |\n|---|---|---|');
  for (const manipulation of allManipulations.filter(({ name }) => new RegExp(only).test(name))) {
    const { as_expected, said, caught } = await tamper(ledger, manipulation);
    if (!as_expected) failed++;
    count[caught ? 'caught' : 'not']++;
    const mark = `${caught ? 'caught' : 'not caught'}${as_expected ? '' : ', NOT AS EXPECTED'}`;
    console.log(
      `| ${manipulation.name} | ${said.replaceAll('|', '\\|').replaceAll('\n', ' ')} | ${mark} |`,
    );
  }
  console.log(`\n${count.caught} caught, ${count.not} not caught; ${failed} not as expected`);
  process.exitCode = failed > 0 ? 1 : 0;
} finally {
  for (const work of undo) await work();
}
