/**
 * Many hostile and honest runs on all slots, chosen by a seed. Every verdict is checked, and leftovers
 * are counted. `bench/sandbox_soak.ts` does ten thousand runs, a test some hundreds.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { LanguageName as Language } from '../../src/domain/limits.ts';
import { SandboxFault } from '../../src/executor/sandbox.ts';
import { within } from '../executor/processes.ts';
import { type Case, problemOf, type Side } from './case.ts';
import { CASES } from './cases/all.ts';
import { differences, type Leftovers, launcherBytes, leftovers } from './leftovers.ts';
import { type Bench, languagesOf, openBench, requestFor, see } from './suite.ts';

export type SoakResult = {
  seed: number;
  runs: number;
  verdicts: Record<string, number>;
  wrong: string[];
  faults: string[];
  before: Leftovers;
  after: Leftovers;
  left: string[];
  rss_bytes: number[];
  seconds: number;
  /** Of the lane of honest runs: for each program, the wall times of its runs. */
  honest_wall_us: Map<string, number[]>;
};

/** Runs that follow one another, `at_once` at a time. Lanes run beside each other. */
export type Lane = { runs: number; at_once: number; sides: 'both' | 'hostile' | 'honest' };

type Draw = { test: Case; side: Side; language: Language };

/** Where the share of each language ends; C++ has the rest. A JVM takes as long as forty static programs, and V8 as twenty. */
const SHARES_END: readonly [Language, number][] = [
  ['java', 0.03],
  ['javascript', 0.09],
  ['c', 0.19],
  ['python', 0.44],
];
const RSS_LOOKS = 20;
const SETTLE_MS = 500;
const NAP_MS = { cpu_ms: 100, wall_ms: 600 };

export async function soak(lanes: readonly Lane[], seed: number): Promise<SoakResult> {
  const bench = await openBench();
  try {
    return await soakOn(bench, lanes, seed);
  } finally {
    await bench.close();
  }
}

async function soakOn(bench: Bench, lanes: readonly Lane[], seed: number): Promise<SoakResult> {
  const random = generator(seed);
  const deck = decks(bench);
  const result = {
    seed,
    runs: 0,
    verdicts: {} as Record<string, number>,
    wrong: [] as string[],
    faults: [] as string[],
  };
  const rss_bytes: number[] = [];
  const opened = performance.now();
  const one = async (draw: Draw) => {
    const end = await runOne(bench, draw);
    result.runs++;
    const at_s = ((performance.now() - opened) / 1_000).toFixed(0);
    if (end.problem !== null)
      result[end.broken ? 'faults' : 'wrong'].push(`at ${at_s} s: ${nameOf(draw)}: ${end.problem}`);
    result.verdicts[end.verdict] = (result.verdicts[end.verdict] ?? 0) + 1;
    return end;
  };
  // A slot makes some things once, at first use. So each language runs before the first count.
  for (const [card] of Object.values(deck)) if (card) await Promise.all([one(card), one(card)]);
  const users = await usersOf(bench);
  const count = () => leftovers(bench.many.isolation, bench.store_dir, users);
  // The last run may still be ending. If it were counted now, the final count would differ.
  await sleep(SETTLE_MS);
  let before = count();
  await within(60_000, () => {
    const earlier = before;
    before = count();
    return differences(earlier, before).length === 0;
  });
  const begun = performance.now();
  const runs = lanes.reduce((sum, lane) => sum + lane.runs, 0);
  const honest_wall_us = new Map<string, number[]>();
  const runLane = async ({ runs: ofLane, at_once, sides }: Lane) => {
    const draws = drawer(deck, random, sides);
    let begunRuns = 0;
    const worker = async () => {
      while (begunRuns < ofLane) {
        begunRuns++;
        const draw = draws();
        const { wall_us } = await one(draw);
        if (sides === 'honest') addTo(honest_wall_us, nameOf(draw), wall_us);
        if (result.runs % Math.ceil(runs / RSS_LOOKS) === 0)
          rss_bytes.push(launcherBytes(bench.many.isolation));
      }
    };
    await Promise.all(Array.from({ length: at_once }, worker));
  };
  await Promise.all(lanes.map(runLane));
  const seconds = (performance.now() - begun) / 1_000;
  await usersOf(bench);
  // A run is answered before its slot has cleaned up, which takes a moment.
  await within(60_000, () => differences(before, count()).length === 0);
  const after = count();
  const left = differences(before, after);
  return { ...result, before, after, left, rss_bytes, seconds, honest_wall_us };
}

function addTo(lists: Map<string, number[]>, name: string, value: number): void {
  const list = lists.get(name) ?? [];
  lists.set(name, [...list, value]);
}

/** Longer than a slot ever takes to clean up. */
const BOTH_MS = 1_000;

/** Uses both slots at the same time first, so that both end up in the root of the same profile. */
async function usersOf(bench: Bench): Promise<Set<number>> {
  const nap: Side = {
    program: 'loop_sleep',
    limits: { wall_ms: BOTH_MS },
    expected: { verdict: 'TLE' },
  };
  const { request: asleep } = requestFor(bench, nap, 'endings', 'cpp');
  await Promise.all([bench.many.run(asleep), bench.many.run(asleep)]);
  const side: Side = { program: 'who_am_i', expected: { verdict: 'AC' } };
  const { request } = requestFor(bench, side, 'files', 'cpp');
  const reports = await Promise.all(Array.from({ length: 16 }, () => bench.many.run(request)));
  const said = reports.map(({ stdout }) => Buffer.from(stdout).toString());
  const inside = said.map((line) => Number(/uid (\d+)/.exec(line)?.[1]));
  // A number in a user namespace means nothing outside.
  return new Set(bench.many.isolation.kind === 'v2-user' ? [] : inside);
}

async function runOne(
  bench: Bench,
  { test, side, language }: Draw,
): Promise<{ verdict: string; problem: string | null; broken: boolean; wall_us: number }> {
  const { request, limits } = requestFor(bench, shortened(side), test.topic, language);
  try {
    const seen = see(await bench.many.run(request), limits, language);
    const problem = problemOf(side.expected, seen);
    return { verdict: seen.verdict, problem, broken: false, wall_us: seen.report.wall_us };
  } catch (error) {
    const verdict = error instanceof SandboxFault ? `fault ${error.kind}` : 'error';
    return { verdict, problem: `${error}`, broken: true, wall_us: 0 };
  }
}

/** A run that must end at a limit gets a smaller one. Others keep theirs, which suit a busy machine. */
function shortened(side: Side): Side {
  if (side.expected.verdict !== 'TLE') return side;
  if (side.expected.killed_for === 'wall') {
    // A program that says something first needs the time that it has elsewhere: the machine may be busy.
    if (side.expected.says) return side;
    // Without a CPU limit to reach first.
    return { ...side, limits: { ...side.limits, wall_ms: NAP_MS.wall_ms } };
  }
  const limits = { ...side.limits, ...NAP_MS };
  if (side.expected.killed_for === 'cpu' || (side.limits?.wall_ms ?? 0) > 2_000)
    limits.wall_ms = 30_000;
  return { ...side, limits };
}

function decks(bench: Bench): Record<Language, Draw[]> {
  const deck: Record<Language, Draw[]> = {};
  for (const test of CASES) {
    if (test.before || test.beside) continue;
    for (const language of languagesOf(bench, test))
      deck[language] = [
        ...(deck[language] ?? []),
        ...[test.honest, test.hostile].map((side) => ({ test, side, language })),
      ];
  }
  return deck;
}

/** So few that each honest program runs often enough for a median. */
const HONEST_PROGRAMS = 20;

function drawer(
  deck: Record<Language, Draw[]>,
  random: () => number,
  sides: Lane['sides'],
): () => Draw {
  if (sides === 'both') return () => pick(deck, random);
  const next = () => {
    for (;;) {
      const draw = pick(deck, random);
      if ((draw.side === draw.test.hostile) === (sides === 'hostile')) return draw;
    }
  };
  if (sides === 'hostile') return next;
  const chosen = Array.from({ length: HONEST_PROGRAMS }, next);
  return () => chosen[Math.floor(random() * chosen.length)]!;
}

function pick(deck: Record<Language, Draw[]>, random: () => number): Draw {
  const at = random();
  const wanted = SHARES_END.find(([, end]) => at < end)?.[0] ?? 'cpp';
  const cards = deck[wanted] ?? deck['cpp']!;
  return cards[Math.floor(random() * cards.length)]!;
}

const nameOf = ({ test, side, language }: Draw) =>
  `${language} ${test.topic}: ${test.name} (${side === test.hostile ? 'hostile' : 'honest'})`;

/** xorshift32: the same seed gives the same runs. */
function generator(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}
