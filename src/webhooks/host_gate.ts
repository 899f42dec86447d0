/**
 * Limits how many attempts one process makes at one receiver (host) at a time, so that a slow
 * receiver cannot use up the attempts that others need.
 *
 * How it works:
 * - An attempt enters while the host is below its limit. A few more wait in a line, first in, first
 *   out. An attempt that leaves hands its permission to the first in line without lowering the
 *   count, so an attempt that arrives later cannot slip in between.
 * - When the line is full, the caller gets a time to retry after, because a job that waits in here
 *   also occupies one of the process's own slots. Each of them gets a later time: the moment at which
 *   the host should have room for it after all earlier ones, judged by how long attempts at this
 *   host have been taking. A backlog of thousands therefore returns a few at a time. A host that has
 *   become quick is noticed within RETRY_MOST_MS.
 *
 * What must stay true: a host never has more than `concurrent_per_host` attempts, and a host without
 * attempts uses no memory.
 */
export type HostGate = {
  enter(host: string, signal: AbortSignal): Promise<Entry>;
  busy(host: string): { inside: number; waiting: number };
};

/** Call `leave` when the attempt has ended; further calls do nothing. */
export type Entry = { kind: 'inside'; leave: () => void } | { kind: 'full'; retry_in_ms: number };

export type HostGateOptions = {
  concurrent_per_host: number;
  waiting_per_host: number;
  /** monotonic */
  now_ms: () => number;
};

type Host = {
  inside: number;
  waiting: Array<() => void>;
  /** how long an attempt takes: a moving average */
  attempt_ms: number;
  /** the time at which the last attempt that was sent away should find room */
  booked_until_ms: number;
};

const RETRY_LEAST_MS = 1000;
const RETRY_MOST_MS = 300_000;
const FIRST_ESTIMATE_MS = 1000;
const WEIGHT_OF_NEWEST = 0.2;

export function createHostGate(options: HostGateOptions): HostGate {
  const { concurrent_per_host, waiting_per_host, now_ms } = options;
  const hosts = new Map<string, Host>();

  const enter = async (name: string, signal: AbortSignal): Promise<Entry> => {
    signal.throwIfAborted();
    const host = hosts.get(name) ?? newHost();
    hosts.set(name, host);
    if (host.inside < concurrent_per_host) host.inside += 1;
    else if (host.waiting.length < waiting_per_host) await turn(host, signal);
    else return { kind: 'full', retry_in_ms: book(host, concurrent_per_host, now_ms()) };
    const entered_ms = now_ms();
    return { kind: 'inside', leave: once(() => leave(name, host, now_ms() - entered_ms)) };
  };

  const leave = (name: string, host: Host, took_ms: number): void => {
    host.attempt_ms += WEIGHT_OF_NEWEST * (took_ms - host.attempt_ms);
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
  return { inside: 0, waiting: [], attempt_ms: FIRST_ESTIMATE_MS, booked_until_ms: 0 };
}

/** Books the next free time of a full host, and returns how far away it is. */
function book(host: Host, concurrent: number, now_ms: number): number {
  const line_ms = (host.waiting.length * host.attempt_ms) / concurrent;
  const from_ms = Math.max(host.booked_until_ms, now_ms + line_ms);
  const until_ms = Math.min(from_ms + host.attempt_ms / concurrent, now_ms + RETRY_MOST_MS);
  host.booked_until_ms = until_ms;
  return Math.max(RETRY_LEAST_MS, Math.round(until_ms - now_ms));
}

/** Waits in line; rejects, and leaves the line, when the signal aborts. */
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
