/**
 * Compares token by token, as the default validator of the problem package format does. ASCII white space separates tokens.
 * Two tokens are equal if their bytes are equal; if `case_sensitive` is false, the case of ASCII letters is ignored. With a
 * tolerance, two tokens that are both numbers (decimals.ts) are also equal if they differ by at most `absolute`, or by at
 * most `relative` times the answer's magnitude. Without a tolerance, `1` and `1.0` are different tokens.
 */
import { isSpace, sameBytes } from './bytes.ts';
import { decimalAt, type Tolerance, toleranceOf, within } from './decimals.ts';

export type TokenCompare = {
  by: 'tokens';
  case_sensitive: boolean;
  /** null: no such tolerance */
  absolute: number | null;
  relative: number | null;
  /** The white space between, before and behind the tokens has to be the same, too. */
  space_change_sensitive?: true;
};

export function sameTokens(how: TokenCompare, output: Uint8Array, answer: Uint8Array): boolean {
  const tolerance = toleranceOf(how);
  const letter = how.case_sensitive ? asItIs : lowerCase;
  let i = 0;
  let j = 0;
  for (;;) {
    const output_token = tokenAfter(output, i);
    const answer_token = tokenAfter(answer, j);
    if (how.space_change_sensitive) {
      const gap = output.subarray(i, output_token);
      if (!sameBytes(gap, answer.subarray(j, answer_token))) return false;
    }
    const ends = output_token === output.length;
    if (ends || answer_token === answer.length) return ends && answer_token === answer.length;
    i = output_token;
    j = answer_token;
    while (!isEnd(output, i) && !isEnd(answer, j) && letter(output[i]!) === letter(answer[j]!)) {
      i++;
      j++;
    }
    if (isEnd(output, i) && isEnd(answer, j)) continue;
    const ends_of_numbers = sameNumbers(tolerance, output, output_token, answer, answer_token);
    if (ends_of_numbers === null) return false;
    [i, j] = ends_of_numbers;
  }
}

/** Where the two tokens end, if both are numbers and differ by no more than the tolerance. */
function sameNumbers(
  tolerance: Tolerance | null,
  output: Uint8Array,
  output_token: number,
  answer: Uint8Array,
  answer_token: number,
): [number, number] | null {
  if (tolerance === null) return null;
  const expected = decimalAt(answer, answer_token);
  if (expected === null) return null;
  const given = decimalAt(output, output_token);
  if (given === null || !within(tolerance, given, expected)) return null;
  return [given.end, expected.end];
}

function tokenAfter(text: Uint8Array, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text[at]!)) at++;
  return at;
}

const isEnd = (text: Uint8Array, at: number) => at === text.length || isSpace(text[at]!);

const asItIs = (byte: number) => byte;
const lowerCase = (byte: number) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte);
