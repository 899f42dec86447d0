/** What an error of the database means. It does not load the driver: a command without a database has no use for that. */

/** The code of an error: the SQLSTATE of the database's answer, or that of the connection; empty if it has none. */
export function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}

const DISK_FULL = '53100';

/** True if the database is away or cannot store anything, so that a retry may help; false if it answered with an error. */
export function isAway(error: unknown): boolean {
  const code = codeOf(error);
  // 57P0x: shut down, crashed, starting up; 08: connection; 53300: too many connections; 25006: a standby
  return (
    /^(57P0[1-5]|08.{3}|53300|25006)$/.test(code) ||
    code === DISK_FULL ||
    AWAY.has(code) ||
    // The driver of graphile-worker's pool gives these no code.
    (code === '' && error instanceof Error && /^Connection terminated\b/.test(error.message))
  );
}

/**
 * Is it the database's own answer? The driver's class says so by its name, which no answer sets. A function that somebody
 * replaced may give it any code and message.
 */
export const isAnswer = (error: unknown): boolean =>
  error instanceof Error && error.name === 'PostgresError';

/**
 * The rows are not the answer to what was asked. The driver or a function is at fault, and the rows may be another account's:
 * nobody gets them. It counts as away, because nothing is known of what the statement did.
 */
export const mixedUp = (what: string): Error =>
  Object.assign(new Error(`the rows are not the answer to ${what}`), { code: MIXED_UP });

const MIXED_UP = 'ANSWER_MIXED_UP';

export const isMixedUp = (error: unknown): boolean => codeOf(error) === MIXED_UP;

/** Did the database reject the statement? Then the statement changed nothing. What is fatal says something of the connection. */
export const isRejected = (error: unknown): boolean =>
  isAnswer(error) && !isFatal(error) && (!isAway(error) || codeOf(error) === DISK_FULL);

/** The last answer of a connection. No function of SQL or PL/pgSQL can fail so. */
export const isFatal = (error: unknown): boolean =>
  isAnswer(error) && ['FATAL', 'PANIC'].includes((error as { severity?: string }).severity ?? '');

const AWAY = new Set([
  MIXED_UP,
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'ENETDOWN',
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENFILE',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
