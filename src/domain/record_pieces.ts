/**
 * The JSON of a large record in pieces, so that it never exists as a whole: an output of 4 MiB can be 25 MB of JSON. The
 * pieces together are equal to JSON.stringify(renderResult(row)), and their length is known before the first one is made.
 * They are written to memory that the caller has, so that they leave nothing to collect; only the first STEP_BYTES of outputs
 * are encoded when the record is opened. A record that comes with its row and is heavy is made in the same way, in one piece.
 *
 * UTF-8 and the escapes of JSON are encoded byte by byte, so an output may be divided anywhere.
 */
import { isUtf8 } from 'node:buffer';
import { type ResultEncoding, type ResultRow, renderTexts } from './record.ts';

/** A text of the record that is not encoded yet. */
class LateText {
  readonly bytes: Uint8Array;
  readonly base64: boolean;

  constructor(bytes: Uint8Array, base64: boolean) {
    this.bytes = bytes;
    this.base64 = base64;
  }
}

export type RecordPart = Uint8Array | LateText;

/** At most so many bytes of an output are encoded in one step. A multiple of three: base64 can then be joined. */
export const STEP_BYTES = 63 * 1024;
/** One step takes at most so much: six bytes for each, and for the rest of a character of the step before. */
export const PIECE_BYTES = 6 * (STEP_BYTES + 4);

export function recordParts(row: ResultRow, encoding: ResultEncoding): RecordPart[] {
  const base64 = encoding === 'base64';
  // The record's texts are strings only once they are encoded.
  const late = (bytes: Uint8Array) => new LateText(bytes, base64) as unknown as string;
  const parts: RecordPart[] = [];
  let room = STEP_BYTES;
  let json = '';
  const flush = () => {
    if (json !== '') parts.push(Buffer.from(json));
    json = '';
  };
  const write = (value: unknown): void => {
    if (value instanceof LateText) {
      json += '"';
      flush();
      if (value.base64 || value.bytes.length > room) parts.push(value);
      else {
        room -= value.bytes.length;
        for (const bytes of utf8Of(value.bytes)) parts.push(escaped(bytes));
      }
      json = '"';
    } else if (Array.isArray(value)) {
      json += '[';
      value.forEach((item, n) => {
        if (n > 0) json += ',';
        write(item);
      });
      json += ']';
    } else if (typeof value === 'object' && value !== null) {
      Object.entries(value).forEach(([name, item], n) => {
        json += `${n > 0 ? ',' : '{'}${JSON.stringify(name)}:`;
        write(item);
      });
      json += Object.keys(value).length > 0 ? '}' : '{}';
    } else {
      json += JSON.stringify(value);
    }
  };
  write(renderTexts(row, late));
  flush();
  return parts;
}

export function lengthOf(parts: readonly RecordPart[]): number {
  return stepsOf(parts).reduce((sum, step) => sum + lengthOfStep(step), 0);
}

export type RecordReader = {
  /** Writes the next bytes to the beginning of the target, which has room for PIECE_BYTES; 0: there are no more. */
  read(target: Uint8Array): number;
};

export function readerOf(parts: readonly RecordPart[]): RecordReader {
  const steps = stepsOf(parts);
  let next = steps.next();
  return {
    read(target) {
      let at = 0;
      while (!next.done) {
        const length = lengthOfStep(next.value);
        if (at + length > target.length) break;
        write(next.value, target.subarray(at, at + length));
        at += length;
        next = steps.next();
      }
      return at;
    },
  };
}

/** The JSON in one piece. */
export function recordJson(row: ResultRow, encoding: ResultEncoding): Uint8Array {
  const parts = recordParts(row, encoding);
  const json = Buffer.allocUnsafeSlow(lengthOf(parts));
  readerOf(parts).read(json);
  return json;
}

/** Bytes that are encoded in one go. */
type Step = { bytes: Uint8Array; as: 'is' | 'base64' | 'escaped' };

function* stepsOf(parts: readonly RecordPart[]): Generator<Step, undefined> {
  for (const part of parts) {
    if (part instanceof Uint8Array) {
      for (const bytes of cut(part)) yield { bytes, as: 'is' };
    } else if (part.base64) {
      for (const bytes of cut(part.bytes)) yield { bytes, as: 'base64' };
    } else {
      for (const bytes of utf8Of(part.bytes)) yield { bytes, as: 'escaped' };
    }
  }
}

function lengthOfStep({ bytes, as }: Step): number {
  if (as === 'is') return bytes.length;
  return as === 'base64' ? Math.ceil(bytes.length / 3) * 4 : escapedLength(bytes);
}

function write({ bytes, as }: Step, target: Uint8Array): void {
  if (as === 'base64') bufferOf(target).write(bufferOf(bytes).toString('base64'), 'latin1');
  else if (as === 'is' || target.length === bytes.length) target.set(bytes);
  else writeEscaped(bytes, target);
}

/** The text as valid UTF-8, cut without regard to characters. */
function* utf8Of(bytes: Uint8Array): Generator<Uint8Array> {
  if (isUtf8(bytes)) {
    yield* cut(bytes);
    return;
  }
  // ignoreBOM: a byte order mark that the program printed is part of its output.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  for (const step of cut(bytes)) yield Buffer.from(decoder.decode(step, { stream: true }));
  yield Buffer.from(decoder.decode());
}

function* cut(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += STEP_BYTES) yield bytes.subarray(at, at + STEP_BYTES);
}

/**
 * At once and by V8, which is several times as fast for an ordinary output. It takes each byte for a character: only characters
 * below 128 have escapes in JSON, so UTF-8 stays as it is.
 */
const escaped = (bytes: Uint8Array): Uint8Array =>
  Buffer.from(JSON.stringify(bufferOf(bytes).toString('latin1')).slice(1, -1), 'latin1');

const bufferOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);

/** What JSON.stringify writes for each byte of a text: itself, or an escape of two or six characters. */
const ESCAPES = Array.from({ length: 256 }, (_, code) =>
  JSON.stringify(String.fromCharCode(code)).slice(1, -1),
);
const LENGTHS = Uint8Array.from(ESCAPES, ({ length }) => length);
/** The last two characters of each, as one number. An escape of six characters begins with U_ESCAPE. */
const LAST_TWO = Uint16Array.from(ESCAPES, (text) =>
  Buffer.from(text.slice(-2).padStart(2), 'latin1').readUInt16BE(),
);
const U_ESCAPE = Buffer.from('\\u00').readUInt32BE();

function escapedLength(bytes: Uint8Array): number {
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) length += LENGTHS[bytes[at]!]!;
  return length;
}

/** The inner loop of every heavy record: an escape is one store, or two. */
function writeEscaped(bytes: Uint8Array, target: Uint8Array): void {
  const view = new DataView(target.buffer, target.byteOffset, target.length);
  let to = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]!;
    const length = LENGTHS[byte]!;
    if (length === 1) target[to] = byte;
    else if (length === 2) view.setUint16(to, LAST_TWO[byte]!);
    else {
      view.setUint32(to, U_ESCAPE);
      view.setUint16(to + 4, LAST_TWO[byte]!);
    }
    to += length;
  }
}
