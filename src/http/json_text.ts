/**
 * JSON as this API reads it. JSON.parse alone lets three things through that must not pass in
 * silence: a name given twice (the last one wins), nesting without end (harmless to V8's parser,
 * not to what walks the value afterwards), and bytes that are not UTF-8 (they would become U+FFFD).
 *
 * The walk runs over text that JSON.parse has already accepted, so it need not check the grammar;
 * it takes one step per character outside strings and one search per string.
 */
import type { FieldFault } from './problem.ts';

/** A legal request nests two levels deep; the rest is room for honest mistakes to be named. */
export const DEPTH_LIMIT = 16;

/** So many are named; who makes more is not reading them. */
export const FAULTS_SHOWN = 100;

export type ParsedJson = { value: unknown; faults: FieldFault[] };

// fatal: what is not UTF-8 is a fault. ignoreBOM: a byte order mark is kept, and is then no JSON.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export function parseJson(bytes: Uint8Array): ParsedJson {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return notJson('the body is not valid UTF-8');
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return notJson('the body is not valid JSON');
  }
  return { value, faults: walk(text) };
}

function notJson(message: string): ParsedJson {
  return { value: undefined, faults: [{ path: '', message }] };
}

type Frame = { path: string; names: Set<string> | null; item: number; name: string };

function walk(text: string): FieldFault[] {
  const faults: FieldFault[] = [];
  const frames: Frame[] = [];
  let expectName = false;
  for (let at = 0; at < text.length; at += 1) {
    const frame = frames.at(-1);
    switch (text.charCodeAt(at)) {
      case 0x22: {
        const end = endOfString(text, at);
        if (expectName && frame?.names) noteName(frame, text.slice(at, end + 1), faults);
        expectName = false;
        at = end;
        break;
      }
      case 0x7b: // {
      case 0x5b: {
        // [
        const isObject = text.charCodeAt(at) === 0x7b;
        if (frames.length === DEPTH_LIMIT) {
          faults.push({ path: '', message: `the body nests deeper than ${DEPTH_LIMIT} levels` });
          return faults;
        }
        frames.push({
          path: pathWithin(frame),
          names: isObject ? new Set() : null,
          item: 0,
          name: '',
        });
        expectName = isObject;
        break;
      }
      case 0x7d: // }
      case 0x5d: // ]
        frames.pop();
        expectName = false;
        break;
      case 0x2c: // ,
        if (frame) frame.item += 1;
        expectName = frame?.names != null;
        break;
    }
  }
  return faults;
}

/** The quote that ends the string which opens at `from`: the first one behind an even number of backslashes. */
function endOfString(text: string, from: number): number {
  let end = text.indexOf('"', from + 1);
  for (;;) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes += 1;
    if (slashes % 2 === 0) return end;
    end = text.indexOf('"', end + 1);
  }
}

function noteName(frame: Frame, quoted: string, faults: FieldFault[]): void {
  const name: string = JSON.parse(quoted);
  if (frame.names!.has(name) && faults.length < FAULTS_SHOWN) {
    faults.push({ path: join(frame.path, name), message: 'is given more than once' });
  }
  frame.names!.add(name);
  frame.name = name;
}

function pathWithin(frame: Frame | undefined): string {
  if (frame === undefined) return '';
  return frame.names === null ? `${frame.path}[${frame.item}]` : join(frame.path, frame.name);
}

/** Names come from the caller: a long one is cut, so that an answer never grows with what was sent. */
export function join(path: string, name: string): string {
  const shown = (name.length > 64 ? `${name.slice(0, 64)}…` : name).toWellFormed();
  return path === '' ? shown : `${path}.${shown}`;
}
