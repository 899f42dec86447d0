/** The arguments of the format's default output validator, as a comparison of ours with the same meaning. */
import type { Compare } from '../compare.ts';
import { toNumber } from './settings.ts';

/** `wrong` makes the error of the place that has the arguments. */
export function compareOf(args: readonly string[], wrong: (problem: string) => Error): Compare {
  const given = new Map<string, number>();
  const rest = [...args];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (given.has(word)) throw wrong(`${word} is given twice`);
    given.set(word, TOLERANCES.includes(word) ? toleranceOf(word, rest.shift(), wrong) : 0);
    if (!TOLERANCES.includes(word) && !SWITCHES.includes(word)) {
      throw wrong(`${word} is no argument of the default validator`);
    }
  }
  const both = given.get('float_tolerance') ?? null;
  const absolute = given.get('float_absolute_tolerance') ?? null;
  const relative = given.get('float_relative_tolerance') ?? null;
  if (both !== null && (absolute !== null || relative !== null)) {
    throw wrong('float_tolerance excludes the other tolerances');
  }
  const tolerances = { absolute: both ?? absolute, relative: both ?? relative };
  const case_sensitive = given.has('case_sensitive');
  if (!given.has('space_change_sensitive')) return { by: 'tokens', case_sensitive, ...tolerances };
  // The same tokens with the same space between them are the same bytes.
  const same_tokens =
    tolerances.absolute === null && tolerances.relative === null && case_sensitive;
  if (same_tokens) return 'exact';
  throw wrong(
    'space_change_sensitive is supported only with case_sensitive and without tolerances',
  );
}

const SWITCHES = ['case_sensitive', 'space_change_sensitive'];
const TOLERANCES = ['float_tolerance', 'float_absolute_tolerance', 'float_relative_tolerance'];

function toleranceOf(
  word: string,
  text: string | undefined,
  wrong: (problem: string) => Error,
): number {
  const tolerance = toNumber(text ?? '');
  if (tolerance === null || tolerance < 0)
    throw wrong(`${word} needs a number that is not negative`);
  return tolerance;
}
