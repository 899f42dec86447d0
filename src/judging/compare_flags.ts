/**
 * From the flags of the problem package format's default validator to a comparison: `validator_flags` and
 * `output_validator_flags` of the legacy version, `output_validator_args` of 2023-07, split into words.
 */
import { decimalFrom, isTolerance } from './decimals.ts';
import type { TokenCompare } from './tokens.ts';

export type FlagsRead =
  | { compare: TokenCompare; problem?: undefined }
  | { compare?: undefined; problem: string };

/** Which tolerances a flag sets. */
const TOLERANCES: Readonly<Record<string, readonly ('absolute' | 'relative')[]>> = {
  float_absolute_tolerance: ['absolute'],
  float_relative_tolerance: ['relative'],
  float_tolerance: ['absolute', 'relative'],
};
const WORDS = ['case_sensitive', 'space_change_sensitive', ...Object.keys(TOLERANCES)];

/**
 * A tolerance that is set twice: in the legacy version the last one counts, as in any list of arguments; in 2023-07 it is
 * an error.
 */
export function compareFromFlags(
  words: readonly string[],
  version: 'legacy' | '2023-07' = '2023-07',
): FlagsRead {
  const compare: TokenCompare = {
    by: 'tokens',
    case_sensitive: false,
    absolute: null,
    relative: null,
  };
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!;
    const tolerances = Object.hasOwn(TOLERANCES, word) ? TOLERANCES[word] : undefined;
    if (word === 'case_sensitive') compare.case_sensitive = true;
    else if (word === 'space_change_sensitive') compare.space_change_sensitive = true;
    else if (tolerances === undefined) return { problem: unknownFlag(word) };
    else {
      at++;
      const value = decimalFrom(words[at] ?? '');
      if (value === null || !isTolerance(value)) return { problem: noTolerance(word, words[at]) };
      for (const name of tolerances) {
        if (compare[name] !== null && version !== 'legacy') {
          return { problem: `${word} sets the ${name} tolerance a second time` };
        }
        compare[name] = value;
      }
    }
  }
  return { compare };
}

function unknownFlag(word: string): string {
  return `${shown(word)} is not a flag of the default validator; the flags are ${WORDS.join(', ')}`;
}

function noTolerance(flag: string, value: string | undefined): string {
  if (value === undefined) return `${flag} needs a number behind it`;
  return `${flag} ${shown(value)}: a tolerance is a decimal number from 0 to 1e308`;
}

/** In quotes and on one line, however long it is. */
const shown = (word: string) => JSON.stringify(word.length > 64 ? `${word.slice(0, 64)}…` : word);
