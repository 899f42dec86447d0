/**
 * Room for uploads of test sets, in two steps, because one takes as long as its client likes and the other is dear:
 *   - While its archive arrives, an upload takes only a file on the disk. A process receives many at once, and of one account
 *     only one, so that slow clients of some accounts keep nobody else out. It may take longer than other requests, if each
 *     time of theirs brings a least number of bytes. Where all room is taken, the slowest of those that do is cut for another
 *     account. So nobody is kept out for longer than one such time, and that only by those who take no more either.
 *   - Reading and storing the archive takes memory, a database connection and processor time. A process does that for few at
 *     once. The others wait in line with their files, because to send an archive again is dearer than to wait.
 */
import { UPLOAD_BYTES_PER_S } from '../../domain/upload_pace.ts';
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
  /**
   * 'own': the account sends another one; 'full': there is no room now. `cut`: its connection has to be closed, and why; it
   * has no room any more.
   */
  enter(account_id: string, cut: (why: string) => void): Arrival | 'own' | 'full';
  /** When it is its turn, stores what has arrived. Null: the client is gone. */
  inTurn(
    exchange: Exchange,
    account_id: string,
    store: () => Promise<Answer | null>,
  ): Promise<Answer | null>;
};

/** One upload, from its key to its answer. */
export type Arrival = {
  /** So many more bytes have come. */
  came(bytes: number): void;
  /** All of it is there. */
  arrived(): void;
  /** Gives the room back; it may be called again. */
  leave(): void;
};

export type UploadsOptions = {
  /** That of all requests. */
  window_ms: number;
  received?: number;
  stored?: TurnsOptions;
  /** Gives what ends it. */
  every?: (look: () => void, ms: number) => () => void;
};

type Arriving = {
  readonly end: (why: string) => void;
  /** In its time that passes now, and in the one before; null: it is in its first. */
  bytes: number;
  before: number | null;
};

export function createUploads(options: UploadsOptions): Uploads {
  const { window_ms, received = RECEIVED, stored = STORED, every = everyTime } = options;
  const least_bytes = (UPLOAD_BYTES_PER_S * window_ms) / 1_000;
  const accounts = new Set<string>();
  const arriving = new Set<Arriving>();
  const turns: Turns = createTurns(stored);

  function makeRoom(): boolean {
    let slowest: Arriving | null = null;
    for (const one of arriving)
      if (one.before !== null && one.before < (slowest?.before ?? Number.POSITIVE_INFINITY))
        slowest = one;
    slowest?.end('its room was needed');
    return slowest !== null;
  }

  function look(one: Arriving): void {
    if (one.bytes < least_bytes) one.end('too slow');
    one.before = one.bytes;
    one.bytes = 0;
  }

  return {
    enter(account_id, cut) {
      if (accounts.has(account_id)) return 'own';
      if (accounts.size >= received && !makeRoom()) return 'full';
      accounts.add(account_id);
      let left = false;
      const arrived = () => {
        arriving.delete(one);
        stopLooking();
      };
      const leave = () => {
        arrived();
        if (!left) accounts.delete(account_id);
        left = true;
      };
      const end = (why: string) => {
        leave();
        cut(why);
      };
      const one: Arriving = { end, bytes: 0, before: null };
      const stopLooking = every(() => look(one), window_ms);
      arriving.add(one);
      const came = (bytes: number) => {
        one.bytes += bytes;
      };
      return { came, arrived, leave };
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

/** The clients try six times. With these pauses, that is as long as the storing of an archive may take. */
const OWN_RETRY_S = 30;

export const ownIsStored = (): Answer =>
  unavailable(
    'Your account is sending another test set to this process: wait until that one is stored.',
    OWN_RETRY_S,
  );

export const othersAreStored = (): Answer =>
  unavailable('Other test sets are being stored: try again soon.');

function everyTime(look: () => void, ms: number): () => void {
  const timer = setInterval(look, ms).unref();
  return () => clearInterval(timer);
}
