import { type DestinationStream, type Logger, pino } from 'pino';

export type Log = Logger;

/** What must never reach a log, wherever an object that holds it is logged. */
const SECRETS = [
  'secret',
  'webhook_secret',
  'req.headers["x-api-key"]',
  'headers["x-api-key"]',
  'password',
  'database_url',
];

/**
 * One JSON object a line on stdout, as hosting platforms collect it. Commands whose stdout is an
 * answer log to stderr.
 */
export function createLog(options: { level: string; part: string; to?: 'stdout' | 'stderr' }): Log {
  const destination: DestinationStream = pino.destination({
    dest: options.to === 'stderr' ? 2 : 1,
    // Synchronous: a line written just before an exit must not be lost.
    sync: true,
  });
  return pino(
    {
      level: options.level,
      base: { part: options.part, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRETS, censor: '(secret)' },
    },
    destination,
  );
}
