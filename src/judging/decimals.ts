/**
 * Numbers in a text, and their exact difference.
 *
 * A number has the grammar of the problem package format: an optional sign; digits, with at most one point among, before or
 * behind them; and an optional exponent (`e` or `E`, an optional sign, digits). At least one digit is outside the exponent.
 * So `5.`, `.5`, `+007` and `1E-9` are numbers. Hexadecimal numbers, `nan`, `inf`, `1_000` and `1,5` are not, and neither is
 * a token whose exponent is beyond ±1,000,000,000. Tokens that are not numbers are compared as text.
 *
 * A number may have any count of digits, and every digit counts. Nothing is rounded to a double, so 9007199254740993 and
 * 9007199254740992 differ by one. A tolerance is rounded to 14 significant digits.
 *
 * `signOfSum` adds up decimals from the highest digit down and stops as soon as the digits that it has not read cannot
 * change the sign any more. It takes one step for each digit at most, and its sum stays below 2^53.
 */
import { isSpace } from './bytes.ts';

const PLUS = 0x2b;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const EXPONENT = 0x65;
const LARGEST_EXPONENT = 1_000_000_000;

/** A number that starts somewhere in `text`. */
export type Decimal = {
  text: Uint8Array;
  negative: boolean;
  /** its first digit that is not 0; `to` where there is none */
  from: number;
  /** behind its last digit */
  to: number;
  /** the power of ten that the digit at `from` counts */
  place: number;
  /** behind its token */
  end: number;
};

/** The number that the token at `start` is; null where it is none. */
export function decimalAt(text: Uint8Array, start: number): Decimal | null {
  const negative = text[start] === MINUS;
  let at = negative || text[start] === PLUS ? start + 1 : start;
  const digits_start = at;
  let from = -1;
  let point = -1;
  for (; at < text.length; at++) {
    const byte = text[at]!;
    if (byte === POINT && point === -1) point = at;
    else if (!isDigit(byte)) break;
    else if (byte !== ZERO && from === -1) from = at;
  }
  const to = at;
  const digits = to - digits_start - (point === -1 ? 0 : 1);
  if (digits === 0) return null;
  const exponent = exponentAt(text, at);
  if (exponent === null) return null;
  const units = point === -1 ? to : point;
  const { end } = exponent;
  if (from === -1) return { text, negative, from: to, to, place: 0, end };
  const place = exponent.value + (from < units ? units - from - 1 : units - from);
  return { text, negative, from, to, place, end };
}

/** The exponent at the end of a number, 0 if the token ends there; null where something else follows. */
function exponentAt(text: Uint8Array, start: number): { value: number; end: number } | null {
  let at = start;
  if (at === text.length || isSpace(text[at]!)) return { value: 0, end: at };
  if ((text[at]! | 0x20) !== EXPONENT) return null;
  at++;
  const negative = text[at] === MINUS;
  if (negative || text[at] === PLUS) at++;
  const digits_start = at;
  let value = 0;
  for (; at < text.length && isDigit(text[at]!); at++) {
    value = Math.min(value * 10 + text[at]! - ZERO, LARGEST_EXPONENT + 1);
  }
  const is_token = at === text.length || isSpace(text[at]!);
  if (at === digits_start || !is_token || value > LARGEST_EXPONENT) return null;
  return { value: negative ? -value : value, end: at };
}

const isDigit = (byte: number) => byte >= ZERO && byte <= ZERO + 9;

/** value × 10^place, with a whole value below 10^14 */
type Scaled = { value: number; place: number };

export type Tolerance = { absolute: Scaled | null; relative: Scaled | null };

export function toleranceOf(asked: {
  absolute: number | null;
  relative: number | null;
}): Tolerance | null {
  if (asked.absolute === null && asked.relative === null) return null;
  return { absolute: scaled(asked.absolute), relative: scaled(asked.relative) };
}

/** A word that is a number, as a double; null where it is none, or too large for a double. */
export function decimalFrom(word: string): number | null {
  const decimal = decimalAt(Buffer.from(word), 0);
  if (decimal === null || decimal.end !== Buffer.byteLength(word)) return null;
  return Number.isFinite(Number(word)) ? Number(word) : null;
}

/** A tolerance is a finite number that is not negative. */
export const isTolerance = (value: number): boolean => Number.isFinite(value) && value >= 0;

const TOLERANCE_DIGITS = 14;

function scaled(tolerance: number | null): Scaled | null {
  if (tolerance === null) return null;
  const [digits, exponent] = tolerance.toExponential(TOLERANCE_DIGITS - 1).split('e') as [
    string,
    string,
  ];
  return {
    value: Number(digits.replace('.', '')),
    place: Number(exponent) - TOLERANCE_DIGITS + 1,
  };
}

/** Whether the two differ by at most the absolute tolerance, or by at most the relative one times the answer's magnitude. */
export function within(
  { absolute, relative }: Tolerance,
  given: Decimal,
  answer: Decimal,
): boolean {
  const side = signOfSum([termOf(given, 1), termOf(answer, -1)]);
  if (side === 0) return true;
  const isAllowed = (allowed: Term) =>
    signOfSum([termOf(given, side), termOf(answer, -side), allowed]) <= 0;
  if (absolute !== null && isAllowed(constantTerm(absolute))) return true;
  return relative !== null && isAllowed(shareOf(answer, relative));
}

/** `weight` times the digits of `text` from `at` to `to`, the first of which counts 10^place. */
type Term = { text: Uint8Array; at: number; to: number; place: number; weight: number };

function termOf({ text, from, to, place, negative }: Decimal, weight: number): Term {
  return { text, at: from, to, place, weight: negative ? -weight : weight };
}

const ONE = Uint8Array.of(ZERO + 1);

function constantTerm({ value, place }: Scaled): Term {
  return { text: ONE, at: 0, to: 1, place, weight: -value };
}

function shareOf({ text, from, to, place }: Decimal, share: Scaled): Term {
  return { text, at: from, to, place: place + share.place, weight: -share.value };
}

/** -1, 0 or 1. The terms are used up. */
function signOfSum(terms: Term[]): number {
  // At any place the digits below it add up to less than this, counted in units of that place.
  const bound = terms.reduce((sum, { weight }) => sum + Math.abs(weight), 0);
  let place = 0;
  let sum = 0;
  for (;;) {
    const highest = highestPlace(terms);
    if (highest === null) return Math.sign(sum);
    // While nothing is summed up, places without digits are skipped. Otherwise the bound is met within 15 of them.
    if (sum === 0) place = highest;
    else {
      place--;
      sum *= 10;
    }
    for (const term of terms) {
      if (term.place === place && term.at < term.to) sum += term.weight * takeDigit(term);
    }
    if (Math.abs(sum) >= bound) return Math.sign(sum);
  }
}

function highestPlace(terms: Term[]): number | null {
  let highest: number | null = null;
  for (const { at, to, place } of terms) {
    if (at < to && (highest === null || place > highest)) highest = place;
  }
  return highest;
}

function takeDigit(term: Term): number {
  const digit = term.text[term.at]! - ZERO;
  term.at++;
  if (term.text[term.at] === POINT) term.at++;
  term.place--;
  return digit;
}
