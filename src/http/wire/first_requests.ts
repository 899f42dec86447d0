/**
 * Lets new connections speak a few at a time when many come at once. Node reads from each connection that has something to
 * read before it does anything else, so the first requests of a thousand connections make one turn of the event loop that all
 * others wait for, several times for each of their requests.
 *
 * A connection that has brought a request before is never held back: who is being served goes on. When one turn has brought
 * many first requests, the connections that have not brought any rest, and so do those that come then. Each turn lets some of
 * them speak, the longest there first: more while turns are short, and fewer while they are long.
 */
import type { Duplex } from 'node:stream';

export type FirstRequests = {
  connected(socket: Duplex): void;
  /** It has brought a request. */
  requested(socket: Duplex): void;
};

/** Of one turn, before the others rest. A first request costs up to half a millisecond, most of it for its first bytes. */
const OF_A_TURN = 8;
/** So many may speak in each turn while they rest. */
const FEWEST = 2;
const MOST = 64;
/** A turn that took less was short. */
const SHORT_MS = 5;

export function createFirstRequests(now: () => number = () => performance.now()): FirstRequests {
  const silent = new Set<Duplex>();
  const resting = new Set<Duplex>();
  let in_turn = 0;
  let at_once = FEWEST;
  let turned_ms = 0;

  function rest(socket: Duplex): void {
    silent.delete(socket);
    if (resting.size === 0) {
      turned_ms = now();
      setImmediate(letSome);
    }
    resting.add(socket);
    socket.pause();
  }

  function letSome(): void {
    const took_ms = now() - turned_ms;
    turned_ms += took_ms;
    at_once = took_ms < SHORT_MS ? Math.min(at_once * 2, MOST) : Math.max(at_once / 2, FEWEST);
    for (const socket of resting.values().take(at_once)) {
      resting.delete(socket);
      silent.add(socket);
      socket.resume();
    }
    if (resting.size > 0) setImmediate(letSome);
  }

  return {
    connected(socket) {
      socket.once('close', () => {
        silent.delete(socket);
        resting.delete(socket);
      });
      if (resting.size > 0) rest(socket);
      else silent.add(socket);
    },
    requested(socket) {
      if (!silent.delete(socket)) return;
      if (in_turn === 0)
        setImmediate(() => {
          in_turn = 0;
        });
      in_turn += 1;
      if (in_turn === OF_A_TURN) for (const other of silent) rest(other);
    },
  };
}
