/**
 * Room for connections. Anybody can open one, and a process takes a bounded number. So when most of the room is taken, it is
 * kept for callers with a known key: the answers to others end their connections, and each new connection closes the one that
 * has shown no known key for longest. An honest caller has its answer long before that, or its key was found before its body was
 * there (receive_body.ts). Until a request spends its rate, finding its key costs nothing: so a key keeps a part of the room at
 * most for such bodies. Callers whose last requests have spent their rate keep all of theirs. A request that is over its rate
 * spends nothing.
 */
import type { Server, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Log } from '../../log.ts';
import type { Metrics } from '../../metrics.ts';
import type { Exchange } from './exchange.ts';
import { peerAddress } from './peer_address.ts';

/** Beyond this part of the room, strangers make way. */
const CROWDED = 3 / 4;
/** From a connection, or its newest request, on. By then the database has answered who it is, or there was a 503. */
const STRANGER_MS = 5_000;
/** The part of the room in which the bodies of one key may come as slowly as the request timeout lets them. */
const OF_A_KEY = 1 / 8;
const OVER_RATE = 429;
/** Between two lines of the log: thousands may be closed in a second. */
const LOG_PAUSE_MS = 10_000;

export type ConnectionRoom = {
  /** Most of the room is taken. */
  isCrowded(): boolean;
  began(exchange: Exchange): void;
  ended(exchange: Exchange): void;
};

export type RoomOptions = { most: number; log: Log; metrics: Metrics; now_ms?: () => number };

type Stranger = {
  readonly socket: Socket;
  since_ms: number;
  readonly open: Set<Exchange>;
  /** The key of its slow body. */
  key: string | null;
};

export function watchConnectionRoom(server: Server, options: RoomOptions): ConnectionRoom {
  const { most, log, metrics, now_ms = () => performance.now() } = options;
  /** The longest a stranger comes first. */
  const strangers = new Set<Stranger>();
  /** By their keys, those that would have made way if their keys had not been found. The longest there comes first. */
  const slow = new Map<string, Set<Stranger>>();
  const of_a_key = Math.max(1, Math.floor(most * OF_A_KEY));
  const of_sockets = new WeakMap<Duplex, Stranger>();
  /** Before its TLS handshake is done, by its address. */
  const unsecured = new Map<string, Stranger>();
  let count = 0;
  const closed = metrics.counter(
    'runledger_http_connections_closed_total',
    'Connections closed for want of room: the newest (full), or that of a stranger (crowded).',
    ['reason'],
  );
  closed.add({ reason: 'full' }, 0);
  closed.add({ reason: 'crowded' }, 0);
  metrics.gauge('runledger_http_connections', 'Connections of callers that are open.', () => count);
  const note = createNotes(log);

  function noteClosed(reason: 'full' | 'crowded'): void {
    closed.add({ reason });
    note();
  }

  const isCrowded = () => count > most * CROWDED;

  function makeRoom(): void {
    for (const stranger of strangers) {
      const is_caller = isCaller(stranger);
      if (!is_caller && now_ms() - stranger.since_ms < STRANGER_MS) return;
      strangers.delete(stranger);
      if (is_caller) continue;
      const key = foundKey(stranger);
      const goes = key === null ? stranger : keepSlow(stranger, key);
      if (goes === null) continue;
      goes.socket.destroy();
      noteClosed('crowded');
      return;
    }
  }

  /** The one of its key that makes way for it, if there are too many. */
  function keepSlow(stranger: Stranger, key: string): Stranger | null {
    const same = slow.get(key) ?? new Set();
    slow.set(key, same.add(stranger));
    stranger.key = key;
    // Those whose bodies have come are callers by now. This one is none.
    if (same.size > of_a_key) for (const one of same) if (isCaller(one)) leaveSlow(one);
    if (same.size <= of_a_key) return null;
    const [longest] = same;
    leaveSlow(longest!);
    return longest!;
  }

  function leaveSlow(stranger: Stranger): void {
    const { key } = stranger;
    if (key === null) return;
    stranger.key = null;
    const same = slow.get(key)!;
    same.delete(stranger);
    if (same.size === 0) slow.delete(key);
  }

  /** A stranger again, from now on. */
  function returns(stranger: Stranger): void {
    stranger.since_ms = now_ms();
    strangers.add(stranger);
  }

  server.maxConnections = most;
  server.on('drop', () => {
    noteClosed('full');
    // So the next one finds a place, even if no caller leaves.
    makeRoom();
  });
  server.on('connection', (socket: Socket) => {
    const stranger: Stranger = { socket, since_ms: now_ms(), open: new Set(), key: null };
    const name = peerAddress(socket);
    count += 1;
    strangers.add(stranger);
    of_sockets.set(socket, stranger);
    unsecured.set(name, stranger);
    socket.once('close', () => {
      count -= 1;
      strangers.delete(stranger);
      leaveSlow(stranger);
      if (unsecured.get(name) === stranger) unsecured.delete(name);
    });
    if (isCrowded()) makeRoom();
  });
  // Node gives the requests this socket, and not the one above.
  server.on('secureConnection', (socket: Socket) => {
    const stranger = unsecured.get(peerAddress(socket));
    if (stranger !== undefined) of_sockets.set(socket, stranger);
  });
  return {
    isCrowded,
    began(exchange) {
      const stranger = of_sockets.get(exchange.req.socket);
      stranger?.open.add(exchange);
      if (stranger !== undefined && strangers.delete(stranger)) returns(stranger);
    },
    ended(exchange) {
      const stranger = of_sockets.get(exchange.req.socket);
      if (stranger === undefined) return;
      stranger.open.delete(exchange);
      leaveSlow(stranger);
      if (hasSpent(exchange)) strangers.delete(stranger);
      else if (!stranger.socket.destroyed && !strangers.has(stranger)) returns(stranger);
    },
  };
}

/** Its caller is known, and it was not answered that the rate is spent already. */
export const hasSpent = ({ caller, res }: Exchange, status = res.statusCode): boolean =>
  caller !== null && status !== OVER_RATE;

const isCaller = ({ open }: Stranger) => [...open].some((exchange) => hasSpent(exchange));

function foundKey({ open }: Stranger): string | null {
  const found = [...open].find(({ has_known_key }) => has_known_key);
  return found === undefined ? null : Buffer.from(found.presented!).toString('latin1');
}

/** Logs the first at once, and those that follow together. */
function createNotes(log: Log): () => void {
  let since: number | null = null;
  const write = (connections: number) => {
    since = 0;
    log.warn(
      {
        connections,
        remedy: 'limit the connections of an address in the router, or raise the limit',
      },
      'connections were closed: RUNLEDGER_CONNECTIONS_MAX leaves no more room',
    );
    setTimeout(next, LOG_PAUSE_MS).unref();
  };
  const next = () => {
    const more = since ?? 0;
    since = null;
    if (more > 0) write(more);
  };
  return () => {
    if (since === null) write(1);
    else since += 1;
  };
}
