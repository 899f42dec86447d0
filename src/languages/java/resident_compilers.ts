/**
 * Resident Java compilers.
 *
 * Each is a JVM in a box of its own: its own control group, no network, no annotation processing, limits on memory, time
 * and CPU. Its states:
 *
 *   spare       warmed up; it has compiled only the sources of the warm-up. There is at most one
 *   of account  it has compiled for an account, and never compiles for another
 *   ended       after an idle time, at any limit, after any failure of javac, or to make room
 *
 * There is no answer where there is no spare, where too many requests wait already, and where the
 * compiler ended instead of answering: then the caller starts a compiler of its own.
 *
 * What must stay true:
 * - Only evidence ends a compiler: the end of its process, or an answer that breaks the protocol. Its
 *   diagnostics quote the source, so their text decides nothing.
 * - The CPU time of a compile is charged to it, also where the compiler ended instead of answering.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunLimits } from '../../domain/limits.ts';
import { BASE_ENVIRONMENT, LOAD_FOLDER, type StandingBox } from '../common/box.ts';
import type { ResidentAnswer, ResidentReply, Workshop } from '../common/language.ts';

export type ResidentCompilersOptions = Pick<Workshop, 'open' | 'log'> & {
  /** the JDK's folder */
  home: string;
  /** the key of the front in the store */
  front: () => Promise<string>;
  /** the most at one time, the spare included */
  most: number;
  idle_ms?: number;
};

/** The front's archive, in the folder where it is loaded. */
export const FRONT_FILE = 'front.jar';

const MiB = 1024 * 1024;
export const COMPILER_STACK_BYTES = 8 * MiB;

/**
 * A compile takes half a second: C1's code is ready sooner than C2's is faster. Heap and stack are bounded so that
 * the compiler ends by itself, and shows which of them it lacked, before the box ends it. The JVM exits when its heap
 * is full, because a compiler without memory may fail in any way; and it prints its own messages to standard error,
 * because the front speaks its protocol on standard output.
 */
export const JAVA_COMPILER_FLAGS = [
  '-XX:TieredStopAtLevel=1',
  '-XX:+UseSerialGC',
  '-XX:-UsePerfData',
  '-XX:+ExitOnOutOfMemoryError',
  '-XX:+DisplayVMOutputToStderr',
  '-Xshare:auto',
  `-Xss${COMPILER_STACK_BYTES / MiB}m`,
];

const LIMITS: RunLimits = {
  cpu_ms: 10 * 60_000,
  wall_ms: 24 * 60 * 60_000,
  memory_bytes: 512 * MiB,
  stack_bytes: 64 * MiB,
  processes: 64,
  stdout_bytes: 0,
  stderr_bytes: 64 * 1024,
  disk_bytes: 1 * MiB,
  inodes: 64,
  files: 128,
};
const HEAP = '-Xmx256m';
/** Ten rounds take about a second of CPU; by then the JVM has compiled the compiler. */
const WARM_UP_ROUNDS = 10;
const IDLE_MS = 60_000;
/** Warming one costs a second of CPU. Many accounts with one program each must not cause that cost each time. */
const SPARE_EVERY_MS = 2_000;
/** A source that takes longer is compiled by a fresh compiler, under the limits of a compile. */
const ANSWER_MS = 5_000;
/** If more requests wait, a fresh compiler is no slower. */
const QUEUE_MOST = 4;
const COMPILES_MOST = 2_000;
const DIAGNOSTICS_LIMIT = 64 * 1024;
const ANSWER_MOST_BYTES = 65 * MiB;
/** The first byte that a compiler sends, when it is warm. */
const WARM = 'W'.charCodeAt(0);
const NOT_TRIED: ResidentReply = { answer: null, cpu_us: 0, wall_us: 0 };

export class ResidentCompilers {
  readonly #options: ResidentCompilersOptions;
  readonly #byAccount = new Map<string, Resident>();
  #spare: Promise<Resident | null> | null = null;
  #warm: Resident | null = null;
  #count = 0;
  #next_spare_at = 0;
  readonly #closing = new AbortController();

  constructor(options: ResidentCompilersOptions) {
    this.#options = options;
    this.#makeSpare();
  }

  /** Without an answer, the caller starts a compiler. */
  async compile(account_id: string, code: Uint8Array): Promise<ResidentReply> {
    const resident = this.#of(account_id);
    if (resident === null || resident.queued >= QUEUE_MOST) return NOT_TRIED;
    return resident.compile(code);
  }

  /** Settles when a spare is warm, or cannot be made. */
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

  /** Ends the one that has been idle for longest. A spare takes its room, for the next request. */
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
    const { open, home, front, log } = this.#options;
    try {
      await this.#untilSpareIsDue();
      const key = await front();
      const box = await open({
        argv: [
          `${home}/bin/java`,
          ...JAVA_COMPILER_FLAGS,
          HEAP,
          '-jar',
          `${LOAD_FOLDER}/${FRONT_FILE}`,
          '--serve',
          String(WARM_UP_ROUNDS),
        ],
        env: BASE_ENVIRONMENT,
        limits: LIMITS,
        load: [{ key, at: LOAD_FOLDER }],
      });
      const resident = new Resident(box);
      if (await resident.warm) return resident;
      const said = new Error(Buffer.from(box.stderr).toString());
      if (!this.#closing.signal.aborted) log('a Java compiler ended while it was warmed', said);
    } catch (error) {
      if (!this.#closing.signal.aborted)
        log('a Java compiler could not be started', error as Error);
    }
    return null;
  }
}

type Asked = { resolve: (bytes: Buffer | null) => void };

class Resident {
  readonly #box: StandingBox;
  readonly #asked: Asked[] = [];
  #received: Buffer[] = [];
  #received_bytes = 0;
  #turn: Promise<unknown> = Promise.resolve();
  #cpu_us = 0;
  /** in its whole life; null before its end, and where the launcher was lost */
  #total_cpu_us: number | null = null;
  #compiles = 0;
  #idle: NodeJS.Timeout | null = null;
  #dead = false;
  readonly warm: Promise<boolean>;
  readonly ended: Promise<void>;
  queued = 0;
  used_at = 0;

  constructor(box: StandingBox) {
    this.#box = box;
    const warm = Promise.withResolvers<boolean>();
    this.warm = warm.promise;
    let first = true;
    box.on('data', (chunk: Buffer) => {
      if (!first) return this.#take(chunk);
      first = false;
      if (chunk[0] !== WARM) return box.kill();
      this.#take(chunk.subarray(1));
      this.#readUsage().then(() => warm.resolve(!this.#dead));
    });
    const finish = (total_cpu_us: number | null) => {
      this.#dead = true;
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
    this.#box.kill();
    await this.ended;
  }

  /** One request at a time. */
  compile(code: Uint8Array): Promise<ResidentReply> {
    this.queued++;
    const reply = this.#turn.then(() => this.#compile(code));
    this.#turn = reply.finally(() => {
      this.queued--;
      this.used_at = performance.now();
      if (this.#idle !== null && !this.#dead) this.#idle.refresh();
    });
    return reply;
  }

  async #compile(code: Uint8Array): Promise<ResidentReply> {
    if (this.#dead) return NOT_TRIED;
    const began = performance.now();
    const late = setTimeout(() => this.#box.kill(), ANSWER_MS);
    const bytes = await this.#ask(code).finally(() => clearTimeout(late));
    const answer = bytes && decodeAnswer(bytes);
    if (answer === null || ++this.#compiles >= COMPILES_MOST) this.#box.kill();
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

  #take(chunk: Buffer): void {
    this.#received.push(chunk);
    this.#received_bytes += chunk.length;
    if (this.#received_bytes < 4) return;
    const all = this.#received.length === 1 ? chunk : Buffer.concat(this.#received);
    const end = 4 + all.readUInt32BE(0);
    // An answer without a request, or larger than any answer can be: this compiler can no longer be trusted.
    if (end > ANSWER_MOST_BYTES || this.#asked.length === 0 || all.length > end) {
      this.#box.kill();
      return;
    }
    this.#received = all.length === end ? [] : [all];
    this.#received_bytes = all.length === end ? 0 : all.length;
    if (all.length === end) this.#asked.shift()?.resolve(all.subarray(4));
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
  return {
    compiled: bytes.readUInt32BE(0) === 0,
    said: said.part,
    said_truncated: said.part.length >= DIAGNOSTICS_LIMIT,
    entry: entry.part.toString(),
    archive: bytes.subarray(entry.end),
  };
}
