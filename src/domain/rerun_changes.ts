/**
 * What a rerun changed. Two runs of one program never take the same time, and some programs print something else each time.
 * So a difference counts only if each of RUNS reruns has the same one; a rerun without any difference ends the search. Differences of times and memory below these bounds are noise.
 *
 * What a program prints to stderr does not count: messages of compilers and runtimes name versions and addresses.
 */
export const RUNS = 3;

/** More than half again, and more than what a busy machine adds to a short run. */
const CPU = { factor: 1.5, least: 50_000 };
/** A runtime's heap grows in steps, and the page cache counts. */
const MEMORY = { factor: 1.25, least: 8 * 2 ** 20 };

export type Measured = {
  readonly verdict: string | null;
  readonly score: number | null;
  readonly exit_code: number | null;
  /** SHA-256 of what is stored of it; null if it is empty. */
  readonly stdout_sha256: string | null;
  /** The verdict of each test; null for a plain run. */
  readonly tests: readonly string[] | null;
  readonly cpu_time_us: number | null;
  readonly memory_peak_bytes: number | null;
};

export const ASPECTS = [
  'verdict',
  'score',
  'exit code',
  'output',
  'tests',
  'cpu',
  'memory',
] as const;
export type Aspect = (typeof ASPECTS)[number];

/** With other tests, everything else is of other tests. */
export const ASPECTS_OF_ANOTHER_SET: readonly Aspect[] = ['verdict', 'score'];

/** What it is now; of times and memory, `more` or `less`. Aspects without a change are absent. */
export type Changes = ReadonlyMap<Aspect, string>;

export function changesOf(
  before: Measured,
  after: Measured,
  aspects: readonly Aspect[] = ASPECTS,
): Changes {
  const pairs: Readonly<Record<Aspect, readonly [unknown, unknown]>> = {
    verdict: [before.verdict, after.verdict],
    score: [before.score, after.score],
    'exit code': [before.exit_code, after.exit_code],
    output: [before.stdout_sha256, after.stdout_sha256],
    tests: [before.tests, after.tests],
    cpu: ['same', compared(before.cpu_time_us, after.cpu_time_us, CPU)],
    memory: ['same', compared(before.memory_peak_bytes, after.memory_peak_bytes, MEMORY)],
  };
  const changed = aspects.filter((aspect) => String(pairs[aspect][0]) !== String(pairs[aspect][1]));
  return new Map(changed.map((aspect) => [aspect, String(pairs[aspect][1])]));
}

function compared(
  before: number | null,
  after: number | null,
  { factor, least }: { factor: number; least: number },
): 'same' | 'more' | 'less' {
  if (before === null || after === null || Math.abs(after - before) <= least) return 'same';
  if (after > before * factor) return 'more';
  return before > after * factor ? 'less' : 'same';
}

/** steady: the same in every rerun. */
export function sumUp(all: readonly Changes[]): { steady: Aspect[]; unsteady: Aspect[] } {
  const seen = ASPECTS.filter((aspect) => all.some((changes) => changes.has(aspect)));
  const isSteady = (aspect: Aspect) =>
    all.every((changes) => changes.has(aspect) && changes.get(aspect) === all[0]!.get(aspect));
  return {
    steady: seen.filter(isSteady),
    unsteady: seen.filter((aspect) => !isSteady(aspect)),
  };
}
