/**
 * JSON that a stranger wrote. Two things that JSON.parse accepts are errors here: a name that an object has twice (readers
 * differ in which one counts), and nesting so deep that code which walks the value, or V8 while it parses, runs out of memory.
 * So the text is looked at before it is parsed, and need not be JSON.
 */
const MOST_DEPTH = 1000;

export class BadJson extends Error {}

export function parseStrictly(text: string): unknown {
  checkDepth(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new BadJson('it is not JSON');
  }
  // A name that an object has twice is in the text twice, and in the value once.
  if (namesIn(text) !== keysIn(value)) checkNames(text);
  return value;
}

/** How many names the objects of a JSON text have: each has a colon after it, and there is no other outside of strings. */
function namesIn(text: string): number {
  let names = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === QUOTE) at = endOfString(text, at);
    else if (char === COLON) names++;
  }
  return names;
}

function keysIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  let keys = 0;
  if (Array.isArray(value)) for (const item of value) keys += keysIn(item);
  else
    for (const key of Object.keys(value))
      keys += 1 + keysIn((value as Record<string, unknown>)[key]);
  return keys;
}

/** Throws BadJson. It takes no time for a text that is too short to be deep. */
export function checkDepth(text: string): void {
  if (text.length <= MOST_DEPTH) return;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === QUOTE) at = endOfString(text, at);
    else if (char === BRACE || char === BRACKET) {
      depth++;
      if (depth > MOST_DEPTH) throw new BadJson(`it is nested more than ${MOST_DEPTH} levels deep`);
    } else if (char === BRACE_END || char === BRACKET_END) depth--;
  }
}

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [BRACE, BRACE_END, BRACKET, BRACKET_END] = [0x7b, 0x7d, 0x5b, 0x5d];

/** Throws BadJson, which names the first name that is there twice. The text is JSON. */
function checkNames(text: string): void {
  /** The names of each object around; null for a list. */
  const around: (Set<string> | null)[] = [];
  let name_next = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === QUOTE) {
      const end = endOfString(text, at);
      const names = around.at(-1);
      if (name_next && names) addName(names, JSON.parse(text.slice(at, end + 1)) as string);
      name_next = false;
      at = end;
    } else if (char === BRACE || char === BRACKET) {
      around.push(char === BRACE ? new Set() : null);
      name_next = char === BRACE;
    } else if (char === BRACE_END || char === BRACKET_END) around.pop();
    else if (char === COMMA) name_next = around.at(-1) !== null;
  }
}

function addName(names: Set<string>, name: string): void {
  if (names.has(name)) throw new BadJson(`it has ${JSON.stringify(name)} twice in one object`);
  names.add(name);
}

/** Where the string ends that begins here; the end of the text if it does not. */
function endOfString(text: string, begin: number): number {
  for (let at = begin + 1; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === QUOTE) return at;
    if (char === BACKSLASH) at++;
  }
  return text.length;
}

/** Whether two values of JSON are equal. Numbers are doubles, and -0 is 0. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every(
      (name) =>
        Object.hasOwn(b, name) && sameJson(a[name as keyof typeof a], b[name as keyof typeof b]),
    )
  );
}
