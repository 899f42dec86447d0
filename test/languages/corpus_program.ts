/** What the corpus of honest programs is made of. */
import type { LimitOverrides } from '../../src/domain/limits.ts';
import type { Verdict } from '../../src/domain/result.ts';

export type CorpusProgram = {
  name: string;
  code: string | Uint8Array;
  stdin?: string;
  args?: string[];
  limits?: LimitOverrides;
  verdict: Verdict;
  stdout?: string | RegExp;
  stderr?: string | RegExp;
  exit_code?: number;
  signal?: string;
};

/** Every language has programs of these names; the test runs them as it runs all others. */
export const BASICS = [
  'hello',
  'sum of stdin',
  'arguments',
  'exit code',
  'stderr',
  'runtime error',
  'UTF-8',
  'endless loop',
  'too much memory',
  'too much output',
] as const;

export const MiB = 1024 * 1024;
/** A limit that an endless program reaches soon. */
export const SHORT: LimitOverrides = { cpu_time_ms: 300 };
