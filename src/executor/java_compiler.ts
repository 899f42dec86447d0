/**
 * Java compilers that stay.
 *
 * Each is a JVM in a box of its own: own control group, no network, no annotation processing, limits
 * on memory, time and CPU. One that has compiled for an account never compiles for another: it is
 * taken from the spares, which have seen nothing but the warm-up, and ends after a while without
 * work. It ends too at any limit and at whatever javac throws; then, and where there is no spare, or
 * too many wait already, the answer is null and the plain compiler is asked.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunLimits } from '../domain/limits.ts';
import { JAVA_COMPILER_FLAGS, LANGUAGES, LOAD_FOLDER, type Tools } from './languages.ts';
import { type BoxStream, type Sandbox, SandboxFault } from './sandbox.ts';

export type JavaAnswer = {
  compiled: boolean;
  said: Uint8Array;
  said_truncated: boolean;
  main_class: string;
  archive: Uint8Array;
  /** null where the box could not be asked */
  cpu_us: number | null;
  wall_us: number;
};

export type JavaCompilersOptions = {
  sandbox: Sandbox;
  tools: Tools<'java'>;
  front: () => Promise<string>;
  /** how many there may be at once, spares included */
  most: number;
  idle_ms?: number;
  log: (message: string, error: Error) => void;
};

const MiB = 1024 * 1024;
const LIMITS: RunLimits = {
  cpu_ms: 10 * 60_000,
  wall_ms: 24 * 60 * 60_000,
  memory_bytes: 512 * MiB,
  processes: 64,
  stdout_bytes: 0,
  stderr_bytes: 64 * 1024,
  disk_bytes: 1 * MiB,
  inodes: 64,
  files: 128,
};
const HEAP = '-Xmx256m';
/** Ten rounds, about a second of CPU: by then the compiler's own code is compiled. */
const WARM_UP_ROUNDS = 10;
const IDLE_MS = 60_000;
/** Warming one costs a second of CPU: many accounts with one program each must not make that a habit. */
const SPARE_EVERY_MS = 2_000;
/** A program that takes longer is one that a fresh compiler should meet, under the true limits. */
const ANSWER_MS = 5_000;
/** Behind more than this in one queue a fresh compiler in a slot is no slower. */
const QUEUE_MOST = 4;
const COMPILES_MOST = 2_000;
const DIAGNOSTICS_LIMIT = 64 * 1024;
const ANSWER_MOST_BYTES = 65 * MiB;

export class JavaCompilers {
  readonly #options: JavaCompilersOptions;
  readonly #byAccount = new Map<string, Resident>();
  #spare: Promise<Resident | null> | null = null;
  #warm: Resident | null = null;
  #count = 0;
  #next_spare_at = 0;
  readonly #closing = new AbortController();

  constructor(options: JavaCompilersOptions) {
    this.#options = options;
    this.#makeSpare();
  }

  /** Null: ask a plain compiler. */
  async compile(
    account_id: string,
    code: Uint8Array,
    signal: AbortSignal,
  ): Promise<JavaAnswer | null> {
    const resident = this.#of(account_id);
    if (resident === null || resident.queued >= QUEUE_MOST) return null;
    return orAborted(resident.compile(code), signal);
  }

  /** Settles when a spare is warm, or cannot be had. */
  async warmed(): Promise<boolean> {
    return (await this.#spare) !== null;
  }

  get count(): number {
    return this.#count;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    const spare = await this.#spare;
    const all = [...this.#byAccount.values(), ...(spare === null ? [] : [spare])];
    await Promise.all(all.map((resident) => resident.end()));
  }

  #of(account_id: string): Resident | null {
    const own = this.#byAccount.get(account_id);
    if (own !== undefined) return own;
    const resident = this.#warm;
    if (resident === null) {
      this.#makeRoom();
      return null;
    }
    this.#warm = null;
    this.#spare = null;
    this.#byAccount.set(account_id, resident);
    resident.ended.then(() => {
      if (this.#byAccount.get(account_id) === resident) this.#byAccount.delete(account_id);
    });
    resident.endWhenIdle(this.#options.idle_ms ?? IDLE_MS);
    this.#makeSpare();
    return resident;
  }

  /** The one that has been without work for longest gives way to a spare, for the next that asks. */
  #makeRoom(): void {
    if (this.#spare !== null) return;
    const idle = [...this.#byAccount.values()].filter((resident) => resident.queued === 0);
    idle.sort((a, b) => a.used_at - b.used_at)[0]?.end();
  }

  #makeSpare(): void {
    if (this.#closing.signal.aborted || this.#spare !== null || this.#count >= this.#options.most)
      return;
    this.#count++;
    const spare = this.#start();
    this.#spare = spare;
    spare.then((resident) => {
      if (resident === null) {
        this.#count--;
        this.#spare = null;
        return;
      }
      this.#warm = resident;
      resident.ended.then(() => {
        this.#count--;
        if (this.#warm === resident) {
          this.#warm = null;
          this.#spare = null;
        }
        this.#makeSpare();
      });
    });
  }

  async #untilSpareIsDue(): Promise<void> {
    const now = performance.now();
    const wait = this.#next_spare_at - now;
    this.#next_spare_at = Math.max(now, this.#next_spare_at) + SPARE_EVERY_MS;
    if (wait > 0) await sleep(wait, undefined, { signal: this.#closing.signal, ref: false });
  }

  async #start(): Promise<Resident | null> {
    const { sandbox, tools, front, log } = this.#options;
    try {
      await this.#untilSpareIsDue();
      const key = await front();
      const stream = await sandbox.open({
        argv: [
          `${tools.home}/bin/java`,
          ...JAVA_COMPILER_FLAGS,
          HEAP,
          '-cp',
          `${LOAD_FOLDER}/front.jar`,
          'Compile',
          '--serve',
          String(WARM_UP_ROUNDS),
        ],
        env: LANGUAGES.java.run(tools, NO_PROGRAM).env,
        files: [],
        stdin: new Uint8Array(),
        limits: LIMITS,
        profile: 'java',
        load: [{ key, at: LOAD_FOLDER }],
      });
      const resident = new Resident(stream);
      if (await resident.warm) return resident;
      const said = new Error(Buffer.from(stream.stderr).toString());
      if (!this.#closing.signal.aborted) log('a Java compiler ended while it was warmed', said);
    } catch (error) {
      if (!this.#closing.signal.aborted)
        log('a Java compiler could not be started', error as Error);
    }
    return null;
  }
}

const NO_PROGRAM = { artefact: '', entry: '', args: [], limits: LIMITS };

/** The queue that a resident keeps is its own: who no longer waits leaves it as it is. */
function orAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () =>
      reject(new SandboxFault('cancelled', 'the run was cancelled', { cause: signal.reason }));
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

type Asked = { resolve: (bytes: Buffer | null) => void };

class Resident {
  readonly #stream: BoxStream;
  readonly #asked: Asked[] = [];
  #received: Buffer[] = [];
  #received_bytes = 0;
  #turn: Promise<unknown> = Promise.resolve();
  #cpu_us = 0;
  #compiles = 0;
  #idle: NodeJS.Timeout | null = null;
  #dead = false;
  readonly warm: Promise<boolean>;
  readonly ended: Promise<void>;
  queued = 0;
  used_at = 0;

  constructor(stream: BoxStream) {
    this.#stream = stream;
    const warm = Promise.withResolvers<boolean>();
    this.warm = warm.promise;
    let first = true;
    stream.on('data', (chunk: Buffer) => {
      this.#take(first ? chunk.subarray(1) : chunk);
      if (first) this.#readUsage().then(() => warm.resolve(!this.#dead));
      first = false;
    });
    const finish = () => {
      this.#dead = true;
      warm.resolve(false);
      for (const { resolve } of this.#asked.splice(0)) resolve(null);
    };
    this.ended = stream.ended.then(finish, finish);
  }

  endWhenIdle(idle_ms: number): void {
    this.#idle = setTimeout(() => this.queued === 0 && this.end(), idle_ms);
    this.#idle.unref();
  }

  async end(): Promise<void> {
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#stream.kill();
    await this.ended;
  }

  /** One at a time; null when it ended without an answer. */
  compile(code: Uint8Array): Promise<JavaAnswer | null> {
    this.queued++;
    const answer = this.#turn.then(() => this.#compile(code));
    this.#turn = answer.finally(() => {
      this.queued--;
      this.used_at = performance.now();
      if (this.#idle !== null && !this.#dead) this.#idle.refresh();
    });
    return answer;
  }

  async #compile(code: Uint8Array): Promise<JavaAnswer | null> {
    if (this.#dead) return null;
    const began = performance.now();
    const late = setTimeout(() => this.#stream.kill(), ANSWER_MS);
    const bytes = await this.#ask(code).finally(() => clearTimeout(late));
    if (bytes === null) return null;
    const wall_us = Math.round((performance.now() - began) * 1000);
    const cpu_us = await this.#readUsage();
    if (++this.#compiles >= COMPILES_MOST) this.#stream.kill();
    return { ...decodeAnswer(bytes), cpu_us, wall_us };
  }

  #ask(code: Uint8Array): Promise<Buffer | null> {
    return new Promise((resolve) => {
      this.#asked.push({ resolve });
      const length = Buffer.alloc(4);
      length.writeUInt32BE(code.length);
      this.#stream.write(Buffer.concat([length, code]));
    });
  }

  #take(chunk: Buffer): void {
    this.#received.push(chunk);
    this.#received_bytes += chunk.length;
    if (this.#received_bytes < 4) return;
    const all = this.#received.length === 1 ? chunk : Buffer.concat(this.#received);
    const end = 4 + all.readUInt32BE(0);
    // An answer that nobody asked for, or of a size that none has: its state is not what it was.
    if (end > ANSWER_MOST_BYTES || this.#asked.length === 0 || all.length > end) {
      this.#stream.kill();
      return;
    }
    this.#received = all.length === end ? [] : [all];
    this.#received_bytes = all.length === end ? 0 : all.length;
    if (all.length === end) this.#asked.shift()?.resolve(all.subarray(4));
  }

  /** What its group has used since it was last read. */
  async #readUsage(): Promise<number | null> {
    const usage = await this.#stream.usage().catch(() => null);
    if (usage === null) return null;
    const used = usage.cpu_us - this.#cpu_us;
    this.#cpu_us = usage.cpu_us;
    return used;
  }
}

function decodeAnswer(bytes: Buffer): Omit<JavaAnswer, 'cpu_us' | 'wall_us'> {
  const saidEnd = 8 + bytes.readUInt32BE(4);
  const nameEnd = saidEnd + 4 + bytes.readUInt32BE(saidEnd);
  const said = bytes.subarray(8, saidEnd);
  return {
    compiled: bytes.readUInt32BE(0) === 0,
    said,
    said_truncated: said.length >= DIAGNOSTICS_LIMIT,
    main_class: bytes.toString('utf8', saidEnd + 4, nameEnd),
    archive: bytes.subarray(nameEnd),
  };
}
