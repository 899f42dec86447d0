import { writeSync } from 'node:fs';
import { type Logger, pino, stdSerializers } from 'pino';

export type Log = Logger;

/** Fields whose values must never reach a log. */
const SECRETS = [
  'secret',
  'webhook_secret',
  'req.headers["x-api-key"]',
  'headers["x-api-key"]',
  'password',
  'database_url',
];

/** Codes of the machine and of an absent database. What is wrong is outside this program, and a stack says nothing of it. */
const OUTAGE = /^(E[A-Z0-9]+|CONNECT(ION)?_[A-Z]+|(08|53|57|58)[0-9A-Z]{3})$/;

/** An error as it is logged. */
export function errorFacts(error: Error): object {
  const { stack, ...facts } = stdSerializers.err(error);
  return OUTAGE.test(String(facts['code'])) ? facts : { ...facts, stack };
}

type LogOptions = { level: string; process: string; to?: 'stdout' | 'stderr' };

/** What of a log is kept while it cannot be written, as on a full disk. More is lost: the process goes on. */
const KEPT_BYTES = 1_048_576;
const AGAIN_MS = 1_000;
/** What is written to a pipe at once and is not longer is never mixed with what another process writes to it (PIPE_BUF). */
const WHOLE_BYTES = 4_096;
/** A pipe that is full is emptied soon, or its reader hangs. So many tries without a byte written say that it hangs. */
const FULL_PIPE = { pause_ms: 10, tries: 100 };

/** pino flushes after a fatal line. */
type Lines = { write(line: string): void; flushSync(): void };

/**
 * Synchronous, so that a line written just before an exit is not lost. For a full pipe the whole process would wait: it does so
 * only at its exit and after a fatal line.
 */
function linesTo(fd: number): Lines {
  let kept: Buffer[] = [];
  let kept_bytes = 0;
  let full_tries = 0;
  let lost = 0;
  let again: NodeJS.Timeout | null = null;

  /** How many lines go out together. `serve` gives web and worker one pipe. */
  function wholeLines(): number {
    let bytes = 0;
    const beyond = kept.findIndex((line) => {
      bytes += line.length;
      return bytes > WHOLE_BYTES;
    });
    return beyond < 0 ? kept.length : Math.max(beyond, 1);
  }

  /** Returns how long to wait for the next try; 0: all is written. */
  function writeKept(): number {
    try {
      while (kept.length > 0) {
        const lines = wholeLines();
        const bytes = Buffer.concat(kept.slice(0, lines));
        const written = writeSync(fd, bytes);
        kept = kept.slice(lines);
        if (written < bytes.length) kept.unshift(bytes.subarray(written));
        kept_bytes -= written;
        full_tries = 0;
      }
      return 0;
    } catch (error) {
      const is_full = (error as NodeJS.ErrnoException).code === 'EAGAIN';
      return is_full && full_tries++ < FULL_PIPE.tries ? FULL_PIPE.pause_ms : AGAIN_MS;
    }
  }

  function add(line: string): void {
    const bytes = Buffer.from(line);
    if (kept_bytes + bytes.length > KEPT_BYTES) {
      lost += 1;
      return;
    }
    kept.push(bytes);
    kept_bytes += bytes.length;
  }

  function writeAll(): number {
    const pause_ms = writeKept();
    if (pause_ms > 0 || lost === 0) return pause_ms;
    add(`${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lost, msg: LOST })}\n`);
    lost = 0;
    return writeKept();
  }

  function tryAgain(): void {
    const pause_ms = writeAll();
    again = pause_ms > 0 ? setTimeout(tryAgain, pause_ms).unref() : null;
  }

  /** What is kept may be written by now, or soon. */
  function flushSync(): void {
    full_tries = 0;
    for (let tries = 0; writeAll() === FULL_PIPE.pause_ms && tries < FULL_PIPE.tries; tries++)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE.pause_ms);
  }

  process.once('exit', flushSync);
  return {
    write(line) {
      add(line);
      if (again === null) tryAgain();
    },
    flushSync,
  };
}

const LOST = 'lines of this log were lost while it could not be written';

/** Writes one JSON object a line. stdout is where platforms collect logs; stderr is for processes that print answers. */
export function createLog(options: LogOptions): Log {
  return pino(
    {
      level: options.level,
      base: { process: options.process, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFacts },
      redact: { paths: SECRETS, censor: '(secret)' },
    },
    linesTo(options.to === 'stderr' ? 2 : 1),
  );
}
