/**
 * node test/sandbox/main.ts [--language L] [--topic T] [--name TEXT] [--differing AS] [--quiet] [--no-compile]
 *   [--without SPEEDUP ...]
 *
 * --differing root or user: only the cases that `make test` runs in such a guest machine (guest_cases.ts). In such a machine,
 * also what only this user can be asked.
 *
 * Runs the hostile suite on the isolation that this machine offers, without a database. For each case
 * it prints the claim, the mechanism behind it, and the result. Exit 1: a claim does not hold, or the
 * machine offers no isolation.
 */
import { parseArgs } from 'node:util';
import type { LanguageName } from '../../src/domain/limits.ts';
import { BY_NAME } from '../../src/languages/common/registry.ts';
import { CASES } from './cases/all.ts';
import { compile } from './cases/compile.ts';
import { type CompileResult, runCompileCases, SPEED_UPS } from './compile_suite.ts';
import { noHandlerForBoxes } from './guest/core_handler.ts';
import { queuesLeaveRoom } from './guest/user_queues.ts';
import { type As, differsIn, isAs } from './guest_cases.ts';
import { type Bench, openBench, runCases, spokenBy } from './suite.ts';

const { values } = parseArgs({
  options: {
    language: { type: 'string' },
    topic: { type: 'string' },
    name: { type: 'string' },
    differing: { type: 'string' },
    quiet: { type: 'boolean' },
    'no-compile': { type: 'boolean' },
    without: { type: 'string', multiple: true, default: [] },
  },
});
const { differing: as } = values;
if (as !== undefined && !isAs(as)) {
  console.error(`--differing must be root or user, not ${as}`);
  process.exit(2);
}
const unknown = values.without.find((name) => !SPEED_UPS.includes(name));
if (unknown) {
  console.error(`--without must be one of ${SPEED_UPS.join(', ')}, not ${unknown}`);
  process.exit(2);
}

/** One side of a case in one language, as printed. */
type Line = {
  language: string;
  side: 'hostile' | 'honest';
  problem: string | null;
  verdict: string;
  took_ms: number;
  said: string;
};
type Entry = { topic: string; name: string; claim: string; because: string };

const isChosen = ({ topic, name }: Entry) =>
  (values.topic ?? topic) === topic &&
  name.includes(values.name ?? '') &&
  (as === undefined || differsIn(as, { topic, name }));
const isSpoken = (language: string) => (values.language ?? language) === language;

function chosenLanguages(): LanguageName[] | undefined {
  const { language } = values;
  if (language === undefined) return undefined;
  const { name } = BY_NAME.get(language) ?? {};
  if (name !== undefined) return [name as LanguageName];
  console.error(`--language must be one of ${[...BY_NAME.keys()].join(', ')}, not ${language}`);
  process.exit(2);
}

/** These change settings of the whole kernel, or open another sandbox. Only root can set the kernel's handler of core dumps. */
const MORE: Readonly<Record<As, (bench: Bench) => Promise<boolean>>> = {
  root: noHandlerForBoxes,
  user: queuesLeaveRoom,
};
let more_holds = true;

const begun = performance.now();
const keyOf = ({ topic, name }: Entry) => `${topic} ${name}`;
const lines = new Map<string, Line[]>();
const add = (entry: Entry, line: Line) =>
  lines.set(keyOf(entry), [...(lines.get(keyOf(entry)) ?? []), line]);

const isolation = await programsInBoxes();
if (!values['no-compile']) await sourcesInCompilers();
summary();

async function programsInBoxes(): Promise<string> {
  const bench = await openBench(chosenLanguages()).catch((error: Error) => {
    console.error(error.message);
    process.exit(1);
  });
  const chosen = CASES.filter(isChosen);
  const cold = values.without.includes('python_zygote');
  const { missing } = bench.many.isolation;
  if (missing !== null) console.log(`cases that need what is missing do not run: ${missing}`);
  const runs = spokenBy(bench, chosen, isSpoken).filter(({ warm }) => !(cold && warm));
  const printReady = printer(chosen, (test) => 2 * runs.filter((run) => run.test === test).length);
  await runCases(bench, runs, ({ test, language: spoken, warm, side, problem, seen, took_ms }) => {
    const language = warm ? `${spoken} (warm)` : spoken;
    const { stdout: _out, stderr: _err, ...report } = seen?.report ?? { stdout: '', stderr: '' };
    const said = `${seen?.stdout.slice(0, 600)}\n${seen?.stderr.slice(0, 600)}\n${JSON.stringify(report)}`;
    add(test, { language, side, problem, verdict: seen?.verdict ?? 'none', took_ms, said });
    printReady();
  });
  if (as && isAs(as) && process.env['RUNLEDGER_GUEST'] === as) more_holds = await MORE[as](bench);
  await bench.close();
  return JSON.stringify(bench.many.isolation);
}

async function sourcesInCompilers(): Promise<void> {
  const entries = compile.map((test) => ({ ...test, topic: 'compile' }));
  const chosen = entries.filter((test) => isChosen(test) && isSpoken(test.language));
  if (chosen.length === 0) return;
  const printReady = printer(chosen, () => 2);
  const each = ({ test, side, problem, outcome, took_ms }: CompileResult) => {
    const said = Buffer.from(outcome?.stderr ?? '')
      .toString()
      .slice(0, 600);
    const verdict = outcome?.verdict ?? 'none';
    const line = { language: test.language, side, problem, verdict, took_ms, said };
    add({ ...test, topic: 'compile' }, line);
    printReady();
  };
  await runCompileCases(chosen, each, values.without);
}

/** Prints each entry as soon as it has as many lines as expected. So the output shows progress. */
function printer<E extends Entry>(entries: readonly E[], expected: (entry: E) => number) {
  const waiting = new Set(entries);
  return () => {
    for (const entry of waiting) {
      if ((lines.get(keyOf(entry))?.length ?? 0) < expected(entry)) continue;
      waiting.delete(entry);
      print(entry);
    }
  };
}

function print(entry: Entry): void {
  const { topic, name, claim, because } = entry;
  const of = lines.get(keyOf(entry));
  if (of === undefined) return;
  const bad = of.filter(({ problem }) => problem !== null);
  if (values.quiet && bad.length === 0) return;
  console.log(`${bad.length === 0 ? 'ok    ' : 'FAILED'} ${topic}: ${name}`);
  console.log(`       ${claim}\n       because ${because}`);
  for (const language of new Set(of.map((line) => line.language))) {
    const words = of
      .filter((line) => line.language === language)
      .map(
        ({ side, problem, verdict, took_ms }) =>
          `${side} ${problem ?? verdict} (${took_ms.toFixed(0)} ms)`,
      );
    console.log(`       ${language}: ${words.join(', ')}`);
  }
  for (const { language, side, problem, said } of bad)
    console.log(`       ! ${language} ${side}: ${problem}\n${indented(said)}`);
}

function summary(): void {
  const all = [...lines.values()].flat();
  const failed = all.filter(({ problem }) => problem !== null).length;
  const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
  console.log(
    `${lines.size} cases, ${all.length} runs, ${failed} failed, ${seconds} s; isolation ${isolation}`,
  );
  process.exitCode = failed > 0 || all.length === 0 || !more_holds ? 1 : 0;
}

function indented(text: string): string {
  return text
    .trim()
    .split('\n')
    .map((line) => `         | ${line}`)
    .join('\n');
}
