/** Holding a request until its submission has ended. */
import type { ResultRow } from '../domain/record.ts';
import type { Exchange } from './exchange.ts';
import { parsePreferWait } from './header_values.ts';
import type { FieldFault } from './problem.ts';
import type { Web } from './web.ts';

export type Wish = {
  /** how long to hold; null: not at all */
  hold_ms: number | null;
  /** said as a preference: the time's end is then no failure */
  preferred: boolean;
  /** what is said of it in Preference-Applied */
  applied: Record<string, string>;
};

/** `?wait=` is a demand and decides; `Prefer: wait=N` is heard where it is not there. */
export function readWish(
  query: URLSearchParams,
  prefer: string | undefined,
  cap_ms: number,
  faults: FieldFault[],
): Wish {
  const waits = query.getAll('wait');
  if (waits.length > 1) faults.push({ path: '?wait', message: 'is given more than once' });
  if (waits.length > 0) {
    const [wait] = waits;
    if (wait !== 'true' && wait !== 'false') {
      faults.push({ path: '?wait', message: 'must be true or false' });
    }
    return { hold_ms: wait === 'true' ? cap_ms : null, preferred: false, applied: {} };
  }
  const preferred_s = parsePreferWait(prefer);
  if (preferred_s === null) return { hold_ms: null, preferred: false, applied: {} };
  const hold_ms = Math.min(preferred_s * 1000, cap_ms);
  const applied = { 'Preference-Applied': `wait=${Math.floor(hold_ms / 1000)}` };
  return { hold_ms, preferred: true, applied };
}

/** A misspelt parameter must not be dropped in silence, as little as a misspelt field. */
export function refuseUnknownParameters(
  query: URLSearchParams,
  known: readonly string[],
  faults: FieldFault[],
): void {
  for (const name of new Set(query.keys())) {
    if (known.includes(name) || faults.length >= 100) continue;
    const shown = name.toWellFormed().slice(0, 64);
    faults.push({
      path: `?${shown}`,
      message: `is not a parameter here; there is ${known.join(', ')}`,
    });
  }
}

export type Hold = {
  /** The ended record; null when time is up or we stop; 'gone' when the client hung up. */
  readonly row: Promise<ResultRow | null | 'gone'>;
  /** It is not waited for any more. */
  drop(): void;
};

/** A reason of its own, made once: AbortController would make an error with a stack each time. */
const GIVEN_UP = Symbol('given up');

/** unborn: the hold begins before the submission is made, so that the word of its end cannot be missed. */
export function hold(
  web: Web,
  exchange: Exchange,
  id: string,
  { timeout_ms, unborn = false }: { timeout_ms: number; unborn?: boolean },
): Hold {
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
  const waiting = web.waiters.wait(id, { timeout_ms, signal: ended.signal, unborn });
  const row = waiting.then((found) => {
    // A hold that was dropped may have been followed by another.
    if (exchange.onCut === onCut) exchange.onCut = null;
    return gone ? 'gone' : found;
  });
  return { row, drop: giveUp };
}
