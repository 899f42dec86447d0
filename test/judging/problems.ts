/** The problem packages of the tests. Together they use every feature of the format that the service has. */
import { join } from 'node:path';
import type { Named } from './bare_judge.ts';

export type Problem = {
  name: string;
  /** what it is there for */
  has: string;
  /** the names of the files that its programs read and write */
  named?: Named;
  /** A submission that is moved to another folder, and the first line that says so. */
  misplaced?: { from: string; to: string; line: RegExp };
};

export const problemFolder = ({ name }: Pick<Problem, 'name'>): string =>
  join(import.meta.dirname, 'problems', name);

export const PROBLEMS: readonly Problem[] = [
  {
    name: 'sum',
    has: 'legacy: all folders, three languages, a comment that says what is expected',
    misplaced: {
      from: 'wrong_answer/narrow.cpp',
      to: 'accepted/narrow.cpp',
      line: /^secret\/02-large is WA, and should be AC$/,
    },
  },
  {
    name: 'mean',
    has: 'legacy: tolerances of numbers',
    misplaced: {
      from: 'accepted/mean.py',
      to: 'wrong_answer/mean.py',
      line: /^no test is WA$/,
    },
  },
  { name: 'yesno', has: 'legacy: case of letters' },
  { name: 'layout', has: 'legacy: white space' },
  { name: 'colour', has: '2025-09: a comparison of single tests' },
  {
    name: 'pair',
    has: 'legacy: a validator in Python with flags',
    misplaced: {
      from: 'wrong_answer/words.py',
      to: 'run_time_error/words.py',
      line: /^no test is RTE$/,
    },
  },
  {
    name: 'factor',
    has: 'legacy: a validator in C++ of three files, groups with flags of their own',
  },
  {
    name: 'guess',
    has: 'legacy: an interactor in Python',
    misplaced: {
      from: 'wrong_answer/linear.py',
      to: 'accepted/linear.py',
      line: /^sample\/1 is WA, and should be AC$/,
    },
  },
  { name: 'chat', has: '2025-09: an interactor in C++, many lines' },
  {
    name: 'code',
    has: '2025-09: several passes',
    misplaced: {
      from: 'run_time_error/second_pass.py',
      to: 'wrong_answer/second_pass.py',
      line: /^sample\/1 is RE, and should be AC or WA$/,
    },
  },
  { name: 'relay', has: '2025-09: several passes with an interactor in C++' },
  {
    name: 'stairs',
    has: 'legacy: groups, scores, a grader, a range',
    misplaced: {
      from: 'partially_accepted/all.py',
      to: 'accepted/all.py',
      line: /^sample\/1 is WA, and should be AC$/,
    },
  },
  {
    name: 'levels',
    has: '2025-09: groups that share the score and depend on each other, submissions.yaml',
    misplaced: {
      from: 'accepted/euclid.py',
      to: 'mixed/no_zero.py',
      line: /^its score is 100, and should be 50$/,
    },
  },
  { name: 'parts', has: 'legacy: programs of several files' },
  {
    name: 'cards',
    has: '2023-07: a draft with testdata.yaml; programs that read and write named files',
    named: { stdin_file: 'cards.in', stdout_file: 'cards.out' },
  },
  {
    name: 'knapsack',
    has: '2025-09: points of a validator',
    misplaced: {
      from: 'accepted/nothing.py',
      to: 'accepted/greedy.py',
      line: /^its score is 0, and should be 85$/,
    },
  },
  { name: 'words', has: '2025-09: arguments, limits' },
  {
    name: 'spell',
    has: 'legacy: as contests have it: several passes, quoted flags, time limit and settings in files of their own',
    misplaced: {
      from: 'mixed/crash.py',
      to: 'accepted/crash.py',
      line: /^sample\/1 is RE, and should be AC$/,
    },
  },
  {
    name: 'bounds',
    has: '2025-09: constants',
    misplaced: {
      from: 'wrong_answer/most.cpp',
      to: 'accepted/most.cpp',
      line: /^secret\/2 is WA, and should be AC$/,
    },
  },
];
