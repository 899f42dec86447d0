/**
 * The file of a backup: gzip over lines of JSON and the bytes of tables.
 *
 *   {"format": "runledger backup 1", …}          what it is a backup of
 *   {"table": "runledger.events_2026_11", …}     for each table: its name and columns,
 *   [length, 4 bytes][bytes] … [0]               and then its rows, as PostgreSQL's binary COPY sends them
 *   {"sequences": {…}}
 *   {"sha256": "…"}                              of everything before
 *
 * A file that was cut off or changed has no such end. A reader keeps no more than a chunk of a file, also of a forged one.
 */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { link, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { Fault } from '../fault.ts';

export const FORMAT = 'runledger backup 1';

const LENGTH_BYTES = 4;
const MAX_LINE_BYTES = 2 ** 20;
/** Rows are gathered up to this size: compressing each on its own would take far longer. */
const CHUNK_BYTES = 2 ** 16;
const NEWLINE = 0x0a;

export type Parts = AsyncIterable<Buffer>;

export const line = (value: object): Buffer => Buffer.from(`${JSON.stringify(value)}\n`);

/** The rows of a table as frames, with their end. */
export async function* framed(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let gathered: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    gathered.push(chunk);
    bytes += chunk.length;
    if (bytes < CHUNK_BYTES) continue;
    yield* frames(Buffer.concat(gathered));
    gathered = [];
    bytes = 0;
  }
  yield* frames(Buffer.concat(gathered));
  yield lengthOf(0);
}

function* frames(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    const chunk = bytes.subarray(at, at + CHUNK_BYTES);
    yield lengthOf(chunk.length);
    yield chunk;
  }
}

function lengthOf(bytes: number): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(bytes);
  return length;
}

/** Writes beside the path, and puts the file there when it is complete and on the disk. Never replaces a file. */
export async function writeBackup(path: string, parts: Parts): Promise<number> {
  if (existsSync(path)) throw exists(path);
  const folder = dirname(path);
  if (!existsSync(folder))
    throw new Fault(`the folder ${folder} does not exist`, 'make it, or choose another one');
  const making = `${path}.${process.pid}`;
  try {
    const file = createWriteStream(making, { flags: 'wx', mode: 0o600, flush: true });
    await pipeline(withDigest(parts), createGzip({ level: 1 }), file);
    await putThere(making, path);
    return file.bytesWritten;
  } finally {
    await rm(making, { force: true });
  }
}

const exists = (path: string) =>
  new Fault(`${path} exists already, and a backup replaces no file`, 'choose another name');

/** Unlike rename, a link replaces no file. Not every file system has links: there the name is taken first, by an empty file. */
async function putThere(from: string, to: string): Promise<void> {
  const taken = (error: NodeJS.ErrnoException) => error.code === 'EEXIST';
  const takeName = async () => {
    await writeFile(to, '', { flag: 'wx', mode: 0o600 });
    await rename(from, to).catch(async (error) => {
      await rm(to, { force: true });
      throw error;
    });
  };
  await link(from, to)
    .catch((error) => (taken(error) ? Promise.reject(error) : takeName()))
    .catch((error) => Promise.reject(taken(error) ? exists(to) : error));
}

async function* withDigest(parts: Parts): AsyncGenerator<Buffer> {
  const digest = createHash('sha256');
  for await (const part of parts) {
    digest.update(part);
    yield part;
  }
  yield line({ sha256: digest.digest('hex') });
}

export const damaged = (what: string) =>
  new Fault(`the backup is damaged: ${what}`, 'use another copy of it');

export const notABackup = (path: string) =>
  new Fault(
    `${path} is not a backup`,
    '`./runledger backup FILE` makes one; `pg_restore` reads those of `pg_dump`',
  );

/** Reads the parts in their order. */
export class BackupReader {
  readonly #bytes: AsyncIterator<Buffer>;
  readonly #close: () => void;
  readonly #digest = createHash('sha256');
  readonly #path: string;
  #rest: Buffer = Buffer.alloc(0);

  constructor(path: string) {
    this.#path = path;
    const file = createReadStream(path);
    const unpacked = createGunzip();
    file.once('error', (error) => unpacked.destroy(error));
    this.#bytes = file.pipe(unpacked)[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    this.#close = () => {
      file.destroy();
      unpacked.destroy();
    };
  }

  close(): void {
    this.#close();
  }

  /** The next line. */
  async line(): Promise<Record<string, unknown>> {
    const bytes = await this.#line();
    this.#digest.update(bytes);
    return parsed(bytes);
  }

  /** The rows of the table whose line was read last. */
  async *chunks(): AsyncGenerator<Buffer> {
    for (;;) {
      const head = await this.#take(LENGTH_BYTES);
      const length = head.readUInt32BE();
      if (length > CHUNK_BYTES) throw damaged('a part is too long');
      const chunk = await this.#take(length);
      this.#digest.update(head).update(chunk);
      if (length === 0) return;
      yield chunk;
    }
  }

  /** Throws unless this is the end, and everything before it is as it was written. */
  async end(): Promise<void> {
    const { sha256 } = parsed(await this.#line());
    if (sha256 !== this.#digest.digest('hex')) throw damaged('its bytes were changed');
    if (this.#rest.length > 0 || (await this.#more())) throw damaged('there is more after its end');
  }

  async #line(): Promise<Buffer> {
    for (let from = 0; ; ) {
      const end = this.#rest.indexOf(NEWLINE, from);
      if (end >= 0) return this.#take(end + 1);
      from = this.#rest.length;
      if (from > MAX_LINE_BYTES) throw damaged('a line is too long');
      if (!(await this.#more())) throw damaged('it was cut off');
    }
  }

  async #take(length: number): Promise<Buffer> {
    while (this.#rest.length < length) if (!(await this.#more())) throw damaged('it was cut off');
    const taken = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return taken;
  }

  async #more(): Promise<boolean> {
    const { value, done } = await this.#bytes.next().catch((error: NodeJS.ErrnoException) => {
      // Of gzip; a file that cannot be read is a fault of its own.
      if (error.syscall) throw error;
      throw error.message === 'incorrect header check'
        ? notABackup(this.#path)
        : damaged(error.message);
    });
    if (done) return false;
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
    return true;
  }
}

function parsed(bytes: Buffer): Record<string, unknown> {
  try {
    const value = JSON.parse(bytes.toString()) as unknown;
    if (value !== null && typeof value === 'object') return value as Record<string, unknown>;
  } catch {
    // answered below
  }
  throw damaged('a line of it cannot be read');
}
