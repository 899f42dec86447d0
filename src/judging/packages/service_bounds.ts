/**
 * Where a package and a service differ about limits. A service narrows a limit to what its operator allows, so there is a
 * note for a package that asks for more than the default: which service will judge it is not known here, and a set must be
 * the same for all of them. And a program must be able to print its answer, even if the package sets no limit of output.
 */
import { DEFAULT_BOUNDS, type LimitOverrides } from '../../domain/limits.ts';
import type { TestSet } from '../test_set.ts';

type Note = (path: string, note: string) => void;

const MiB = 1024 * 1024;
const BUT = 'unless its operator says otherwise';

const SHOWN = {
  memory_bytes: { name: 'limits.memory', one: MiB, unit: 'MiB' },
  output_bytes: { name: 'limits.output', one: MiB, unit: 'MiB' },
  cpu_time_ms: { name: 'the time limit', one: 1000, unit: 's' },
} as const;

/** Says which limits of problem.yaml a service would not allow. */
export function noteBounds(limits: LimitOverrides, note: Note): void {
  for (const [key, { name, one, unit }] of Object.entries(SHOWN)) {
    const { max } = DEFAULT_BOUNDS[key as keyof typeof SHOWN];
    if ((limits[key as keyof typeof SHOWN] ?? 0) <= max) continue;
    note('problem.yaml', `${name}: a service allows at most ${max / one} ${unit}, ${BUT}`);
  }
}

/** An answer of more bytes than this leaves too little room below the usual limit of output. */
const LARGE_ANSWER_BYTES = MiB / 2;

/** The set with a limit of output under which its largest answer can be printed. */
export function withRoomForAnswers(set: TestSet, note: Note): TestSet {
  const largest = set.tests.reduce((a, b) => (b.answer.size > a.answer.size ? b : a));
  const { max } = DEFAULT_BOUNDS.output_bytes;
  if (largest.answer.size > max && set.checker === null && set.interactor === null) {
    note(
      largest.name,
      `its answer is larger than the ${max / MiB} MiB of output that a service allows, ${BUT}`,
    );
  }
  if (set.limits.output_bytes !== undefined || largest.answer.size <= LARGE_ANSWER_BYTES)
    return set;
  return { ...set, limits: { ...set.limits, output_bytes: max } };
}
