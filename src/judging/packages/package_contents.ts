/**
 * The contents that a set refers to, each once. A first pass checks a file and computes its hash. Only when the whole
 * package is known to be good does a second pass hand the bytes to the consumer, so nothing of a bad package is stored,
 * and the consumer knows the hash before the first byte.
 */
import { createHash } from 'node:crypto';
import type { FileRef } from '../test_set.ts';
import type { Entry } from './entry_source.ts';
import { PackageProblem } from './package_problem.ts';

/** Gets each content once. It may leave the bytes unread, if it has the content already. */
export type OnFile = (file: FileRef, bytes: AsyncIterable<Uint8Array>) => Promise<void>;

export type Note = (path: string, note: string) => void;

/** Of UTF-8, as Notepad writes it, and of UTF-16, as PowerShell does. */
const BYTE_ORDER_MARKS = [Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from([0xff, 0xfe])];
const LONGEST_MARK = 3;

export class Contents {
  readonly #refs = new Map<Entry, FileRef>();
  readonly #marked = new Set<Entry>();
  readonly #first = new Map<string, Entry>();
  readonly #signal: AbortSignal | undefined;

  /** `signal` ends the reading of a file between two chunks. */
  constructor(signal?: AbortSignal) {
    this.#signal = signal;
  }

  /** The contents of this entry belong to the set. */
  async add(entry: Entry): Promise<FileRef> {
    const known = this.#refs.get(entry);
    if (known !== undefined) return known;
    const hash = createHash('sha256');
    let start = Buffer.alloc(0);
    for await (const chunk of entry.open()) {
      this.#signal?.throwIfAborted();
      hash.update(chunk);
      if (start.length < LONGEST_MARK)
        start = Buffer.concat([start, chunk.subarray(0, LONGEST_MARK - start.length)]);
    }
    if (BYTE_ORDER_MARKS.some((mark) => start.subarray(0, mark.length).equals(mark)))
      this.#marked.add(entry);
    const ref = { sha256: hash.digest('hex'), size: entry.size };
    this.#refs.set(entry, ref);
    if (!this.#first.has(ref.sha256)) this.#first.set(ref.sha256, entry);
    return ref;
  }

  /** An input or an answer. Programs do not expect a byte order mark, but it may be what a test is about. */
  async addText(entry: Entry, note: Note): Promise<FileRef> {
    const ref = await this.add(entry);
    if (this.#marked.has(entry)) {
      note(
        entry.path,
        'it begins with a byte order mark, which is part of the text for a program: save it as UTF-8 without one',
      );
    }
    return ref;
  }

  files(): FileRef[] {
    return [...this.#first].map(([sha256, { size }]) => ({ sha256, size }));
  }

  /** Can be called again. */
  open(sha256: string): AsyncIterable<Uint8Array> {
    const entry = this.#first.get(sha256);
    if (entry === undefined) throw new Error(`the package has no content ${sha256}`);
    return withHashChecked(entry, sha256, this.#signal);
  }

  async deliver(onFile: OnFile): Promise<void> {
    for (const file of this.files()) await onFile(file, this.open(file.sha256));
  }
}

async function* withHashChecked(
  entry: Entry,
  sha256: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  for await (const chunk of entry.open()) {
    signal?.throwIfAborted();
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest('hex') !== sha256)
    throw new PackageProblem(entry.path, 'it changed while it was read');
}
