/** A mutant: a small fault in the code that a test must notice. */
export type Mutant = {
  readonly file: string;
  /** Occurs exactly once in the file; a piece of code and not of a comment. */
  readonly find: string;
  readonly replace: string;
  /** What must fail: a test file, or a blank and the text of one of its rules behind it (RUNLEDGER_TEST_ONLY). */
  readonly tests: readonly string[];
  /** The rule that the change breaks. */
  readonly why: string;
};

type Change = readonly [why: string, find: string, replace: string];

/** The mutants of one file that the same tests must notice. */
export const inFile = (
  file: string,
  tests: string | readonly string[],
  ...changes: readonly Change[]
): Mutant[] =>
  changes.map(([why, find, replace]) => ({ file, find, replace, why, tests: [tests].flat() }));
