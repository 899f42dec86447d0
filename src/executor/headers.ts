/**
 * Which precompiled header a C++ source can use.
 *
 * The compiler takes one only where it stands for the first include, before any token, and where the
 * flags are those it was made with; else it silently reads the header. So the includes that a source
 * opens with are read here, and the largest prepared set that lies wholly within them is offered
 * under the name of the first: what it brings would have been included anyway, with nothing between
 * that could tell the order. A source whose opening cannot be read so is offered none, and a wrong
 * guess costs speed alone: the compiler checks again, and what it refuses is compiled without.
 */

/** The largest first. Each costs a few hundred milliseconds once and 20 to 100 MB of disk. */
export const HEADER_SETS: readonly (readonly string[])[] = [
  ['bits/stdc++.h'],
  ['iostream', 'vector', 'string', 'algorithm', 'map', 'set', 'queue'],
  ['iostream', 'vector', 'string', 'algorithm'],
  ['iostream', 'vector', 'algorithm'],
  ['iostream', 'vector', 'string'],
  ['iostream', 'vector'],
  ['iostream'],
];

export type HeaderChoice = { set: readonly string[]; first: string };

export function chooseHeaders(
  code: Uint8Array,
  ready: readonly (readonly string[])[],
): HeaderChoice | null {
  const opening = openingIncludes(code);
  const first = opening[0];
  if (first === undefined) return null;
  const included = new Set(opening);
  const fits = (set: readonly string[]) =>
    set.includes(first) && set.every((header) => included.has(header));
  const set = ready.find(fits);
  return set === undefined ? null : { set, first };
}

/** No program opens with more than this before its includes have ended. */
const OPENING_BYTES = 8_192;
const BLANK = /[ \t\v\f\r\n]+/y;
const LINE_COMMENT = /\/\/[^\n]*/y;
const BLOCK_COMMENT = /\/\*[\s\S]*?\*\//y;
const INCLUDE = /#[ \t]*include[ \t]*<([A-Za-z0-9_+./-]+)>(?=[ \t\r]*(?:\n|\/\/|\/\*))/y;

/** The <headers> that come before anything else; comments and white space are nothing. */
export function openingIncludes(code: Uint8Array): string[] {
  const text = new TextDecoder('latin1').decode(code.subarray(0, OPENING_BYTES));
  // Line splices and trigraphs would have to be undone first, as the compiler does.
  const safe = /\\[ \t\v\f\r]*\n|\?\?/.exec(text);
  const end = safe === null ? text.length : safe.index;
  const headers: string[] = [];
  let at = 0;
  const skip = (pattern: RegExp) => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null || pattern.lastIndex > end) return null;
    at = pattern.lastIndex;
    return match;
  };
  for (;;) {
    if (skip(BLANK) || skip(LINE_COMMENT) || skip(BLOCK_COMMENT)) continue;
    const include = skip(INCLUDE);
    if (include?.[1] === undefined) return headers;
    headers.push(include[1]);
  }
}
