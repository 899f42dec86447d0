/** Requests that wait until their submission has ended. */
import type { ResultRow, SummaryRow } from '../../domain/record.ts';
import type { Exchange } from '../wire/exchange.ts';
import { parsePreferWait } from '../wire/header_values.ts';
import type { FieldError } from '../wire/problem.ts';
import type { Web } from './api_call.ts';

/** What a request asks for by `?wait=` or by `Prefer: wait=N`. */
export type WaitWish = {
  /** null: don't wait */
  timeout_ms: number | null;
  /** asked for as a preference: then the end of the wait is no error */
  preferred: boolean;
  /** the Preference-Applied header, where there is one */
  applied: Record<string, string>;
};

/** `?wait=` decides; `Prefer: wait=N` counts where it is absent. */
export function readWaitWish(
  query: URLSearchParams,
  prefer: string | undefined,
  cap_ms: number,
  errors: FieldError[],
): WaitWish {
  const waits = query.getAll('wait');
  if (waits.length > 1) errors.push({ path: '?wait', message: 'is given more than once' });
  if (waits.length > 0) {
    const [wait] = waits;
    if (wait !== 'true' && wait !== 'false') {
      errors.push({ path: '?wait', message: 'must be true or false' });
    }
    return { timeout_ms: wait === 'true' ? cap_ms : null, preferred: false, applied: {} };
  }
  const preferred_s = parsePreferWait(prefer);
  if (preferred_s === null) return { timeout_ms: null, preferred: false, applied: {} };
  const timeout_ms = Math.min(preferred_s * 1000, cap_ms);
  const applied = { 'Preference-Applied': `wait=${Math.floor(timeout_ms / 1000)}` };
  return { timeout_ms, preferred: true, applied };
}

/** A misspelt parameter is an error, like a misspelt field: it must not be ignored silently. */
export function rejectUnknownParameters(
  query: URLSearchParams,
  known: readonly string[],
  errors: FieldError[],
): void {
  const there = known.length > 0 ? `there is ${known.join(', ')}` : 'this call has none';
  for (const name of new Set(query.keys())) {
    if (known.includes(name) || errors.length >= 100) continue;
    const shown = name.slice(0, 64).toWellFormed();
    errors.push({
      path: `?${shown}`,
      message: `is not a parameter here; ${there}`,
    });
  }
}

export type Waiting<T = ResultRow> = {
  /** What ended; null when time is up or this process stops; 'gone' when the client hung up. */
  readonly row: Promise<T | null | 'gone'>;
  /** Stops waiting. */
  drop(): void;
};

/** A constant reason: AbortController would make an error with a stack each time. */
const GIVEN_UP = Symbol('given up');

/** `unborn`: the wait starts before the submission is stored, so that the notification of its end cannot be missed. */
export const waitForEnd = (
  web: Web,
  exchange: Exchange,
  id: string,
  options: { timeout_ms: number; unborn?: boolean },
): Waiting => held(exchange, (signal) => web.waiters.wait(id, { ...options, signal }));

/** The wait for the ends of all of these. */
export const waitForAll = (
  web: Web,
  exchange: Exchange,
  ids: readonly string[],
  timeout_ms: number,
): Waiting<SummaryRow[]> =>
  held(exchange, (signal) => web.waiters.waitForAll(ids, { timeout_ms, signal }));

function held<T>(exchange: Exchange, wait: (signal: AbortSignal) => Promise<T | null>): Waiting<T> {
  const { res } = exchange;
  if (res.destroyed || res.writableEnded) return { row: Promise.resolve('gone'), drop: () => {} };
  const ended = new AbortController();
  let gone = false;
  const onCut = () => {
    gone = true;
    giveUp();
  };
  exchange.onCut = onCut;
  const giveUp = () => ended.abort(GIVEN_UP);
  const row = wait(ended.signal).then((found) => {
    // A wait that was dropped may have been followed by another one.
    if (exchange.onCut === onCut) exchange.onCut = null;
    return gone ? 'gone' : found;
  });
  return { row, drop: giveUp };
}
