/** A case of the hostile suite whose source attacks while it is compiled; see case.ts. */
import type { LanguageName as Language } from '../../src/domain/limits.ts';
import type { Verdict } from '../../src/domain/result.ts';
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import type { Host } from './case.ts';
import { COMPILE_WALL_MS, SLOWNESS } from './slowness.ts';

export type CompileSide = {
  code: string | Uint8Array | ((host: Host) => string);
  verdict: Verdict | readonly Verdict[];
  says?: RegExp;
  evidence?: (outcome: ExecutionOutcome) => string | null;
};
export type CompileCase = {
  name: string;
  claim: string;
  because: string;
  language: Language;
  hostile: CompileSide;
  honest: CompileSide;
};

const LATE_MS = COMPILE_WALL_MS + 25_000 * SLOWNESS;

/** The limits stop the compile within the time. */
export function inTime({ compile }: ExecutionOutcome): string | null {
  const wall_ms = (compile?.wall_time_us ?? 0) / 1_000;
  return wall_ms < LATE_MS ? null : `the compile took ${wall_ms} ms`;
}
