/**
 * The sandbox as the executor sees it: requests in, reports out.
 *
 * There is one launcher process at a time, reached over an inherited socket; `sandbox/main.c` describes
 * it. At most two requests per slot are sent, one running and one behind it, so that a slot never waits
 * for this process. The others wait here. So do those beyond what the launcher's queue holds: a frame of the largest size for
 * each slot.
 *
 * The two runs of a pair are sent together, and the launcher starts both at once. A request is sent after those that came
 * before it, so that a pair, which needs more room, is not overtaken for ever.
 *
 * A launcher that dies is replaced. Requests that were sent to it reject with SandboxFault, but only
 * after the next launcher has ended everything that the dead one left: a caller may start the same
 * program elsewhere, and it must not run twice. Requests that waited here go to the next launcher; where it cannot be started,
 * they are rejected. One that hangs is killed: the heartbeats of this process go on, so nobody else would take its runs.
 *
 * A report is evidence about a program. A fault is a failure of the service, and never about the program.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { FRAME_MAX } from '../domain/launcher_bounds.ts';
import { BoxStream } from './box_stream.ts';
import {
  type BoxRequest,
  decodePeeked,
  decodeReport,
  decodeUsage,
  type Ended,
  encodePair,
  encodePeek,
  encodeRequest,
  FRAME,
  FrameReader,
  frame,
  number64,
  type PairReport,
  type Peek,
  pairReport,
  type RunReport,
} from './launcher_wire.ts';
import {
  cancelled,
  faultOf,
  NO_ISOLATION,
  SandboxFault,
  settledTogether,
} from './sandbox_fault.ts';
import { type Isolation, launcherArguments, type SandboxOptions } from './sandbox_options.ts';

export { BoxStream } from './box_stream.ts';
export type { BoxRequest, PairReport, Peek, PerStream, RunReport, Usage } from './launcher_wire.ts';
export { type FaultKind, SandboxFault, wasMissing } from './sandbox_fault.ts';
export type { Isolation, IsolationKind, Profile, SandboxOptions } from './sandbox_options.ts';

/** One run. */
type Job = {
  id: number;
  stream: BoxStream | null;
  wall_ms: number;
  stdout_bytes: number;
  /** When it should have ended, by far; null before it is sent, and for a box that stays. */
  due_ms: number | null;
  /** of its frame, once it is sent; 0 for the second run of a pair */
  sent_bytes: number;
  resolve: (value: Ended) => void;
  reject: (error: Error) => void;
};

/** What one frame asks for: a run, or the two of a pair. */
type Order = { jobs: readonly Job[]; frame: Buffer };

const PER_SLOT = 2;
const RESTART_FIRST_MS = 10;
const RESTART_MOST_MS = 5_000;
/** A dead launcher's last words. What it left may have its standard error, and the kernel may block that. */
const LAST_WORDS_MS = 1_000;
/** A launcher that lived this long works: its successor starts without a pause. */
const LIVED_MS = 1_000;
/** A machine that swaps is only slow. */
const LATE_MS = 10 * 60_000;
/** So many looks in the time that a report may be late. */
const LOOKS = 20;
/**
 * The programs of a dead launcher die within milliseconds, or seconds on a busy machine; the next launcher waits for their
 * end. This bounds the wait for a next launcher that does not come.
 */
const GONE_MS = 30_000;

export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const sandbox = new Sandbox(options);
  try {
    await sandbox.start();
  } catch (error) {
    await sandbox.close();
    throw error;
  }
  return sandbox;
}

export class Sandbox {
  readonly #options: SandboxOptions;
  #isolation: Isolation | null = null;
  #child: ChildProcess | null = null;
  #socket: Socket | null = null;
  #nextId = 1;
  #waiting: Order[] = [];
  readonly #sent = new Map<number, Job>();
  /** Who waits for answers about a run that goes on, in the order of their questions. */
  readonly #asking = new Map<number, ((payload: Buffer | null) => void)[]>();
  #streamsSent = 0;
  /** of the runs */
  #bytesSent = 0;
  #deadlineUs = 0;
  #closed = false;
  readonly #closing = new AbortController();
  readonly #looking: NodeJS.Timeout;
  /** The launcher was late at the last look. */
  #late: ChildProcess | null = null;
  #restarting: Promise<void> | null = null;

  constructor(options: SandboxOptions) {
    this.#options = options;
    this.#looking = setInterval(() => this.#look(), this.#lateMs / LOOKS).unref();
  }

  get #lateMs(): number {
    return this.#options.late_ms ?? LATE_MS;
  }

  /** What the launcher found when it started. */
  get isolation(): Isolation {
    if (this.#isolation === null)
      throw new SandboxFault('launcher_lost', 'the launcher never started');
    return this.#isolation;
  }

  /** False while there is no launcher: requests wait for the next one. */
  get connected(): boolean {
    return this.#socket !== null;
  }

  /** The number of requests that were not sent yet. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Runs a program, after a wait where all slots are busy. Rejects with SandboxFault, and never because of the program. */
  async run(
    request: BoxRequest,
    { signal, onRun }: { signal?: AbortSignal; onRun?: ((peek: Peek) => void) | undefined } = {},
  ): Promise<RunReport> {
    const { job, ended } = this.#job(null, request, signal);
    this.#submit([job], () => frame(FRAME.run, job.id, encodeRequest(request, null)), signal);
    onRun?.(async (from, most_bytes) => {
      const payload = await this.#ask(FRAME.peek, job.id, encodePeek(from, most_bytes));
      return payload && decodePeeked(payload);
    });
    return (await ended).report;
  }

  /**
   * Runs two programs at the same time, in two slots: the standard output of each is the standard input of the other. Each
   * has its own limits. When one ends, the other sees the end of its input, and what it writes then is discarded.
   */
  async runPair(
    program: BoxRequest,
    interactor: BoxRequest,
    { signal, transcript_bytes = 0 }: { signal?: AbortSignal; transcript_bytes?: number } = {},
  ): Promise<PairReport> {
    const sides = [this.#job(null, program, signal), this.#job(null, interactor, signal)] as const;
    const [{ job: first }, { job: second }] = sides;
    const encode = () => {
      const fields = encodeRequest(program, { transcript_bytes, judges: false });
      const others = encodeRequest(interactor, { transcript_bytes: 0, judges: true });
      return frame(FRAME.pair, first.id, encodePair([fields, others], second.id));
    };
    this.#submit([first, second], encode, signal);
    // Without a partner the rest of a run means nothing.
    for (const [at, { ended }] of sides.entries())
      ended.catch(() => this.#cancel(sides[1 - at]!.job.id));
    const [one, other] = await settledTogether(sides.map(({ ended }) => ended));
    return pairReport(one!, other!, transcript_bytes);
  }

  /** Opens a box that stays; its program's standard input and output are one stream. */
  async open(request: BoxRequest, { signal }: { signal?: AbortSignal } = {}): Promise<BoxStream> {
    const stream = new BoxStream({
      input: (bytes) => this.#write(frame(FRAME.input, stream.id, [bytes])),
      kill: () => this.#cancel(stream.id),
      usage: async () => {
        const payload = await this.#ask(FRAME.meter, stream.id);
        return payload && decodeUsage(payload);
      },
    });
    const { job, ended } = this.#job(stream, request, signal);
    stream.id = job.id;
    ended.then(
      (end) => stream.finish(end.report),
      (error: Error) => stream.fail(error),
    );
    this.#submit([job], () => frame(FRAME.run, job.id, encodeRequest(request, 'stream')), signal);
    await stream.opened;
    return stream;
  }

  /**
   * Every run is killed when this much time passes without another call; 0 removes the deadline.
   * The launcher counts the time, so the deadline holds while this process is stopped.
   */
  extendDeadline(ms: number): void {
    this.#deadlineUs =
      ms === 0 ? 0 : Number(process.hrtime.bigint() / 1000n) + Math.trunc(ms * 1000);
    this.#sendDeadline();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#closing.abort();
    clearInterval(this.#looking);
    const child = this.#child;
    const waiting = this.#waiting.splice(0).flatMap(({ jobs }) => jobs);
    for (const job of [...this.#leave(), ...waiting])
      job.reject(new SandboxFault('closed', 'the sandbox was closed'));
    if (child !== null && child.exitCode === null && child.signalCode === null) {
      await new Promise((resolve) => child.once('exit', resolve));
    }
    await this.#restarting;
  }

  #job(
    stream: BoxStream | null,
    { limits: { wall_ms, stdout_bytes } }: BoxRequest,
    signal: AbortSignal | undefined,
  ): { job: Job; ended: Promise<Ended> } {
    const id = this.#nextId;
    this.#nextId = id === 0xffff_fffe ? 1 : id + 1;
    const { promise, resolve, reject } = Promise.withResolvers<Ended>();
    const job = { id, stream, wall_ms, stdout_bytes, due_ms: null, sent_bytes: 0, resolve, reject };
    if (signal === undefined || signal.aborted) return { job, ended: promise };
    const onAbort = () => this.#cancel(id, signal);
    signal.addEventListener('abort', onAbort, { once: true });
    const settle = () => signal.removeEventListener('abort', onAbort);
    promise.then(settle, settle);
    return { job, ended: promise };
  }

  /** `encode` throws where the request cannot be sent. */
  #submit(jobs: readonly Job[], encode: () => Buffer, signal: AbortSignal | undefined): void {
    try {
      if (this.#closed) throw new SandboxFault('closed', 'the sandbox was closed');
      if (signal?.aborted) throw cancelled(signal);
      this.#waiting.push({ jobs, frame: encode() });
      this.#dispatch();
    } catch (error) {
      for (const job of jobs) job.reject(error as Error);
    }
  }

  #dispatch(): void {
    if (this.#socket === null || this.#isolation === null) return;
    const { slots, stream_slots } = this.#isolation;
    const room = {
      streams: Math.max(stream_slots, 1) - this.#streamsSent,
      runs: slots * PER_SLOT - (this.#sent.size - this.#streamsSent),
    };
    for (let at = 0; at < this.#waiting.length; ) {
      const order = this.#waiting[at]!;
      const [first] = order.jobs as [Job];
      const kind = first.stream === null ? 'runs' : 'streams';
      const fits = kind === 'streams' || this.#bytesSent + order.frame.length <= slots * FRAME_MAX;
      if (room[kind] < order.jobs.length || !fits) {
        room[kind] = 0;
        at++;
        continue;
      }
      room[kind] -= order.jobs.length;
      this.#waiting.splice(at, 1);
      for (const job of order.jobs) this.#sent.set(job.id, job);
      if (kind === 'runs') this.#expect(order.jobs);
      if (kind === 'streams') this.#streamsSent++;
      else this.#bytesSent += first.sent_bytes = order.frame.length;
      this.#write(order.frame);
    }
  }

  /** One that was sent before may run first, in the same slot. */
  #expect(jobs: readonly Job[]): void {
    const runs = [...this.#sent.values()].filter(({ stream }) => stream === null);
    const before_ms = Math.max(...runs.map(({ wall_ms }) => wall_ms));
    for (const job of jobs) job.due_ms = performance.now() + before_ms + job.wall_ms + this.#lateMs;
  }

  /** Late at one look only is also a launcher whose reports this process could not read: it was stopped itself. */
  #look(): void {
    const now_ms = performance.now();
    const is_late = [...this.#sent.values()].some(
      ({ due_ms }) => due_ms !== null && due_ms < now_ms,
    );
    const child = is_late ? this.#child : null;
    if (child !== null && child === this.#late) {
      this.#options.log?.(
        'the launcher hangs: a run has not ended long after its limits; it is replaced',
      );
      child.kill('SIGKILL');
    }
    this.#late = child;
  }

  #cancel(id: number, signal?: AbortSignal): void {
    const at = this.#waiting.findIndex(({ jobs }) => jobs.some((job) => job.id === id));
    if (at >= 0) {
      const [order] = this.#waiting.splice(at, 1);
      for (const job of order?.jobs ?? []) job.reject(cancelled(signal));
    } else if (this.#sent.has(id)) {
      this.#write(frame(FRAME.cancel, id));
    }
  }

  /** Null: the run is over, or was not sent yet. */
  #ask(type: number, id: number, parts: readonly Uint8Array[] = []): Promise<Buffer | null> {
    if (!this.#sent.has(id)) return Promise.resolve(null);
    return new Promise((resolve) => {
      const asking = this.#asking.get(id) ?? [];
      asking.push(resolve);
      this.#asking.set(id, asking);
      this.#write(frame(type, id, parts));
    });
  }

  #write(bytes: Buffer): void {
    this.#socket?.write(bytes);
  }

  #sendDeadline(): void {
    this.#write(frame(FRAME.deadline, 0, [number64(this.#deadlineUs)]));
  }

  #take(type: number, id: number, payload: Buffer): void {
    const job = this.#sent.get(id);
    if (type === FRAME.report) this.#settle(job, payload);
    else if (type === FRAME.fault) this.#finish(job)?.reject(faultOf(payload.toString('utf8')));
    else if (type === FRAME.output) job?.stream?.receive(payload[0] ?? 0, payload.subarray(1));
    else if (type === FRAME.opened) job?.stream?.open();
    else if (type === FRAME.metered || type === FRAME.peeked)
      this.#asking.get(id)?.shift()?.(payload);
  }

  #settle(job: Job | undefined, payload: Buffer): void {
    const ended = decodeReport(payload);
    const { killed_for, stdout_seen_bytes } = ended.report;
    this.#finish(job);
    if (killed_for === 'deadline') job?.reject(faultOf('the deadline has passed'));
    else if (killed_for === 'cancelled' && job?.stream === null) job.reject(cancelled());
    // The slot ends a run whose output it cannot keep, also within the limit.
    else if (killed_for === 'output' && job && stdout_seen_bytes <= job.stdout_bytes)
      job.reject(faultOf('the machine was out of memory: the output could not be kept'));
    else job?.resolve(ended);
  }

  #finish(job: Job | undefined): Job | undefined {
    if (job === undefined || !this.#sent.delete(job.id)) return undefined;
    if (job.stream !== null) this.#streamsSent--;
    this.#bytesSent -= job.sent_bytes;
    for (const resolve of this.#asking.get(job.id) ?? []) resolve(null);
    this.#asking.delete(job.id);
    this.#dispatch();
    return job;
  }

  /** Forgets the launcher; answers the requests that were sent to it. */
  #leave(): Job[] {
    this.#socket?.destroy();
    this.#socket = null;
    this.#child = null;
    return [...this.#sent.values()].filter((job) => this.#finish(job));
  }

  /** Settles when the launcher has reported its isolation; rejects with the launcher's own message. */
  start(): Promise<void> {
    const { launcher, log, inherited } = this.#options;
    const child = spawn(launcher, launcherArguments(this.#options), {
      env: {},
      cwd: '/',
      // A shell signals its whole process group at a hangup, and a terminal does at Ctrl-C: when to stop, the worker decides.
      detached: true,
      // The last one is SIGN_OF_LIFE in src/sandbox/options.h.
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', inherited ?? 'ignore'],
    });
    // Where this process may open no more files, the child has no streams.
    const socket = child.stdio?.[3] as Socket | undefined;
    if (socket === undefined)
      return new Promise((_, reject) => {
        child.once('error', (error) =>
          reject(new SandboxFault('launcher_lost', `${launcher}: ${error.message}`)),
        );
      });
    const startedAt = Date.now();
    let said = '';
    this.#child = child;
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-4_000);
      for (const line of text.trimEnd().split('\n')) log?.(line);
    });
    return new Promise((resolve, reject) => {
      const reader = new FrameReader((type, id, payload) => {
        if (type !== FRAME.hello) return this.#take(type, id, payload);
        // It ends when its socket does.
        if (this.#closed) return void socket.destroy();
        this.#isolation = JSON.parse(payload.toString('utf8')) as Isolation;
        this.#socket = socket;
        if (this.#deadlineUs !== 0) this.#sendDeadline();
        this.#dispatch();
        resolve();
      });
      socket.on('data', (chunk: Buffer) => reader.push(chunk));
      socket.on('error', () => child.kill('SIGKILL'));
      child.once('error', (error) =>
        reject(new SandboxFault('launcher_lost', `${launcher}: ${error.message}`)),
      );
      const onEnd = (code: number | null, signal: NodeJS.Signals | null) => {
        const how = said.trim() || `the launcher ended with ${signal ?? code}`;
        reject(new SandboxFault(code === NO_ISOLATION ? 'no_isolation' : 'launcher_lost', how));
        if (this.#child === child) this.#replace(how, Date.now() - startedAt >= LIVED_MS);
      };
      child.once('close', onEnd);
      child.once('exit', (...how) => {
        const waited = setTimeout(onEnd, LAST_WORDS_MS, ...how);
        child.once('close', () => clearTimeout(waited));
      });
    });
  }

  #replace(how: string, lived: boolean): void {
    const started = this.#socket !== null;
    const lost = this.#leave();
    const fault = new SandboxFault('launcher_lost', `the launcher was lost: ${how}`);
    const tell = () => {
      for (const job of lost) job.reject(fault);
    };
    if (this.#closed || !started) {
      tell();
      return;
    }
    this.#restarting ??= this.#restart(lived ? 0 : RESTART_FIRST_MS).finally(() => {
      this.#restarting = null;
    });
    const { signal } = this.#closing;
    void Promise.race([this.#restarting, sleep(GONE_MS, null, { signal, ref: false })])
      .catch(() => {})
      .then(tell);
  }

  async #restart(firstWaitMs: number): Promise<void> {
    for (
      let wait = firstWaitMs;
      !this.#closed;
      wait = Math.min(Math.max(wait, RESTART_FIRST_MS) * 2, RESTART_MOST_MS)
    ) {
      await sleep(wait, undefined, { signal: this.#closing.signal }).catch(() => {});
      if (this.#closed) return;
      try {
        return await this.start();
      } catch (error) {
        const why = `the launcher cannot be started: ${(error as Error).message}`;
        this.#options.log?.(why);
        const waiting = this.#waiting.splice(0).flatMap(({ jobs }) => jobs);
        for (const job of waiting) job.reject(new SandboxFault('no_room', why));
      }
    }
  }
}
