/**
 * Why requests get a 500 or a 503. Each cause is logged when it appears, and then once a second at most, with the number of
 * requests since the last line and the ids of the newest: an outage fails thousands of requests and must not fill the log.
 */
import { codeOf, isAway } from '../../db.ts';
import type { Log } from '../../log.ts';
import { WrongClock } from '../../store/submissions.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { problem, problemOf, unavailable } from '../wire/problem.ts';

export type Failures = {
  /** The answer to a request whose handler threw. */
  answerTo(exchange: Exchange, error: unknown): Answer;
  /** What failed is logged, and the request is answered without it. */
  answerWithout(exchange: Exchange, error: unknown): void;
  /** A handler's own answer: logged if it is a 503. */
  note(exchange: Exchange, answer: Answer): void;
};

/** The database has not answered within the time that a request waits for it. */
export class TooSlow extends Error {}

const PAUSE_MS = 1_000;
/** More causes than that are counted as one. */
const CAUSES_MAX = 100;
/** So many ids are in one line. */
const IDS_MAX = 20;

/** Of the requests that one line is about. */
type Counted = { request_id: string; requests: number; request_ids?: readonly string[] };
type Write = (counted: Counted) => void;
/** `write`: that of the newest. */
type Since = { requests: number; ids: readonly string[]; write: Write };

export function createFailures(log: Log): Failures {
  const recent = new Map<string, Since>();

  function count(cause: string, id: string, write: Write): void {
    const name = recent.size < CAUSES_MAX || recent.has(cause) ? cause : 'other causes';
    const known = recent.get(name);
    if (known === undefined) begin(name, { requests: 1, ids: [id], write });
    else {
      known.requests += 1;
      known.ids = [...known.ids, id].slice(-IDS_MAX);
      known.write = write;
    }
  }

  function begin(name: string, { requests, ids, write }: Since): void {
    const since: Since = { requests: 0, ids: [], write };
    recent.set(name, since);
    const request_id = ids.at(-1)!;
    write({ request_id, requests, ...(requests > 1 && { request_ids: ids }) });
    const next = () => {
      recent.delete(name);
      if (since.requests > 0) begin(name, since);
    };
    setTimeout(next, PAUSE_MS).unref();
  }

  const failures: Failures = {
    answerTo(exchange, error) {
      const part = missingPart(error);
      const cause = causeOf(error);
      exchange.cause = cause;
      count(cause, exchange.id, (counted) => {
        const facts = { ...counted, cause };
        if (part === null) log.error({ ...facts, failure: loggable(error) }, 'request failed');
        else log.warn({ ...facts, reason: (error as Error).message }, `unavailable: ${part}`);
      });
      return part === null ? problem('internal') : unavailable(part);
    },
    answerWithout(exchange, error) {
      failures.answerTo(exchange, error);
      exchange.cause = null;
    },
    note(exchange, answer) {
      if (answer.status !== problemOf('unavailable').status) return;
      const { error: cause, message } = answer.body as { error: string; message: string };
      exchange.cause = cause;
      count(message, exchange.id, (counted) =>
        log.warn({ ...counted, cause }, `unavailable: ${message}`),
      );
    },
  };
  return failures;
}

/** What the service lacks to serve a request just now; null if the error is no outage but a fault of this program. */
export function missingPart(error: unknown): string | null {
  if (error instanceof TooSlow) return 'The database does not answer.';
  if (error instanceof WrongClock) return 'The clocks of this service are too far apart.';
  const code = codeOf(error);
  // 53: a resource of the server; 58: the system below it; 57014: it cancelled a statement that took too long; 55P03: the lock
  // that a statement waited for
  if (code === '53100') return 'The disk of the database is full.';
  if (code === '53300') return 'The database has no connection left.';
  if (code === '25006') return 'The database is read-only.';
  if (code === '57014' || code === '55P03') return 'The database does not answer.';
  if (/^5[38]/.test(code)) return 'The database lacks a resource.';
  return isAway(error) ? 'The database is away.' : null;
}

/** Failures with the same cause are counted together. A message alone cannot be the cause, because it can contain an id. */
function causeOf(error: unknown): string {
  const code = codeOf(error);
  if (code !== '') return code;
  return error instanceof Error ? `${error.name} ${firstFrame(error)}` : typeof error;
}

const firstFrame = ({ stack = '' }: Error) => /\n +(at [^\n]*)/.exec(stack)?.[1] ?? '';

/** The parts of an error that cannot hold a caller's bytes: PostgreSQL quotes rows in `detail` and `where`. */
function loggable(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, message, stack } = error;
  const { code, routine } = error as { code?: string; routine?: string };
  return { type: name, message, code, routine, stack };
}
