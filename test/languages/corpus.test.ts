/**
 * Honest programs in every language, each with the verdict and the output that it must have. A language
 * is tested by a file of its name in `corpus/`, and cannot do without one.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { LANGUAGES } from '../../src/languages/common/registry.ts';
import { anExecutor, PLAIN } from '../executor/an_executor.ts';
import { BASICS, type CorpusProgram } from './corpus_program.ts';

const { run, toolchains } = await anExecutor(t, { switches: PLAIN });

for (const { name, hello, source } of LANGUAGES) {
  const file = join(import.meta.dirname, 'corpus', `${name}.ts`);
  t.test(name, async (t) => {
    if (!existsSync(file)) {
      t.fail(`test/languages/corpus/${name}.ts must have programs in ${name} (${source})`);
      return;
    }
    const { programs } = (await import(file)) as { programs: readonly CorpusProgram[] };
    const names = programs.map((program) => program.name);
    t.strictSame(
      BASICS.filter((basic) => !names.includes(basic)),
      [],
      'it has the basic programs',
    );
    t.equal(new Set(names).size, names.length, 'no name is used twice');
    if (!toolchains.has(name)) {
      t.pass('programs', { skip: `no ${name} on this machine` });
      return;
    }
    t.match(await run(name, hello), { verdict: 'AC', stdout: '42\n' }, "the documents' example");
    for (const program of programs) await check(t, name, program);
  });
}

async function check(t: Tap, language: string, program: CorpusProgram): Promise<void> {
  const { name, code, verdict, stdout, stderr, exit_code, signal, ...order } = program;
  const outcome = await run(language, code, order);
  const { evidence } = outcome;
  const shown = { stdout: outcome.stdout.slice(0, 500), stderr: outcome.stderr.slice(0, 500) };
  t.equal(outcome.verdict, verdict, `${name}: verdict`, { ...shown, evidence });
  if (typeof stdout === 'string') t.equal(outcome.stdout, stdout, `${name}: stdout`);
  else if (stdout) t.match(outcome.stdout, stdout, `${name}: stdout`);
  if (typeof stderr === 'string') t.equal(outcome.stderr, stderr, `${name}: stderr`);
  else if (stderr) t.match(outcome.stderr, stderr, `${name}: stderr`);
  if (exit_code !== undefined) t.equal(outcome.exit_code, exit_code, `${name}: exit code`);
  if (signal !== undefined) t.equal(outcome.signal, signal, `${name}: signal`);
}

type Tap = Pick<typeof t, 'equal' | 'match'>;
