/**
 * One resident Java compiler: the worker's half of the protocol that `Compile.java` describes, one request at a time.
 *
 * What must stay true:
 * - Only evidence ends a compiler: the end of its process, an answer that breaks the protocol, or no answer in time. Its
 *   diagnostics quote the source, so their text decides nothing.
 * - The CPU time of a compile is charged to it, also where the compiler ended instead of answering.
 */
import type { StandingBox } from '../common/box.ts';
import type { ResidentAnswer, ResidentReply } from '../common/language.ts';

const MiB = 1024 * 1024;
/** A source that takes longer is compiled by a fresh compiler, under the limits of a compile. */
export const ANSWER_MS = 5_000;
/** Most compiles end in this time by themselves, and the compiler stays. */
const CANCELLED_MS = 40;
const COMPILES_MOST = 2_000;
/** Compile.java keeps a byte more. */
export const DIAGNOSTICS_MOST_BYTES = 64 * 1024;
/** The names that `Compile.java` gives to the files of a program. No name may lead out of its folder. */
const FILE_NAME = /^(?:[A-Za-z0-9_$]{1,120}\.class|program\.jar)$/;
/** No package can have this name, and no folder of a source. */
export const PROGRAM_FOLDER = 'program.classes';
export const PROGRAM_ARCHIVE = 'program.jar';
export const PROGRAM_MOST_FILES = 8;
/** Before an answer. */
const LENGTH_BYTES = 4;
const ANSWER_MOST_BYTES = 65 * MiB;
/** The first byte that a compiler sends, when it is warm. */
const WARM = 'W'.charCodeAt(0);
export const NOT_TRIED: ResidentReply = { answer: null, cpu_us: 0, wall_us: 0 };

type Asked = { resolve: (bytes: Buffer | null) => void };

export class ResidentCompiler {
  readonly #box: StandingBox;
  readonly #answer_ms: number;
  readonly #asked: Asked[] = [];
  /** of an answer that is not whole yet */
  #received: Buffer[] = [];
  #received_bytes = 0;
  /** There is nothing to read before so many have come. */
  #needed_bytes = LENGTH_BYTES;
  #turn: Promise<unknown> = Promise.resolve();
  #cpu_us = 0;
  /** in its whole life; null before its end, and where the launcher was lost */
  #total_cpu_us: number | null = null;
  #compiles = 0;
  #idle: NodeJS.Timeout | null = null;
  /** It has ended, or its end has begun: it gets no more compiles. */
  #over = false;
  readonly warm: Promise<boolean>;
  readonly ended: Promise<void>;
  queued = 0;
  used_at = 0;

  constructor(box: StandingBox, answer_ms = ANSWER_MS) {
    this.#box = box;
    this.#answer_ms = answer_ms;
    const warm = Promise.withResolvers<boolean>();
    this.warm = warm.promise;
    let first = true;
    box.on('data', (chunk: Buffer) => {
      if (!first) return this.#take(chunk);
      first = false;
      if (chunk[0] !== WARM) return this.#kill();
      this.#take(chunk.subarray(1));
      this.#readUsage().then(() => warm.resolve(!this.#over));
    });
    const finish = (total_cpu_us: number | null) => {
      this.#over = true;
      this.#total_cpu_us = total_cpu_us;
      warm.resolve(false);
      for (const { resolve } of this.#asked.splice(0)) resolve(null);
    };
    this.ended = box.ended.then(
      ({ cpu_us }) => finish(cpu_us),
      () => finish(null),
    );
  }

  endWhenIdle(idle_ms: number): void {
    this.#idle = setTimeout(() => this.queued === 0 && this.end(), idle_ms);
    this.#idle.unref();
  }

  async end(): Promise<void> {
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#kill();
    await this.ended;
  }

  #kill(): void {
    this.#over = true;
    this.#box.kill();
  }

  /** One request at a time. The signal ends the compile, and with it this compiler if the compile goes on. */
  compile(code: Uint8Array, signal: AbortSignal): Promise<ResidentReply> {
    this.queued++;
    const reply = this.#turn.then(() => this.#compile(code, signal));
    this.#turn = reply.finally(() => {
      this.queued--;
      this.used_at = performance.now();
      if (this.#idle !== null && !this.#over) this.#idle.refresh();
    });
    return reply;
  }

  async #compile(code: Uint8Array, signal: AbortSignal): Promise<ResidentReply> {
    if (this.#over || signal.aborted) return NOT_TRIED;
    const began = performance.now();
    const kill = () => this.#kill();
    let late = setTimeout(kill, this.#answer_ms);
    const onAbort = () => {
      clearTimeout(late);
      late = setTimeout(kill, CANCELLED_MS);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    const bytes = await this.#ask(code);
    clearTimeout(late);
    signal.removeEventListener('abort', onAbort);
    const answer = bytes && decodeAnswer(bytes);
    if (answer === null || ++this.#compiles >= COMPILES_MOST) this.#kill();
    // An ended compiler is waited for: its last report has the time that this compile took.
    if (answer === null) await this.ended;
    const wall_us = Math.round((performance.now() - began) * 1000);
    return { answer, cpu_us: await this.#readUsage(), wall_us };
  }

  #ask(code: Uint8Array): Promise<Buffer | null> {
    return new Promise((resolve) => {
      this.#asked.push({ resolve });
      const length = Buffer.alloc(4);
      length.writeUInt32BE(code.length);
      this.#box.write(Buffer.concat([length, code]));
    });
  }

  /** An answer comes in a thousand pieces, and the source decides how large it is. So it is joined once, when it is whole. */
  #take(chunk: Buffer): void {
    this.#received.push(chunk);
    this.#received_bytes += chunk.length;
    if (this.#received_bytes < this.#needed_bytes) return;
    const all = this.#received.length === 1 ? chunk : Buffer.concat(this.#received);
    const end = LENGTH_BYTES + all.readUInt32BE(0);
    // An answer without a request, or larger than any answer can be: this compiler can no longer be trusted.
    const breaks = end > ANSWER_MOST_BYTES || this.#asked.length === 0 || all.length > end;
    if (breaks) this.#kill();
    const is_part = !breaks && all.length < end;
    this.#received = is_part ? [all] : [];
    this.#received_bytes = is_part ? all.length : 0;
    this.#needed_bytes = is_part ? end : LENGTH_BYTES;
    if (!breaks && all.length === end) this.#asked.shift()?.resolve(all.subarray(LENGTH_BYTES));
  }

  /** The CPU time of its group since the last reading; null where the launcher was lost. */
  async #readUsage(): Promise<number | null> {
    const usage = await this.#box.usage().catch(() => null);
    const total_us = usage?.cpu_us ?? (await this.#totalAtEnd());
    if (total_us === null) return null;
    const used = total_us - this.#cpu_us;
    this.#cpu_us = total_us;
    return used;
  }

  async #totalAtEnd(): Promise<number | null> {
    await this.ended;
    return this.#total_cpu_us;
  }
}

/** Null where the bytes are no answer. */
function decodeAnswer(bytes: Buffer): ResidentAnswer | null {
  const partAt = (at: number) => {
    if (at + 4 > bytes.length) return null;
    const end = at + 4 + bytes.readUInt32BE(at);
    return end > bytes.length ? null : { part: bytes.subarray(at + 4, end), end };
  };
  const said = partAt(4);
  const entry = said && partAt(said.end);
  if (said === null || entry === null) return null;
  const files = new Map<string, Buffer>();
  for (let at = entry.end; at < bytes.length; ) {
    const name = partAt(at);
    const content = name && partAt(name.end);
    if (name === null || content === null) return null;
    const path = `${PROGRAM_FOLDER}/${name.part}`;
    if (files.size === PROGRAM_MOST_FILES || files.has(path)) return null;
    if (!FILE_NAME.test(name.part.toString())) return null;
    files.set(path, content.part);
    at = content.end;
  }
  const compiled = bytes.readUInt32BE(0) === 0;
  if (compiled !== files.size > 0) return null;
  return {
    compiled,
    said: said.part,
    entry: entry.part.toString(),
    files,
  };
}
