/**
 * Lets new connections speak a few at a time when many come at once. Node reads from each connection that has something to
 * read before it does anything else, so the first requests of a thousand connections make one turn of the event loop that all
 * others wait for, several times for each of their requests.
 *
 * A connection that has brought a request before is never held back: who is being served goes on. When one turn has brought
 * many first requests, the connections that have not brought any rest, and so do those that come then. Each turn lets some of
 * them speak, the longest there first: more while turns are short, and fewer while they are long, but so many that each has
 * had its chance after some seconds. One that has had it and said nothing may have to rest again.
 */
import type { Duplex } from 'node:stream';
import { stopReading } from './stop_reading.ts';

export type FirstRequests = {
  connected(socket: Duplex): void;
  /** It has brought a request, or what is none. */
  spoke(socket: Duplex): void;
};

/** Of one turn, before the others rest. A first request costs up to half a millisecond, most of it for its first bytes. */
const OF_A_TURN = 8;
/** So many may speak in each turn while they rest. */
const FEWEST = 2;
const MOST = 64;
/** A turn that took less was short. */
const SHORT_MS = 2;
/** Half of the time in which the head of a request has to come. */
const REST_MS = 5_000;

export function createFirstRequests(now: () => number = () => performance.now()): FirstRequests {
  const silent = new Set<Duplex>();
  const resting = new Set<Duplex>();
  /** It is their turn to speak. */
  const chosen = new Set<Duplex>();
  /** The most that rested at a time, since some do. */
  let rested = 0;
  let in_turn = 0;
  let at_once = FEWEST;
  let turned_ms = 0;
  let has_next_turn = false;

  function rest(socket: Duplex): void {
    silent.delete(socket);
    // Also when none rests any more, there may be one for those whose turn it was.
    if (!has_next_turn) {
      has_next_turn = true;
      turned_ms = now();
      setImmediate(nextTurn);
    }
    resting.add(socket);
    rested = Math.max(rested, resting.size);
    stopReading(socket);
  }

  function nextTurn(): void {
    for (const socket of chosen) silent.add(socket);
    chosen.clear();
    const took_ms = now() - turned_ms;
    turned_ms += took_ms;
    at_once = took_ms < SHORT_MS ? Math.min(at_once * 2, MOST) : Math.max(at_once / 2, FEWEST);
    const due = Math.ceil((rested * took_ms) / REST_MS);
    for (const socket of resting.values().take(Math.max(at_once, due))) {
      resting.delete(socket);
      chosen.add(socket);
      socket.resume();
    }
    if (resting.size === 0) rested = 0;
    has_next_turn = resting.size + chosen.size > 0;
    if (has_next_turn) setImmediate(nextTurn);
  }

  return {
    connected(socket) {
      socket.once('close', () => {
        for (const sockets of [silent, resting, chosen]) sockets.delete(socket);
      });
      // Node makes each new connection flow, a tick later than this.
      socket.on('resume', () => {
        if (resting.has(socket)) stopReading(socket);
      });
      if (resting.size > 0) rest(socket);
      else silent.add(socket);
    },
    spoke(socket) {
      // What came with a TLS handshake is read in any case.
      if (resting.delete(socket)) socket.resume();
      else if (!silent.delete(socket) && !chosen.delete(socket)) return;
      if (in_turn === 0)
        setImmediate(() => {
          in_turn = 0;
        });
      in_turn += 1;
      if (in_turn === OF_A_TURN) for (const other of silent) rest(other);
    },
  };
}
