/**
 * Room for uploads of test sets, in two steps, because one takes as long as its client likes and the other is dear:
 *   - While its archive arrives, an upload takes only a file on the disk. A process receives many at once, and of one account
 *     only one, so that slow clients of some accounts keep nobody else out.
 *   - Reading and storing the archive takes memory, a database connection and processor time. A process does that for few at
 *     once. The others wait in line with their files, because to send an archive again is dearer than to wait.
 */
import { createTurns, type Turns, type TurnsOptions } from '../../store/turns.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { unavailable } from '../wire/problem.ts';
import { takeTurn } from './take_turn.ts';

/** Files at a time: by default 4 GiB at most, which the disk has to have free. Each account that is slow takes one. */
const RECEIVED = 16;
/** Some large sets before it are stored in that time. Those that arrived all fit into the line. */
export const STORED: TurnsOptions = {
  most: 2,
  each: 1,
  waiting: RECEIVED,
  patience_ms: 30_000,
  hold_ms: Number.POSITIVE_INFINITY,
};

export type Uploads = {
  /** Null: there is no room now. Else what gives the room back; it may be called again. */
  enter(account_id: string): (() => void) | null;
  /** When it is its turn, stores what has arrived. Null: the client is gone. */
  inTurn(
    exchange: Exchange,
    account_id: string,
    store: () => Promise<Answer | null>,
  ): Promise<Answer | null>;
};

export function createUploads(received = RECEIVED, stored = STORED): Uploads {
  const accounts = new Set<string>();
  const turns: Turns = createTurns(stored);
  return {
    enter(account_id) {
      if (accounts.size >= received || accounts.has(account_id)) return null;
      accounts.add(account_id);
      let left = false;
      return () => {
        if (!left) accounts.delete(account_id);
        left = true;
      };
    },
    async inTurn(exchange, account_id, store) {
      const turn = await takeTurn(turns, exchange, account_id, 1, () => false);
      if (turn.kind === 'gone') return null;
      if (turn.kind !== 'inside') return othersAreStored();
      try {
        return await store();
      } finally {
        turn.leave();
      }
    },
  };
}

export const othersAreStored = (): Answer =>
  unavailable('Other test sets are being stored: try again soon.');
