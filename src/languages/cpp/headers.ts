/**
 * Which precompiled header a C++ source can use.
 *
 * g++ uses a precompiled header only for the first include, before any token, and only with the flags that the header
 * was compiled with. Otherwise it reads the header as text. So this file reads the includes at the start of a source,
 * and chooses the largest prepared set that contains only those, under the name of the first. The source includes the
 * whole set anyway, and no header of the system depends on their order (cpp.ts looks at files of the program's own). If the start of a source cannot be read,
 * there is no choice. A wrong choice costs only time: g++ checks the header, and the source is compiled without it.
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

/** Includes further down are not considered. */
const OPENING_BYTES = 8_192;
const BLANK = /[ \t\v\f\r\n]+/y;
const LINE_COMMENT = /\/\/[^\n]*/y;
const BLOCK_COMMENT = /\/\*[\s\S]*?\*\//y;
const INCLUDE = /#[ \t]*include[ \t]*<([A-Za-z0-9_+./-]+)>(?=[ \t\r]*(?:\n|\/\/|\/\*))/y;

/** The <headers> before the first token. Comments and white space may be between them. */
export function openingIncludes(code: Uint8Array): string[] {
  const text = new TextDecoder('latin1').decode(code.subarray(0, OPENING_BYTES));
  // A line splice or a trigraph may change the meaning of a line, so the first one ends the reading.
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
