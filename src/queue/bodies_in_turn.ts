/**
 * Makes large bodies of webhooks one after the other, accounts in turn. The thread that makes them also reads large results, in the
 * order in which it is asked: a hundred bodies at once would keep all results waiting for seconds.
 */
import type { ResultRow } from '../domain/record.ts';
import { createTurns } from '../store/turns.ts';

type MakeBody = (row: ResultRow) => Promise<Uint8Array>;

/** After that long a body is made beside others: its attempt has a time limit, and holds a place at its receiver. */
const PATIENCE_MS = 30_000;

export function bodiesInTurn(make: MakeBody, waiting: number): MakeBody {
  const turns = createTurns({
    ...{ most: 1, each: 1, waiting, patience_ms: PATIENCE_MS, hold_ms: Number.POSITIVE_INFINITY },
  });
  return async (row) => {
    const { signal } = new AbortController();
    const turn = await turns.enter(row.account_id, 1, { signal, onOverdue: () => false });
    try {
      return await make(row);
    } finally {
      if (turn.kind === 'inside') turn.leave();
    }
  };
}
