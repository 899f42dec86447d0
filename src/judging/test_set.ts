/**
 * A stored, immutable list of tests, with all that decides how a program is judged on them. Plain data: it goes through
 * JSON unchanged. Bytes lie apart, once for each content, and are named by their hash.
 */
import type { LanguageName, LimitOverrides } from '../domain/limits.ts';
import type { Compare } from './compare.ts';
import type { JudgedGroup } from './groups.ts';

export type TestSet = {
  name: string;
  /** in the order in which they run */
  tests: SetTest[];
  /** A parent comes before its children. */
  groups: Group[];
  limits: LimitOverrides;
  /** without a checker and an interactor */
  compare: Compare;
  checker: SetProgram | null;
  interactor: SetProgram | null;
  /** the most runs of the program for one test; 1 unless the set is multi-pass */
  passes: number;
  scoring: 'pass-fail' | 'score';
};

export type SetTest = {
  /** unique in the set */
  name: string;
  group: string;
  input: FileRef;
  answer: FileRef;
  /** arguments of the program */
  args?: string[];
  /** instead of the set's, where the test has its own */
  compare?: Compare;
  /** arguments of the checker or interactor instead of the group's, where the test has its own */
  checker_args?: string[];
};

export type FileRef = { sha256: string; size: number };

/** A checker or an interactor. */
export type SetProgram = {
  language: LanguageName;
  /** the path of the main source file; it is one of `files` */
  source: string;
  files: { path: string; file: FileRef }[];
  protocol: 'icpc' | 'testlib';
  /** come before the arguments of a group or test */
  args: string[];
  /** Absent: the service's own limits for checkers. */
  limits?: LimitOverrides;
};

export type Group = JudgedGroup & {
  /** arguments of the checker or interactor */
  args: string[];
};
