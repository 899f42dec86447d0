/** A request's turn at something that other requests wait for, too. */
import type { Turn, Turns } from '../../store/turns.ts';
import type { Exchange } from '../wire/exchange.ts';

/** A constant reason: AbortController would make an error with a stack each time. */
const GIVEN_UP = Symbol('given up');

/** The wait ends when the client hangs up. */
export async function takeTurn(
  turns: Turns,
  exchange: Exchange,
  owner: string,
  weight: number,
  onOverdue: () => void,
): Promise<Turn> {
  if (exchange.res.destroyed) return { kind: 'gone' };
  const cut = new AbortController();
  const onCut = () => cut.abort(GIVEN_UP);
  exchange.onCut = onCut;
  const turn = await turns.enter(owner, weight, { signal: cut.signal, onOverdue });
  if (exchange.onCut === onCut) exchange.onCut = null;
  return turn;
}
