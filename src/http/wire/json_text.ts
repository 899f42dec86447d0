/**
 * JSON as this API reads it. Five things that JSON.parse accepts silently are errors here: a name given twice (the last
 * one would win), unbounded nesting (harmless to V8's parser, not to code that walks the value afterwards), bytes
 * that are not UTF-8 (they would become U+FFFD), and objects of very many names and very many values (to parse or to walk them
 * would hold all others up).
 *
 * The text is walked first, and its grammar is left to JSON.parse. The walk takes one step per character outside strings and
 * one search per string. Of text that is not JSON it finds nothing that is used, but for too many names or values.
 */
import type { FieldError } from './problem.ts';

/** A legal request nests two levels deep; below the limit an honest mistake still gets an error that names it. */
export const DEPTH_LIMIT = 16;

/** No object of a request has a tenth of it. */
export const NAMES_LIMIT = 1_000;

/** A legal request has less than half of it: 256 tests with 64 arguments each, and what is beside them. */
export const VALUES_LIMIT = 50_000;

/** The most errors of one submission that an answer names, alone or in a batch. */
export const ERRORS_SHOWN = 100;

/** `value` is undefined if the text is not JSON, or has not been parsed. */
export type ParsedJson = { value: unknown; errors: FieldError[]; not_parsed?: true };

// fatal: throw for bytes that are not UTF-8. ignoreBOM: keep a byte order mark, so that it can be named.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const BYTE_ORDER_MARK = '\uFEFF';

export function parseJson(bytes: Uint8Array): ParsedJson {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return notJson('the body is not valid UTF-8');
  }
  if (text.startsWith(BYTE_ORDER_MARK))
    return notJson('the body begins with a byte order mark: send it without');
  try {
    const { errors, stopped } = walk(text);
    return stopped
      ? { value: undefined, errors, not_parsed: true }
      : { value: JSON.parse(text), errors };
  } catch {
    return notJson('the body is not valid JSON');
  }
}

function notJson(message: string): ParsedJson {
  return { value: undefined, errors: [{ path: '', message }] };
}

type Frame = { path: string; names: Set<string> | null; item: number; name: string };

function walk(text: string): { errors: FieldError[]; stopped: boolean } {
  const errors: FieldError[] = [];
  const frames: Frame[] = [];
  let expectName = false;
  /** At least as many as there are: each begins the text, or follows a bracket or a comma. */
  let values = 1;
  for (let at = 0; at < text.length; at += 1) {
    const frame = frames.at(-1);
    if (values > VALUES_LIMIT) return { errors: [TOO_MANY_VALUES], stopped: true };
    switch (text.charCodeAt(at)) {
      case 0x22: {
        const end = endOfString(text, at);
        if (expectName && frame?.names) {
          noteName(frame, text.slice(at, end + 1), errors);
          if (frame.names.size > NAMES_LIMIT) {
            const message = `has more than ${NAMES_LIMIT} names`;
            return { errors: [{ path: frame.path, message }], stopped: true };
          }
        }
        expectName = false;
        at = end;
        break;
      }
      case 0x7b: // {
      case 0x5b: {
        // [
        const isObject = text.charCodeAt(at) === 0x7b;
        if (frames.length === DEPTH_LIMIT) {
          errors.push({ path: '', message: `the body nests deeper than ${DEPTH_LIMIT} levels` });
          return { errors, stopped: hasTooMuch(text, at) };
        }
        values += 1;
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
        values += 1;
        if (frame) frame.item += 1;
        expectName = frame?.names != null;
        break;
    }
  }
  return { errors, stopped: false };
}

const TOO_MANY_VALUES: FieldError = {
  path: '',
  message: `has more than ${VALUES_LIMIT} values`,
};

/** , [ { */
const BEFORE_VALUES = new Set([0x2c, 0x5b, 0x7b]);

/** Whether the text from `from` on has too many names or values. Names are counted for all objects together. */
function hasTooMuch(text: string, from: number): boolean {
  let names = 0;
  let values = 0;
  for (let at = from; at < text.length; at += 1) {
    const character = text.charCodeAt(at);
    if (character === 0x22) at = endOfString(text, at);
    else if (character === 0x3a) names += 1;
    else if (BEFORE_VALUES.has(character)) values += 1;
    if (names > NAMES_LIMIT || values > VALUES_LIMIT) return true;
  }
  return false;
}

/**
 * The closing quote of the string that opens at `from`: the first one after an even number of backslashes. The end of the
 * text, which is no JSON then, if there is none.
 */
function endOfString(text: string, from: number): number {
  let end = text.indexOf('"', from + 1);
  for (;;) {
    if (end === -1) return text.length;
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes += 1;
    if (slashes % 2 === 0) return end;
    end = text.indexOf('"', end + 1);
  }
}

function noteName(frame: Frame, quoted: string, errors: FieldError[]): void {
  const name: string = JSON.parse(quoted);
  if (frame.names!.has(name) && errors.length < ERRORS_SHOWN) {
    errors.push({ path: join(frame.path, name), message: 'is given more than once' });
  }
  frame.names!.add(name);
  frame.name = name;
}

function pathWithin(frame: Frame | undefined): string {
  if (frame === undefined) return '';
  return frame.names === null ? `${frame.path}[${frame.item}]` : join(frame.path, frame.name);
}

/** Names come from the caller: a long one is cut, so that an answer does not grow with the request. */
export function join(path: string, name: string): string {
  const shown = (name.length > 64 ? `${name.slice(0, 64)}…` : name).toWellFormed();
  return path === '' ? shown : `${path}.${shown}`;
}
