/** A request's turn at something that other requests wait for, too. */
import type { Inside, Turn, Turns } from '../../store/turns.ts';
import type { Exchange } from '../wire/exchange.ts';

/** A constant reason: AbortController would make an error with a stack each time. */
const GIVEN_UP = Symbol('given up');

/** The wait ends when the client hangs up. */
export async function takeTurn(
  turns: Turns,
  exchange: Exchange,
  owner: string,
  weight: number,
  onOverdue: () => boolean,
): Promise<Turn> {
  if (exchange.res.destroyed) return { kind: 'gone' };
  return untilCut(exchange, (signal) => turns.enter(owner, weight, { signal, onOverdue }));
}

/** The same for more weight of a turn that the request has. */
export function growTurn(turn: Inside, exchange: Exchange, more: number) {
  return untilCut(exchange, (signal) => turn.growInTurn(more, signal));
}

async function untilCut<T>(
  exchange: Exchange,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const cut = new AbortController();
  const onCut = () => cut.abort(GIVEN_UP);
  exchange.onCut = onCut;
  const outcome = await wait(cut.signal);
  if (exchange.onCut === onCut) exchange.onCut = null;
  return outcome;
}
