/**
 * The log as one file (AUDIT.md has the format): a first line, records, and at the end a digest of everything before it. A
 * record is its kind in one byte, the length of its body in four bytes, big endian, and the body. Written and read as a
 * stream.
 */
import { createHash } from 'node:crypto';
import { HASH_BYTES } from './merkle.ts';

export const EXPORT_FIRST_LINE = 'runledger export 1\n';

export const KINDS = { entry: 'E', gap: 'G', checkpoint: 'C', sketch: 'S', end: 'Z' } as const;
export type RecordKind = keyof typeof KINDS;
const byByte = new Map(
  Object.entries(KINDS).map(([kind, letter]) => [letter.charCodeAt(0), kind as RecordKind]),
);

const HEAD_BYTES = 5;
/** An event has facts of some kilobytes. A longer record is no record. */
const MOST_BYTES = 2 ** 24;

export class BadExport extends Error {}

export type ExportRecord = { readonly kind: RecordKind; readonly body: Buffer };

export class ExportWriter {
  readonly #write: (bytes: Buffer) => Promise<void>;
  readonly #digest = createHash('sha256');
  #chunks: Buffer[] = [];
  #waiting = 0;
  bytes = 0;

  constructor(write: (bytes: Buffer) => Promise<void>) {
    this.#write = write;
    this.#add(Buffer.from(EXPORT_FIRST_LINE));
  }

  async put(kind: RecordKind, ...body: Uint8Array[]): Promise<void> {
    const head = Buffer.alloc(HEAD_BYTES, KINDS[kind]);
    head.writeUInt32BE(
      body.reduce((sum, { length }) => sum + length, 0),
      1,
    );
    this.#add(head, ...body);
    if (this.#waiting > 2 ** 18) await this.#flush();
  }

  /** Returns the digest of the file up to its last record. */
  async end(): Promise<string> {
    await this.#flush();
    const digest = this.#digest.copy().digest();
    await this.put('end', digest);
    await this.#flush();
    return digest.toString('hex');
  }

  #add(...parts: Uint8Array[]): void {
    for (const part of parts) {
      this.#chunks.push(Buffer.from(part));
      this.#waiting += part.length;
    }
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#waiting = 0;
    this.bytes += bytes.length;
    this.#digest.update(bytes);
    await this.#write(bytes);
  }
}

/** The records up to the end. Throws BadExport for a file that is not one, was cut off, or was changed by accident. */
export async function* readExport(file: AsyncIterable<Buffer>): AsyncGenerator<ExportRecord[]> {
  const digest = createHash('sha256');
  let rest: Buffer = Buffer.alloc(0);
  let begun = false;
  let ended = false;
  for await (const chunk of file) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    if (!begun) {
      if (bytes.length < EXPORT_FIRST_LINE.length) {
        rest = bytes;
        continue;
      }
      at = EXPORT_FIRST_LINE.length;
      if (bytes.toString('latin1', 0, at) !== EXPORT_FIRST_LINE)
        throw new BadExport(`its first line is not ${EXPORT_FIRST_LINE.trim()}`);
      begun = true;
      digest.update(bytes.subarray(0, at));
    }
    const records: ExportRecord[] = [];
    const from = at;
    let end = from;
    for (;;) {
      if (at + HEAD_BYTES > bytes.length) break;
      if (ended) throw new BadExport('it goes on after its end');
      const kind = byByte.get(bytes[at]!);
      const length = bytes.readUInt32BE(at + 1);
      if (!kind || length > MOST_BYTES) throw new BadExport(`byte ${at} begins no record`);
      if (at + HEAD_BYTES + length > bytes.length) break;
      const body = bytes.subarray(at + HEAD_BYTES, at + HEAD_BYTES + length);
      if (kind === 'end') {
        digest.update(bytes.subarray(from, at));
        if (!digest.digest().equals(body))
          throw new BadExport('its digest is not that of its bytes');
        ended = true;
      } else records.push({ kind, body });
      at += HEAD_BYTES + length;
      if (!ended) end = at;
    }
    if (!ended) digest.update(bytes.subarray(from, end));
    else if (at < bytes.length) throw new BadExport('it goes on after its end');
    if (records.length > 0) yield records;
    rest = bytes.subarray(at);
  }
  if (!ended) throw new BadExport('it was cut off');
}

/** The body of a gap: the partition's name after its length in one byte, and the hashes of its leaves. */
export function gapBody(partition: string, hashes: Buffer): Uint8Array[] {
  const name = Buffer.from(partition);
  return [Buffer.of(name.length), name, hashes];
}

export function parseGap(body: Buffer): { partition: string; hashes: Buffer } {
  const end = 1 + (body[0] ?? 0);
  const hashes = body.subarray(end);
  if (end > body.length || hashes.length === 0 || hashes.length % HASH_BYTES !== 0)
    throw new BadExport('a gap has no hashes');
  return { partition: body.toString('utf8', 1, end), hashes };
}

const SIGNATURE_BYTES = 64;

/** The body of a sketch: its signature, and its cells. */
export function parseSketch(body: Buffer): { cells: Buffer; signature: Buffer } {
  if (body.length <= SIGNATURE_BYTES) throw new BadExport('a sketch has no cells');
  return {
    signature: body.subarray(0, SIGNATURE_BYTES),
    cells: body.subarray(SIGNATURE_BYTES),
  };
}
