/**
 * Where do the milliseconds of one Python hello go? One client asks and waits, for one program after the other. Web and worker
 * mark the moments that it passes (src/marks.ts), and the medians of the times between them are the budget. The same is asked of
 * a service without marks, in turn: what they cost.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Moment } from '../src/marks.ts';
import { type BenchFleet, startFleet } from './support/fleet.ts';
import { against, type Measure, publish } from './support/report.ts';
import { median } from './support/stats.ts';

const RUNS = Number(process.env['BENCH_RUNS'] ?? 600);
const TURNS = 6;
const WARM_RUNS = 300;
/** Each begins at the moment before it, and ends at this one. What is beside the way has no step. */
const STEPS: readonly (readonly [Moment | 'client has it', string])[] = [
  ['web has the request', 'HTTP: to web'],
  ['web sends the submission', 'web: parse, validate, gather'],
  ['worker hears of its execution', 'PostgreSQL: accept and start, commit, NOTIFY'],
  ['worker has started it', 'worker: wake'],
  ['worker gives it to the executor', 'worker: a slot'],
  ['worker has the outcome', 'executor, launcher, box and program; verdict'],
  ['web hears the result', 'PostgreSQL: complete, commit, NOTIFY'],
  ['web answers', 'web: write the answer'],
  ['client has it', 'HTTP: to the client'],
];
type Run = { from: number; to: number; program_ms: number };

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
const folder = mkdtempSync(join(tmpdir(), 'runledger-marks-'));
try {
  const keeper = pathToFileURL(join(import.meta.dirname, 'support/keep_marks.ts')).href;
  const shape = { webs: 1, workers: 1, slots: 2 };
  const marked = await startFleet(t, shape, {
    MARKS_FOLDER: folder,
    NODE_OPTIONS: `--import=${keeper}`,
  });
  const plain = await startFleet(t, shape);
  for (const fleet of [marked, plain]) await ask(fleet, WARM_RUNS);
  const [runs, others]: [Run[], Run[]] = [[], []];
  for (let turn = 0; turn < TURNS; turn += 1) {
    runs.push(...(await ask(marked, RUNS / TURNS)));
    others.push(...(await ask(plain, RUNS / TURNS)));
  }
  for (const work of teardowns.splice(0)) await work();
  const ms = (of: Run[]) => median(of.map(({ from, to }) => (to - from) / 1e6));
  publish('budget', 'where do the milliseconds of one Python hello go?', [
    ...stepsOf(runs, momentsIn(folder)),
    against('all of it, over a service without marks', 'ms', ms(runs), ms(others)),
  ]);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  for (const work of teardowns.splice(0)) await work();
  rmSync(folder, { recursive: true, force: true });
}
process.exit();

async function ask(fleet: BenchFleet, count: number): Promise<Run[]> {
  const runs: Run[] = [];
  for (let n = 0; n < count; n += 1) {
    const from = Number(process.hrtime.bigint());
    const { wall_time } = await fleet.hello();
    const to = Number(process.hrtime.bigint());
    runs.push({ from, to, program_ms: wall_time * 1_000 });
  }
  return runs;
}

type Marks = { moment: string; at: number }[];

function momentsIn(marks_folder: string): Marks {
  return readdirSync(marks_folder)
    .flatMap((name): [string, number][] =>
      JSON.parse(readFileSync(join(marks_folder, name), 'utf8')),
    )
    .map(([moment, at]) => ({ moment, at }))
    .toSorted((a, b) => a.at - b.at);
}

function stepsOf(runs: readonly Run[], marks: Marks): Measure[] {
  const took = STEPS.map((): number[] => []);
  let first = 0;
  for (const { from, to } of runs) {
    while (first < marks.length && marks[first]!.at < from) first += 1;
    let before = from;
    for (const [n, [moment]] of STEPS.entries()) {
      // The first such moment behind the one before: a poll of the worker may have passed some of them, too.
      const found =
        moment === 'client has it'
          ? to
          : marks.slice(first, first + 40).find((one) => one.moment === moment && one.at >= before)
              ?.at;
      if (found === undefined || found > to) throw new Error(`a run did not pass: ${moment}`);
      took[n]!.push((found - before) / 1e6);
      before = found;
    }
  }
  const program = median(runs.map(({ program_ms }) => program_ms));
  return STEPS.flatMap(([moment, name], n) => [
    { name, unit: 'ms', value: median(took[n]!) },
    ...(moment === 'worker has the outcome'
      ? [{ name: '  of it the program', unit: 'ms', value: program }]
      : []),
  ]);
}
