/**
 * The items of a JSON array, each as the bytes that it has in the body, found one at a time. So a large body is parsed item by
 * item, with other work between two items, and an item with a mistake says nothing about the others.
 *
 * It looks at strings, brackets and commas alone. The caller parses each item: if all are JSON, the body is.
 */
export type ItemsEnd = 'end' | 'not an array' | 'too many';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

export function* itemsOf(body: Uint8Array, at_most: number): Generator<Uint8Array, ItemsEnd> {
  let at = afterSpace(body, 0);
  if (body[at] !== 0x5b) return 'not an array';
  at = afterSpace(body, at + 1);
  if (body[at] === 0x5d) return isOver(body, at + 1);
  for (let count = 0; ; count += 1) {
    if (count === at_most) return 'too many';
    const end = endOfItem(body, at);
    if (end === body.length) return 'not an array';
    yield body.subarray(at, end);
    if (body[end] === 0x5d) return isOver(body, end + 1);
    if (body[end] !== COMMA) return 'not an array';
    at = end + 1;
  }
}

const isOver = (body: Uint8Array, at: number): ItemsEnd =>
  afterSpace(body, at) === body.length ? 'end' : 'not an array';

function afterSpace(body: Uint8Array, from: number): number {
  let at = from;
  for (; at < body.length; at += 1) {
    const byte = body[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
  }
  return at;
}

/** Where the comma or bracket is that ends the item; the length of the body if there is none. */
function endOfItem(body: Uint8Array, from: number): number {
  let depth = 0;
  let in_string = false;
  for (let at = from; at < body.length; at += 1) {
    const byte = body[at];
    if (in_string) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) in_string = false;
    } else if (byte === QUOTE) in_string = true;
    // [ and {
    else if (byte === 0x5b || byte === 0x7b) depth += 1;
    else if (byte === COMMA && depth === 0) return at;
    // ] and }
    else if (byte === 0x5d || byte === 0x7d) {
      if (depth === 0) return at;
      depth -= 1;
    }
  }
  return body.length;
}
