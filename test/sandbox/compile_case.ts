/** A case of the hostile suite whose source attacks while it is compiled; see case.ts. */
import type { LanguageName as Language } from '../../src/domain/limits.ts';
import type { Verdict } from '../../src/domain/result.ts';
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import type { Host } from './case.ts';

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
