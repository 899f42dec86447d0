/**
 * How a submission is judged: everything that the executor has to know beyond a plain run. It is the same whether the
 * request has the tests or names a stored set (judging_of.ts), so the executor never sees a set. Types alone.
 */
import type { LanguageName, LimitOverrides } from '../domain/limits.ts';
import type { Compare } from './compare.ts';
import type { FileRef, Group } from './test_set.ts';

/** Bytes of the request, or of a stored set. */
export type Content = { bytes: Uint8Array } | { file: FileRef };

export type Judging = {
  /** Why the request and its set do not fit together, in the words for the first test's message. */
  clash?: string;
  /** in the work folder, when it compiles and when it runs */
  files: { path: string; bytes: Uint8Array }[];
  /** null: one run, on the input and against the expected output of the order */
  tests: JudgedTest[] | null;
  groups: Group[];
  scoring: 'pass-fail' | 'score';
  /** the most runs of the program for one test */
  passes: number;
  stop: 'first' | 'never';
  /** without a checker and an interactor */
  compare: Compare;
  checker: JudgeProgram | null;
  interactor: JudgeProgram | null;
  stdin_file: string | null;
  stdout_file: string | null;
  /** patterns of the files that are kept of the work folder; empty with tests */
  outputs: string[];
  transcript: boolean;
  /** of the set; the submission's own take precedence, and a test's own over both */
  limits: LimitOverrides;
};

export type JudgedTest = {
  name: string;
  /** empty where there are no groups */
  group: string;
  input: Content;
  /** null: every output is right */
  answer: Content | null;
  /** null: those of the order */
  args: string[] | null;
  limits: LimitOverrides;
  /** instead of the judging's, where the test has its own */
  compare: Compare | null;
  /** arguments of the checker or interactor, behind its own */
  judge_args: string[];
};

/** A checker or an interactor. */
export type JudgeProgram = {
  language: LanguageName;
  /** the path of its main source, which is one of `files` */
  source: string;
  files: { path: string; content: Content }[];
  protocol: 'icpc' | 'testlib';
  /** come before the arguments of a test */
  args: string[];
  /** null: the service's own limits for checkers */
  limits: LimitOverrides | null;
};
