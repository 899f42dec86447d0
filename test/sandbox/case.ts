/**
 * A case of the hostile suite is data: a claim of the form "X cannot Y because Z", a program that tries
 * Y, and an honest twin that does a similar, permitted thing. A box that denies everything fails the
 * twin; a box that allows everything fails the case.
 */
import type { LanguageName as Language, RunLimits } from '../../src/domain/limits.ts';
import type { BoxReport, Verdict } from '../../src/domain/result.ts';

export type Topic = 'bombs' | 'endings' | 'files' | 'kernel' | 'network' | 'output' | 'sharing';

/** What a program may try to learn or reach. host.ts makes it for each suite. */
export type Host = {
  /** files that every user of the host may read; their content is `secret` */
  secret_files: string[];
  secret: string;
  hostname: string;
  tcp: string[];
  unix_sockets: string[];
  /** words that would show where a box's files are on the host */
  host_words: string[];
  /** the launcher's list of system calls and their outcomes */
  calls: string;
};

export type Seen = {
  report: BoxReport;
  verdict: Verdict;
  signal: string | null;
  exit_code: number | null;
  stdout: string;
  stderr: string;
  limits: RunLimits;
};

export type Expected = {
  verdict: Verdict | readonly Verdict[];
  /** what stdout and stderr together must match */
  says?: RegExp;
  exit_code?: number;
  signal?: string;
  killed_for?: BoxReport['killed_for'];
  /** further evidence: returns what is wrong, or null */
  evidence?: (seen: Seen) => string | null;
};

export type Side = {
  program: string;
  args?: readonly string[] | ((host: Host) => readonly string[]);
  stdin?: Uint8Array | ((host: Host) => Uint8Array);
  limits?: Partial<RunLimits>;
  expected: Expected;
};

export type Case = {
  name: string;
  topic: Topic;
  claim: string;
  because: string;
  languages: readonly Language[];
  /** runs in the same slot immediately before the hostile side */
  before?: Side;
  /** runs in another slot, from before the hostile side starts until after it ends */
  beside?: Side;
  hostile: Side;
  honest: Side;
  /** does not hold, or cannot be tested, without namespaces and groups (rlimits) */
  needs_box?: boolean;
  /** holds only where the launcher can set quotas of the processors */
  needs_quota?: boolean;
};

export const CPP: readonly Language[] = ['cpp'];
export const BOTH: readonly Language[] = ['cpp', 'python'];
export const ALL: readonly Language[] = ['cpp', 'python', 'java'];
export const PYTHON: readonly Language[] = ['python'];
export const JAVA: readonly Language[] = ['java'];

type Options = Omit<Side, 'program' | 'expected'>;

/** The program ends well and says that its attempt was denied. */
export function denied(program: string, options: Options = {}): Side {
  return { program, ...options, expected: { verdict: 'AC', says: /^DENIED/m } };
}

/** The program ends well and says that the honest action worked. */
export function works(program: string, options: Options = {}): Side {
  return { program, ...options, expected: { verdict: 'AC', says: /^OK/m } };
}

export function ends(
  program: string,
  verdict: Expected['verdict'],
  options: Options & Omit<Expected, 'verdict'> = {},
): Side {
  const { says, exit_code, signal, killed_for, evidence, ...side } = options;
  const expected: Expected = { verdict };
  if (says !== undefined) expected.says = says;
  if (exit_code !== undefined) expected.exit_code = exit_code;
  if (signal !== undefined) expected.signal = signal;
  if (killed_for !== undefined) expected.killed_for = killed_for;
  if (evidence !== undefined) expected.evidence = evidence;
  return { program, ...side, expected };
}

/** The first expectation that does not hold; null: all hold. */
export function problemOf(expected: Expected, seen: Seen): string | null {
  const verdicts = Array.isArray(expected.verdict) ? expected.verdict : [expected.verdict];
  const said = seen.stdout + seen.stderr;
  const bad = said.match(/^(ESCAPED|FAILED).*$/m);
  if (bad) return `the program says: ${bad[0]}`;
  if (!verdicts.includes(seen.verdict)) return `verdict ${seen.verdict}, not ${verdicts.join('/')}`;
  if (expected.says && !expected.says.test(said))
    return `the output does not match ${expected.says}`;
  if (expected.exit_code !== undefined && expected.exit_code !== seen.exit_code)
    return `exit code ${seen.exit_code}, not ${expected.exit_code}`;
  if (expected.signal !== undefined && expected.signal !== seen.signal)
    return `signal ${seen.signal}, not ${expected.signal}`;
  if (expected.killed_for !== undefined && expected.killed_for !== seen.report.killed_for)
    return `killed for ${seen.report.killed_for}, not ${expected.killed_for}`;
  return expected.evidence?.(seen) ?? null;
}
