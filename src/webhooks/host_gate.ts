/**
 * Limits how many attempts one process makes at one receiver (host) at a time, so that a slow receiver cannot use up the
 * attempts that others need. Accounts take turns at a receiver, so that one account's deliveries do not delay another's.
 *
 * How it works:
 * - An attempt enters while the host is below its limit. A few more places are for accounts that have no attempt there: an
 *   account that fills a host that hangs delays its own deliveries, and not the first one of another account.
 * - A few attempts of each account wait in a line of its own. An attempt that leaves makes room for the account whose turn it
 *   is, and within its line for the first.
 * - When an account's line is full, the caller gets a time to retry after, because a job that waits in here also occupies one
 *   of the process's own slots. Each of them gets a later time: the moment at which the host should have room for it after
 *   all earlier ones of the account, judged by how long attempts at this host have been taking and by how many accounts share
 *   it. A backlog of thousands therefore returns a few at a time. A host that has become quick is noticed within
 *   RETRY_MOST_MS.
 *
 * What must stay true: a host never has more than `concurrent_per_host` and `spare_per_host` attempts together, an attempt
 * that arrives later does not overtake one that is in line, and a host without attempts uses no memory.
 */
export type HostGate = {
  enter(host: string, account: string, signal: AbortSignal): Promise<Entry>;
  busy(host: string): { inside: number; waiting: number };
};

/** Call `leave` when the attempt has ended; further calls do nothing. */
export type Entry = { kind: 'inside'; leave: () => void } | { kind: 'full'; retry_in_ms: number };

export type HostGateOptions = {
  concurrent_per_host: number;
  /** further places, for accounts that have no attempt at the host */
  spare_per_host: number;
  /** of each account; at least 1 */
  waiting_per_host: number;
  /** monotonic */
  now_ms: () => number;
};

type Host = {
  inside: number;
  /** Those that have attempts inside or in line, in the order of their turns. */
  accounts: Map<string, Account>;
  /** how long an attempt takes: a moving average */
  attempt_ms: number;
};

type Account = {
  inside: number;
  waiting: Array<() => void>;
  /** the time at which the last attempt that was sent away should find room */
  booked_until_ms: number;
};

const RETRY_LEAST_MS = 1000;
const RETRY_MOST_MS = 300_000;
const FIRST_ESTIMATE_MS = 1000;
const WEIGHT_OF_NEWEST = 0.2;

export function createHostGate(options: HostGateOptions): HostGate {
  const { concurrent_per_host, spare_per_host, waiting_per_host, now_ms } = options;
  const hosts = new Map<string, Host>();

  const mayEnter = (host: Host, account: Account): boolean =>
    host.inside < concurrent_per_host ||
    (account.inside === 0 && host.inside < concurrent_per_host + spare_per_host);

  const enter = async (name: string, account_id: string, signal: AbortSignal): Promise<Entry> => {
    signal.throwIfAborted();
    const host = hosts.get(name) ?? newHost();
    hosts.set(name, host);
    const account = host.accounts.get(account_id) ?? newAccount();
    host.accounts.set(account_id, account);
    // Where there is a place for it, none of its attempts waits: each place that becomes free is given away at once.
    if (mayEnter(host, account)) take(host, account_id, account);
    else if (account.waiting.length < waiting_per_host) {
      await inLine(account, signal).finally(() => forgetIdle(name, host, account_id));
    } else return { kind: 'full', retry_in_ms: book(host, account, concurrent_per_host, now_ms()) };
    const entered_ms = now_ms();
    const out = () => leave(name, host, account_id, now_ms() - entered_ms);
    return { kind: 'inside', leave: once(out) };
  };

  const leave = (name: string, host: Host, account_id: string, took_ms: number): void => {
    host.attempt_ms += WEIGHT_OF_NEWEST * (took_ms - host.attempt_ms);
    host.inside -= 1;
    host.accounts.get(account_id)!.inside -= 1;
    letInNext(host);
    forgetIdle(name, host, account_id);
  };

  const letInNext = (host: Host): void => {
    for (const [id, account] of host.accounts) {
      if (account.waiting.length === 0 || !mayEnter(host, account)) continue;
      take(host, id, account);
      account.waiting.shift()!();
      return;
    }
  };

  const forgetIdle = (name: string, host: Host, account_id: string): void => {
    const account = host.accounts.get(account_id);
    if (account?.inside === 0 && account.waiting.length === 0) host.accounts.delete(account_id);
    if (host.accounts.size === 0) hosts.delete(name);
  };

  const busy = (name: string) => {
    const host = hosts.get(name);
    return { inside: host?.inside ?? 0, waiting: host ? waitingAt(host) : 0 };
  };

  return { enter, busy };
}

function newHost(): Host {
  return { inside: 0, accounts: new Map(), attempt_ms: FIRST_ESTIMATE_MS };
}

function newAccount(): Account {
  return { inside: 0, waiting: [], booked_until_ms: 0 };
}

/** Its next turn comes after those of all others. */
function take(host: Host, account_id: string, account: Account): void {
  host.inside += 1;
  account.inside += 1;
  host.accounts.delete(account_id);
  host.accounts.set(account_id, account);
}

function waitingAt({ accounts }: Host): number {
  return accounts.values().reduce((sum, { waiting }) => sum + waiting.length, 0);
}

/** Books the account's next free time at a full host, and returns how far away it is. */
function book(host: Host, account: Account, concurrent: number, now_ms: number): number {
  const each_ms = host.attempt_ms / concurrent;
  const from_ms = Math.max(account.booked_until_ms, now_ms + waitingAt(host) * each_ms);
  const until_ms = Math.min(from_ms + host.accounts.size * each_ms, now_ms + RETRY_MOST_MS);
  account.booked_until_ms = until_ms;
  return Math.max(RETRY_LEAST_MS, Math.round(until_ms - now_ms));
}

/** Waits in line; rejects, and leaves the line, when the signal aborts. */
function inLine(account: Account, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = () => {
      signal.removeEventListener('abort', giveUp);
      resolve();
    };
    const giveUp = () => {
      account.waiting.splice(account.waiting.indexOf(go), 1);
      reject(signal.reason);
    };
    account.waiting.push(go);
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
