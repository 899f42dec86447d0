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
/** A pipe that is full is emptied soon, or its reader hangs. */
const FULL_PIPE = { pause_ms: 10, tries: 100 };

/** Synchronous, so that a line written just before an exit is not lost. */
function linesTo(fd: number): { write(line: string): void } {
  let kept = Buffer.alloc(0);
  let lost = 0;
  let again: NodeJS.Timeout | null = null;

  function writeKept(): void {
    for (let tries = FULL_PIPE.tries; kept.length > 0; ) {
      try {
        kept = kept.subarray(writeSync(fd, kept));
      } catch (error) {
        const is_full = (error as NodeJS.ErrnoException).code === 'EAGAIN';
        if (!is_full || tries-- === 0) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE.pause_ms);
      }
    }
  }

  function add(line: string): void {
    const bytes = Buffer.from(line);
    if (kept.length + bytes.length > KEPT_BYTES) lost += 1;
    else kept = kept.length === 0 ? bytes : Buffer.concat([kept, bytes]);
  }

  function tryAgain(): void {
    again = null;
    writeKept();
    if (kept.length === 0 && lost > 0) {
      add(
        `${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lost, msg: LOST })}\n`,
      );
      lost = 0;
      writeKept();
    }
    if (kept.length > 0) again = setTimeout(tryAgain, AGAIN_MS).unref();
  }

  // What is kept may be written by now.
  process.once('exit', () => {
    if (kept.length > 0) tryAgain();
  });
  return {
    write(line) {
      add(line);
      if (again === null) tryAgain();
    },
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
