/**
 * Whether a program's output equals the answer. Every comparison walks the bytes of both, stops at the first difference,
 * takes time in proportion to what it read, and copies nothing: an output may be 64 MiB of whatever is worst for it.
 */
import { isSpace, sameBytes } from './bytes.ts';
import { sameTokens, type TokenCompare } from './tokens.ts';

/**
 * `lines` ignores white space at the ends of lines and of the text. `exact` compares every byte. The third form compares
 * tokens (tokens.ts).
 */
export type Compare = 'lines' | 'exact' | TokenCompare;

/** `lenient` is an older word for `lines`: requests and stored submissions may have it. */
export type AcceptedCompare = Compare | 'lenient';

export function equalOutput(
  compare: AcceptedCompare,
  output: Uint8Array,
  answer: Uint8Array,
): boolean {
  if (compare === 'exact') return sameBytes(output, answer);
  if (compare === 'lines' || compare === 'lenient') return sameText(output, answer);
  return sameTokens(compare, output, answer);
}

const LINE_FEED = 0x0a;

/**
 * Equal except for white space at the ends of lines and of the text. Walks both texts together and stops at the first
 * difference, so the cost grows with the length of their common start and not with the size of the output.
 */
export function sameText(a: Uint8Array, b: Uint8Array): boolean {
  let i = 0;
  let j = 0;
  for (;;) {
    const gapA = gapAt(a, i);
    const gapB = gapAt(b, j);
    const endsA = gapA.end === a.length;
    if (endsA || gapB.end === b.length) return endsA && gapB.end === b.length;
    if (!sameGap(a, gapA, b, gapB)) return false;
    i = gapA.end;
    j = gapB.end;
    while (i < a.length && j < b.length && a[i] === b[j] && !isSpace(a[i] as number)) {
      i++;
      j++;
    }
    // Both texts go on and differ here; in every other case the next gap decides.
    if (i < a.length && j < b.length && a[i] !== b[j] && !isSpace(a[i] as number)) return false;
  }
}

/** A stretch of white space: how many lines it ends, and where the indentation of the last one begins. */
type Gap = { lines: number; indent: number; end: number };

function gapAt(text: Uint8Array, from: number): Gap {
  let end = from;
  let lines = 0;
  let indent = from;
  while (end < text.length && isSpace(text[end] as number)) {
    if (text[end] === LINE_FEED) {
      lines++;
      indent = end + 1;
    }
    end++;
  }
  return { lines, indent, end };
}

function sameGap(a: Uint8Array, gapA: Gap, b: Uint8Array, gapB: Gap): boolean {
  if (gapA.lines !== gapB.lines) return false;
  return sameBytes(a.subarray(gapA.indent, gapA.end), b.subarray(gapB.indent, gapB.end));
}
