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

/** Writes one JSON object a line. stdout is where platforms collect logs; stderr is for processes that print answers. */
export function createLog(options: LogOptions): Log {
  const destination = pino.destination({
    dest: options.to === 'stderr' ? 2 : 1,
    // Synchronous, so that a line written just before an exit is not lost.
    sync: true,
    maxLength: KEPT_BYTES,
  });
  destination.on('error', () => {});
  return pino(
    {
      level: options.level,
      base: { process: options.process, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFacts },
      redact: { paths: SECRETS, censor: '(secret)' },
    },
    destination,
  );
}
