/**
 * tap's match compares the first items of a list only: the pattern [] is like any list, and [a] is like [a, b]. Here each list
 * of a pattern has to end where the list that was found ends.
 */
import type { Test } from 'tap';

const END = Symbol('the end of the list');

export function matchLists(
  t: Pick<Test, 'match'>,
  found: unknown,
  pattern: object,
  message = 'it matches, with the length of each list',
): boolean {
  return t.match(endedLike(pattern, found), ended(pattern), message);
}

function ended(pattern: unknown): unknown {
  if (Array.isArray(pattern)) return [...pattern.map(ended), END];
  if (!isPlain(pattern)) return pattern;
  return Object.fromEntries(Object.entries(pattern).map(([name, part]) => [name, ended(part)]));
}

/** What was found, with an end behind each list that is one in the pattern, too. */
function endedLike(pattern: unknown, found: unknown): unknown {
  if (Array.isArray(pattern) && Array.isArray(found))
    return [...found.map((item, n) => endedLike(pattern[n], item)), END];
  if (!isPlain(pattern) || typeof found !== 'object' || found === null) return found;
  const parts = Object.entries(pattern).map(([name, part]) => [
    name,
    endedLike(part, (found as Record<string, unknown>)[name]),
  ]);
  return { ...found, ...Object.fromEntries(parts) };
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
