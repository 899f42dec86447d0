/**
 * Many runs, hostile among honest, on all slots, drawn by a seed: every verdict is checked, and what is
 * left behind is counted. `bench/sandbox_soak.ts` does ten thousand, a test some hundred.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { LanguageName as Language } from '../../src/domain/limits.ts';
import { SandboxFault } from '../../src/executor/sandbox.ts';
import { within } from '../executor/processes.ts';
import { type Case, fault, type Side } from './case.ts';
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
};

type Draw = { test: Case; side: Side; language: Language };

/** In a hundred: a JVM takes as long as forty static programs. */
const JAVA_SHARE = 0.03;
const PYTHON_SHARE = 0.25;
const RSS_LOOKS = 20;
const SETTLE_MS = 500;
const NAP_MS = { cpu_ms: 100, wall_ms: 600 };

export async function soak(options: {
  runs: number;
  seed: number;
  at_once?: number;
}): Promise<SoakResult> {
  const { runs, seed, at_once = 4 } = options;
  const bench = await openBench();
  try {
    return await soakOn(bench, runs, seed, at_once);
  } finally {
    await bench.close();
  }
}

async function soakOn(
  bench: Bench,
  runs: number,
  seed: number,
  at_once: number,
): Promise<SoakResult> {
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
    const word = await runOne(bench, draw);
    result.runs++;
    const at_s = ((performance.now() - opened) / 1_000).toFixed(0);
    if (word.fault !== null)
      result[word.broken ? 'faults' : 'wrong'].push(`at ${at_s} s: ${nameOf(draw)}: ${word.fault}`);
    result.verdicts[word.verdict] = (result.verdicts[word.verdict] ?? 0) + 1;
  };
  // What a slot makes once (lazily) is no leak: each language has run before the first count.
  for (const [card] of Object.values(deck)) if (card) await Promise.all([one(card), one(card)]);
  const users = await usersOf(bench);
  const count = () => leftovers(bench.many.isolation, bench.store_dir, users);
  // The last of them may still be on its way out: then it would be missed at the end.
  await sleep(SETTLE_MS);
  let before = count();
  await within(5_000, () => {
    const earlier = before;
    before = count();
    return differences(earlier, before).length === 0;
  });
  const begun = performance.now();
  let begunRuns = 0;
  const worker = async () => {
    while (begunRuns < runs) {
      begunRuns++;
      await one(pick(deck, random));
      if (result.runs % Math.ceil(runs / RSS_LOOKS) === 0)
        rss_bytes.push(launcherBytes(bench.many.isolation));
    }
  };
  await Promise.all(Array.from({ length: at_once }, worker));
  const seconds = (performance.now() - begun) / 1_000;
  await usersOf(bench);
  // The answer does not wait for a slot's tidying up, which takes a moment.
  await within(5_000, () => differences(before, count()).length === 0);
  const after = count();
  return { ...result, before, after, left: differences(before, after), rss_bytes, seconds };
}

/** Longer than a slot takes to tidy up at most. */
const BOTH_MS = 1_000;

/** Keeps both slots busy at once first, so that each is in the root of the same profile afterwards. */
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
  // In a user namespace the number means nothing outside.
  return new Set(bench.many.isolation.kind === 'v2-user' ? [] : inside);
}

async function runOne(
  bench: Bench,
  { test, side, language }: Draw,
): Promise<{ verdict: string; fault: string | null; broken: boolean }> {
  const { request, limits } = requestFor(bench, hastened(side), test.topic, language);
  try {
    const seen = see(await bench.many.run(request), limits, language);
    return { verdict: seen.verdict, fault: fault(side.expected, seen), broken: false };
  } catch (error) {
    const verdict = error instanceof SandboxFault ? `fault ${error.kind}` : 'error';
    return { verdict, fault: `${error}`, broken: true };
  }
}

/** What must end at a limit ends at a smaller one; what must not keeps its own, however busy the machine is. */
function hastened(side: Side): Side {
  if (side.expected.verdict !== 'TLE') return side;
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

function pick(deck: Record<Language, Draw[]>, random: () => number): Draw {
  const share = random();
  const wanted = share < JAVA_SHARE ? 'java' : share < JAVA_SHARE + PYTHON_SHARE ? 'python' : 'cpp';
  const cards = deck[wanted] ?? deck['cpp']!;
  return cards[Math.floor(random() * cards.length)]!;
}

const nameOf = ({ test, side, language }: Draw) =>
  `${language} ${test.topic}: ${test.name} (${side === test.hostile ? 'hostile' : 'honest'})`;

/** xorshift32: the same seed draws the same runs. */
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
