/**
 * How many attempts one receiver may have under way in this process, so that a slow one cannot take
 * the places that others need.
 *
 * - Those over the limit wait in a short line, in the order in which they came. A place is handed
 *   over directly (the count does not drop in between), so one that comes later cannot slip in.
 * - Whom the line has no room for is told when to come back: a job that waits in here holds one of
 *   the process's places too. Each is given the time at which, by how long attempts at this receiver
 *   have been taking, a place will be free after all who were sent away before it. So a backlog of
 *   thousands comes back a few at a time, and a receiver that has become quick is found out within
 *   COME_BACK_LIMIT_MS.
 * - A receiver without attempts takes no memory.
 */
export type HostGate = {
  enter(host: string, signal: AbortSignal): Promise<Entry>;
  busy(host: string): { inside: number; waiting: number };
};

/** `leave` gives the place back, once; more is harmless. */
export type Entry =
  | { kind: 'inside'; leave: () => void }
  | { kind: 'full'; come_back_in_ms: number };

export type HostGateOptions = {
  places_per_host: number;
  line_per_host: number;
  /** monotonic */
  now_ms: () => number;
};

type Host = {
  inside: number;
  waiting: Array<() => void>;
  /** how long an attempt takes, the newest weighing most */
  attempt_ms: number;
  /** when the last of those who were sent away is expected to find a place */
  taken_until_ms: number;
};

const COME_BACK_LEAST_MS = 1000;
const COME_BACK_LIMIT_MS = 300_000;
const FIRST_GUESS_MS = 1000;
const NEWEST_WEIGHS = 0.2;

export function createHostGate(options: HostGateOptions): HostGate {
  const { places_per_host, line_per_host, now_ms } = options;
  const hosts = new Map<string, Host>();

  const enter = async (name: string, signal: AbortSignal): Promise<Entry> => {
    signal.throwIfAborted();
    const host = hosts.get(name) ?? newHost();
    hosts.set(name, host);
    if (host.inside < places_per_host) host.inside += 1;
    else if (host.waiting.length < line_per_host) await turn(host, signal);
    else return { kind: 'full', come_back_in_ms: comeBack(host, places_per_host, now_ms()) };
    const entered_ms = now_ms();
    return { kind: 'inside', leave: once(() => leave(name, host, now_ms() - entered_ms)) };
  };

  const leave = (name: string, host: Host, took_ms: number): void => {
    host.attempt_ms += NEWEST_WEIGHS * (took_ms - host.attempt_ms);
    const next = host.waiting.shift();
    if (next === undefined) host.inside -= 1;
    else next();
    if (host.inside === 0) hosts.delete(name);
  };

  const busy = (name: string) => {
    const host = hosts.get(name);
    return { inside: host?.inside ?? 0, waiting: host?.waiting.length ?? 0 };
  };

  return { enter, busy };
}

function newHost(): Host {
  return { inside: 0, waiting: [], attempt_ms: FIRST_GUESS_MS, taken_until_ms: 0 };
}

function comeBack(host: Host, places: number, now_ms: number): number {
  const line_ms = (host.waiting.length * host.attempt_ms) / places;
  const from_ms = Math.max(host.taken_until_ms, now_ms + line_ms);
  const until_ms = Math.min(from_ms + host.attempt_ms / places, now_ms + COME_BACK_LIMIT_MS);
  host.taken_until_ms = until_ms;
  return Math.max(COME_BACK_LEAST_MS, Math.round(until_ms - now_ms));
}

function turn(host: Host, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = () => {
      signal.removeEventListener('abort', giveUp);
      resolve();
    };
    const giveUp = () => {
      host.waiting.splice(host.waiting.indexOf(go), 1);
      reject(signal.reason);
    };
    host.waiting.push(go);
    signal.addEventListener('abort', giveUp, { once: true });
  });
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    action();
  };
}
