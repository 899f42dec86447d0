/**
 * Limits how many attempts one process makes at one receiver (host) at a time, so that a slow receiver cannot use up the
 * attempts that others need. Accounts take turns at a receiver, so that one account's deliveries do not delay another's.
 *
 * How it works:
 * - An attempt enters while the host is below its limit. A few more places are for accounts that have no attempt there: an
 *   account that fills a host that hangs delays its own deliveries, and not the first one of another account.
 * - A few attempts of each account wait in a line of its own. An attempt that leaves makes room for the account whose turn it
 *   is, and within its line for the first.
 * - An account holds no more attempts of this process, inside and in line at all hosts together, than are left free. So one
 *   with very many hosts that hang delays its own deliveries: of 100 attempts it holds 50, and a second such account 25.
 * - When an account's line or its share of the process is full, the caller gets a time to retry after, because a job that
 *   waits in here also occupies one of the process's own slots. Each of them gets a later time: the moment at which there should
 *   be room for it after all earlier ones of the account, judged by how long attempts have been taking, and at a host also by
 *   how many accounts share it. A backlog of thousands therefore returns a few at a time. A host that has become quick is
 *   noticed within RETRY_MOST_MS.
 *
 * What must stay true: a host never has more than `concurrent_per_host` and `spare_per_host` attempts together, an attempt
 * that arrives later does not overtake one that is in line, and a host without attempts uses no memory.
 */
export type HostGate = {
  enter(host: string, account: string, signal: AbortSignal): Promise<Entry>;
  busy(host: string): { inside: number; waiting: number };
};

/**
 * Call `leave` when the attempt has ended, with how long the receiver took, if it was asked: what our database takes before and
 * after that says nothing of the receiver. Further calls do nothing.
 */
export type Entry = { kind: 'inside'; leave: Leave } | Full;
export type Leave = (attempt_ms?: number) => void;

/** attempt_ms: how long attempts take at the host, or those of the account where its share of the process is full. */
export type Full = { kind: 'full'; retry_in_ms: number; attempt_ms: number };

export type HostGateOptions = {
  /** the attempts of this process, at all hosts together */
  at_once: number;
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

/** The time at which the last attempt that was sent away should find room. */
type Booked = { booked_until_ms: number };

type Account = Booked & { inside: number; waiting: Array<() => void> };

/** What an account has of the process. */
type Share = Booked & {
  /** inside and in line, at all hosts */
  held: number;
  attempt_ms: number;
};

const RETRY_LEAST_MS = 1000;
const RETRY_MOST_MS = 300_000;
const FIRST_ESTIMATE_MS = 1000;
const WEIGHT_OF_NEWEST = 0.2;

export function createHostGate(options: HostGateOptions): HostGate {
  const { at_once, concurrent_per_host, spare_per_host, waiting_per_host, now_ms } = options;
  const hosts = new Map<string, Host>();
  const shares = new Map<string, Share>();
  let held = 0;

  const mayEnter = (host: Host, account: Account): boolean =>
    host.inside < concurrent_per_host ||
    (account.inside === 0 && host.inside < concurrent_per_host + spare_per_host);

  const enter = async (name: string, account_id: string, signal: AbortSignal): Promise<Entry> => {
    signal.throwIfAborted();
    const host = hosts.get(name) ?? newHost();
    hosts.set(name, host);
    const account = host.accounts.get(account_id) ?? newAccount();
    host.accounts.set(account_id, account);
    const share = shares.get(account_id) ?? newShare();
    const has_room = share.held < at_once - held;
    const enters = has_room && mayEnter(host, account);
    if (!enters && !(has_room && account.waiting.length < waiting_per_host)) {
      const retry_in_ms = has_room ? bookAt(host, account) : bookIn(share);
      forgetIdle(name, host, account_id);
      const { attempt_ms } = has_room ? host : share;
      return { kind: 'full', retry_in_ms, attempt_ms };
    }
    hold(account_id, share);
    // Where there is a place for it, none of its attempts waits: each place that becomes free is given away at once.
    if (enters) take(host, account_id, account);
    else {
      await inLine(account, signal)
        .catch((reason) => {
          release(account_id, share);
          throw reason;
        })
        .finally(() => forgetIdle(name, host, account_id));
    }
    const out: Leave = (took_ms) => leave(name, host, account_id, took_ms);
    return { kind: 'inside', leave: once(out) };
  };

  const leave = (name: string, host: Host, account_id: string, took_ms?: number): void => {
    const share = shares.get(account_id)!;
    if (took_ms !== undefined)
      for (const average of [host, share])
        average.attempt_ms += WEIGHT_OF_NEWEST * (took_ms - average.attempt_ms);
    host.inside -= 1;
    release(account_id, share);
    host.accounts.get(account_id)!.inside -= 1;
    letInNext(host);
    forgetIdle(name, host, account_id);
  };

  const hold = (account_id: string, share: Share): void => {
    held += 1;
    share.held += 1;
    shares.set(account_id, share);
  };

  const release = (account_id: string, share: Share): void => {
    held -= 1;
    share.held -= 1;
    if (share.held === 0) shares.delete(account_id);
  };

  const bookAt = (host: Host, account: Account): number => {
    const each_ms = host.attempt_ms / concurrent_per_host;
    return book(account, now_ms(), waitingAt(host) * each_ms, host.accounts.size * each_ms);
  };

  const bookIn = (share: Share): number =>
    book(share, now_ms(), 0, share.attempt_ms / Math.max(share.held, 1));

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

function newShare(): Share {
  return { held: 0, booked_until_ms: 0, attempt_ms: FIRST_ESTIMATE_MS };
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

/** Books the next free time behind those `ahead`, and returns how far away it is. */
function book(line: Booked, now_ms: number, ahead_ms: number, each_ms: number): number {
  const from_ms = Math.max(line.booked_until_ms, now_ms + ahead_ms);
  line.booked_until_ms = Math.min(from_ms + each_ms, now_ms + RETRY_MOST_MS);
  return Math.max(RETRY_LEAST_MS, Math.round(line.booked_until_ms - now_ms));
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

function once(action: Leave): Leave {
  let done = false;
  return (attempt_ms) => {
    if (done) return;
    done = true;
    action(attempt_ms);
  };
}
