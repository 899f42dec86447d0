/**
 * Resident Java compilers.
 *
 * Each is a JVM in a box of its own: its own control group, no network, no annotation processing, limits on memory, time
 * and CPU. Its states:
 *
 *   spare       warmed up; it has compiled only the sources of the warm-up. There is at most one. As long as one account
 *               asks, which has its own, there is none. It ends when nobody asked in a while; the next request makes another
 *   of account  it has compiled for an account, and never compiles for another
 *   ended       after an idle time, at any limit, after any failure of javac, or to make room
 *
 * There is no answer where there is no spare, where too many requests wait already, and where the
 * compiler ended instead of answering: then the caller starts a compiler of its own.
 *
 * If a spare cannot be started or warmed, the failure is logged, and another attempt follows after a pause, which grows
 * with each failure in a row. So no failure leaves the service without resident compilers until it restarts.
 *
 * Warming a spare costs a second of CPU that no compile is charged for. So an account whose compiler ended without an
 * answer gets no other one for a while: otherwise it could cause that cost again and again, by sources that break javac.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunLimits } from '../../domain/limits.ts';
import { BASE_ENVIRONMENT, LOAD_FOLDER } from '../common/box.ts';
import type { ResidentReply, Workshop } from '../common/language.ts';
import { FIRST_RETRY_MS, retryAfterMs, spellRetry } from '../common/retry_later.ts';
import { NOT_TRIED, ResidentCompiler } from './resident_compiler.ts';

export type ResidentCompilersOptions = Pick<Workshop, 'open' | 'log'> & {
  /** the JDK's folder */
  home: string;
  /** the key of the front in the store */
  front: () => Promise<string>;
  /** the most at one time, the spare included */
  most: number;
  /** the most that one compile takes */
  answer_ms?: number;
  idle_ms?: number;
  /** without requests: then there is no spare */
  quiet_ms?: number;
  /** the pause after the first failure */
  retry_ms?: number;
};

/** The front's archive, in the folder where it is loaded. */
export const FRONT_FILE = 'front.jar';

const MiB = 1024 * 1024;
export const COMPILER_STACK_BYTES = 8 * MiB;

/**
 * Maps the JDK's archive of classes at the address that it was made for. By default a JVM maps it elsewhere and changes each
 * address in it. That takes an eighth of the CPU time of a start, and 8 to 10 MB that it shares with no other JVM. In a box, an
 * address that varies protects nothing.
 */
export const CLASSES_IN_PLACE = [
  // A later JVM may not have the last of these.
  '-XX:+IgnoreUnrecognizedVMOptions',
  '-XX:+UnlockDiagnosticVMOptions',
  '-XX:ArchiveRelocationMode=0',
];

/** For a JVM that runs for a second: it would be over before the code of C2 is faster. This takes half of the CPU time. */
export const SHORT_RUN = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];

/**
 * Heap and stack are bounded so that the compiler ends by itself, and shows which of them it lacked, before the box ends it. The
 * JVM exits when its heap is full, because a compiler without memory may fail in any way; and it prints its own messages to
 * standard error, because the front speaks its protocol on standard output.
 */
export const JAVA_COMPILER_FLAGS = [
  ...SHORT_RUN,
  '-XX:-UsePerfData',
  '-XX:+ExitOnOutOfMemoryError',
  '-XX:+DisplayVMOutputToStderr',
  '-Xshare:auto',
  ...CLASSES_IN_PLACE,
  `-Xss${COMPILER_STACK_BYTES / MiB}m`,
];

/** Of a compiler in its whole life. One compile takes `answer_ms` at most. */
export const RESIDENT_LIMITS: RunLimits = {
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
/**
 * What javac holds in the middle of a compile, 4 MB, fits into a survivor space. By the JVM's own sizes it does not: then much
 * of it gets into the old generation, which grows, and a fifth of the time goes into collections. A program of 100 lines makes
 * 25 MB of objects. An Eden of 24 MB is full about once in such a compile, and a twentieth of the time goes into collections.
 * With an Eden of 8 MB it was an eighth; the JVM took 10 MB less.
 */
const MEMORY_FLAGS = ['-Xms40m', '-Xmn32m', '-XX:SurvivorRatio=6', '-Xmx256m'];
/** Ten rounds take about a second of CPU; by then the JVM has compiled the compiler. */
const WARM_UP_ROUNDS = 10;
const IDLE_MS = 60_000;
/** The first compile after it takes five times as long, so that a caller of every few minutes must not meet it. */
const QUIET_MS = 10 * 60_000;
/** Warming one costs a second of CPU. Many accounts with one program each must not cause that cost each time. */
const SPARE_EVERY_MS = 2_000;
/** A broken compiler then costs its account at most one spare in this time. */
const BARRED_MS = 60_000;
/** If more requests wait, a fresh compiler is no slower. */
const QUEUE_MOST = 4;
export class ResidentCompilers {
  readonly #options: ResidentCompilersOptions;
  /** Accounts whose compiler ended without an answer, and until when they get no other. */
  readonly #barred_until = new Map<string, number>();
  readonly #byAccount = new Map<string, ResidentCompiler>();
  #spare: Promise<ResidentCompiler | null> | null = null;
  #warm: ResidentCompiler | null = null;
  #count = 0;
  #next_spare_at = 0;
  readonly #quiet: NodeJS.Timeout;
  #is_quiet = false;
  /** More than one account asked since it was quiet. */
  #are_several = false;
  /** spares in a row that could not be made */
  #failures = 0;
  readonly #closing = new AbortController();

  constructor(options: ResidentCompilersOptions) {
    this.#options = options;
    this.#quiet = setTimeout(() => {
      this.#is_quiet = true;
      this.#are_several = false;
      this.#warm?.end();
    }, options.quiet_ms ?? QUIET_MS);
    this.#quiet.unref();
    this.#makeSpare();
  }

  /** Without an answer, the caller starts a compiler. */
  async compile(account_id: string, code: Uint8Array, signal: AbortSignal): Promise<ResidentReply> {
    if (this.#isBarred(account_id)) return NOT_TRIED;
    this.#is_quiet = false;
    this.#quiet.refresh();
    const resident = this.#of(account_id);
    if (resident === null || resident.queued >= QUEUE_MOST) return NOT_TRIED;
    const reply = await resident.compile(code, signal);
    // Without a cost the compile was not tried, or the launcher was lost: neither is the account's doing.
    if (reply.answer === null && reply.cpu_us) this.#bar(account_id);
    return reply;
  }

  #bar(account_id: string): void {
    const now = performance.now();
    // The map is in the order of the ends, so those that are over come first.
    for (const [account, until] of this.#barred_until) {
      if (until > now) break;
      this.#barred_until.delete(account);
    }
    this.#barred_until.delete(account_id);
    this.#barred_until.set(account_id, now + BARRED_MS);
  }

  #isBarred(account_id: string): boolean {
    return (this.#barred_until.get(account_id) ?? 0) > performance.now();
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
    clearTimeout(this.#quiet);
    const spare = await this.#spare;
    const all = [...this.#byAccount.values(), ...(spare === null ? [] : [spare])];
    await Promise.all(all.map((resident) => resident.end()));
  }

  #of(account_id: string): ResidentCompiler | null {
    const own = this.#byAccount.get(account_id);
    if (own !== undefined) return own;
    if (this.#byAccount.size > 0) this.#are_several = true;
    const resident = this.#warm;
    if (resident === null) {
      this.#makeRoom();
      this.#makeSpare();
      return null;
    }
    this.#warm = null;
    this.#spare = null;
    this.#byAccount.set(account_id, resident);
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
    if (this.#closing.signal.aborted || this.#is_quiet) return;
    if (this.#byAccount.size > 0 && !this.#are_several) return;
    if (this.#spare !== null || this.#count >= this.#options.most) return;
    this.#count++;
    const spare = this.#start();
    this.#spare = spare;
    spare.then((resident) => {
      if (resident === null) {
        this.#count--;
        this.#spare = null;
        this.#makeSpareLater();
        return;
      }
      this.#failures = 0;
      this.#warm = resident;
      this.#quiet.refresh();
      resident.ended.then(() => {
        this.#count--;
        if (this.#warm === resident) {
          this.#warm = null;
          this.#spare = null;
        }
        for (const [account, own] of this.#byAccount)
          if (own === resident) this.#byAccount.delete(account);
        this.#makeSpare();
      });
    });
  }

  /** No request may start a spare earlier. So the sum of all pauses bounds the cost of spares that fail. */
  #makeSpareLater(): void {
    if (this.#closing.signal.aborted) return;
    const wait_ms = this.#retryMs(this.#failures);
    this.#next_spare_at = performance.now() + wait_ms;
    const { signal } = this.#closing;
    sleep(wait_ms, undefined, { signal, ref: false }).then(
      () => this.#makeSpare(),
      () => {},
    );
  }

  #retryMs(failures: number): number {
    return retryAfterMs(failures, this.#options.retry_ms ?? FIRST_RETRY_MS);
  }

  async #untilSpareIsDue(): Promise<void> {
    const now = performance.now();
    const wait = this.#next_spare_at - now;
    this.#next_spare_at = Math.max(now, this.#next_spare_at) + SPARE_EVERY_MS;
    if (wait > 0) await sleep(wait, undefined, { signal: this.#closing.signal, ref: false });
  }

  async #start(): Promise<ResidentCompiler | null> {
    const { open, home, front } = this.#options;
    try {
      await this.#untilSpareIsDue();
      const key = await front();
      const box = await open({
        argv: [
          `${home}/bin/java`,
          ...JAVA_COMPILER_FLAGS,
          ...MEMORY_FLAGS,
          '-jar',
          `${LOAD_FOLDER}/${FRONT_FILE}`,
          '--serve',
          String(WARM_UP_ROUNDS),
        ],
        env: BASE_ENVIRONMENT,
        limits: RESIDENT_LIMITS,
        load: [{ key, at: LOAD_FOLDER }],
      });
      const resident = new ResidentCompiler(box, this.#options.answer_ms);
      if (await resident.warm) return resident;
      this.#logFailure('ended while it was warmed', new Error(Buffer.from(box.stderr).toString()));
    } catch (error) {
      this.#logFailure('could not be started', error as Error);
    }
    return null;
  }

  #logFailure(what: string, error: Error): void {
    if (this.#closing.signal.aborted) return;
    const next = spellRetry(this.#retryMs(++this.#failures));
    this.#options.log(
      `a Java compiler ${what}; until there is one, each compile starts its own; ${next}`,
      error,
    );
  }
}
