import type { Test } from 'tap';

/** They have no end. */
const VOID = ['meta', 'link', 'input'];

/** Each element is closed, each attribute is quoted, each id is there once, and each link within the page leads to one. */
export function wellFormed(t: Test, html: string): void {
  const open: string[] = [];
  const wrong: string[] = [];
  const [, body] = html.split('<!doctype html>\n');
  for (const [whole, close, name = '', attributes = ''] of body!.matchAll(
    /<(\/?)([a-z0-9]*)([^>]*)>/g,
  )) {
    if (name === '' || !/^( [a-z][a-z0-9-]*="[^"<]*")*$/.test(attributes)) wrong.push(whole);
    if (VOID.includes(name)) continue;
    if (close === '') open.push(name);
    else if (open.pop() !== name) wrong.push(whole);
  }
  t.same([...wrong, ...open], []);
  const text = body!.replace(/<[^>]*>/g, '');
  t.notMatch(text, /[<>]|&(?!(amp|lt|gt|quot);)/, 'text is escaped');
  const ids = [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id!);
  t.equal(new Set(ids).size, ids.length, 'each id is there once');
  for (const [, target] of html.matchAll(/href="#([^"]*)"/g)) t.ok(ids.includes(target!), target!);
}
