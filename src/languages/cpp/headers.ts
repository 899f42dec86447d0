/**
 * Which precompiled header a C++ source can use.
 *
 * g++ takes a precompiled header only where it stands for the first include, before any token, and
 * where the flags are those it was compiled with; otherwise it reads the header as text. So this file
 * reads the includes that a source opens with, and offers the largest prepared set that lies wholly
 * within them, under the name of the first: the source includes all of the set anyway, with nothing
 * between that depends on the order. A source whose opening cannot be read is offered none. A wrong
 * guess costs only time: g++ checks again, and what it rejects is compiled without.
 */

export type HeaderSet = readonly string[];

/** The largest first. Each costs a few hundred milliseconds once, and 20 to 100 MB of disk. */
export const HEADER_SETS: readonly HeaderSet[] = [
  ['bits/stdc++.h'],
  ['iostream', 'vector', 'string', 'algorithm', 'map', 'set', 'queue'],
  ['iostream', 'vector', 'string', 'algorithm'],
  ['iostream', 'vector', 'algorithm'],
  ['iostream', 'vector', 'string'],
  ['iostream', 'vector'],
  ['iostream'],
];

export type HeaderChoice = { set: HeaderSet; first: string };

export function chooseHeaders(code: Uint8Array, ready: readonly HeaderSet[]): HeaderChoice | null {
  const opening = openingIncludes(code);
  const first = opening[0];
  if (first === undefined) return null;
  const included = new Set(opening);
  const fits = (set: HeaderSet) =>
    set.includes(first) && set.every((header) => included.has(header));
  const set = ready.find(fits);
  return set === undefined ? null : { set, first };
}

/** Includes that stand further down are not looked for. */
const OPENING_BYTES = 8_192;
const BLANK = /[ \t\v\f\r\n]+/y;
const LINE_COMMENT = /\/\/[^\n]*/y;
const BLOCK_COMMENT = /\/\*[\s\S]*?\*\//y;
const INCLUDE = /#[ \t]*include[ \t]*<([A-Za-z0-9_+./-]+)>(?=[ \t\r]*(?:\n|\/\/|\/\*))/y;

/** The <headers> that come before any token; comments and white space may stand between them. */
export function openingIncludes(code: Uint8Array): string[] {
  const text = new TextDecoder('latin1').decode(code.subarray(0, OPENING_BYTES));
  // A line splice or a trigraph may change what a line means: nothing behind the first one is read.
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
