/**
 * Who holds how many connections to a database server. A process holds at most RUNLEDGER_DATABASE_POOL of them, for all of its
 * purposes together. Each purpose gets the least that it needs; what is left goes to the purposes in their order, each up to
 * its most. A purpose that may have none uses the connections of `requests`.
 */
type Purpose = { readonly least: number; readonly most: number; readonly why: string };
type Table = Readonly<Record<string, Purpose>>;

const ONE = { least: 1, most: 1 };
const OWN = { least: 0, most: 1 };

export const CONNECTIONS = {
  web: {
    notifications: { ...ONE, why: 'listens for submissions that ended' },
    heartbeat: { ...ONE, why: 'says that the process is alive, and holds its lock' },
    maintenance: { ...OWN, why: 'seals and cleans up' },
    submitting: { ...OWN, why: 'stores submissions' },
    asking: { ...OWN, why: 'asks which submissions ended' },
    deliveries: { least: 2, most: 3, why: 'takes webhooks from the queue' },
    records: { ...ONE, why: 'reads large results and webhook bodies' },
    requests: { least: 2, most: Infinity, why: 'everything else that requests need' },
  },
  worker: {
    heartbeat: { ...ONE, why: 'says that the process is alive, and holds its lock' },
    notifications: { ...ONE, why: 'listens for submissions' },
    fetching: { ...ONE, why: 'takes submissions from the queue' },
    ends: { ...ONE, why: 'stores results' },
    statements: { least: 1, most: 3, why: 'starts, deletes and gives back' },
  },
  /** Of a web process, to the server of RUNLEDGER_READ_DATABASE_URL, beside those to the primary. */
  replica: { reads: { least: 2, most: 8, why: 'reads what has ended' } },
  command: { commands: { least: 2, most: 3, why: 'asks and answers; `verify` uses all' } },
} as const satisfies Readonly<Record<string, Table>>;

export type Holder = keyof typeof CONNECTIONS;
export type Shares<H extends Holder> = Readonly<Record<keyof (typeof CONNECTIONS)[H], number>>;

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
const purposes = (holder: Holder): [string, Purpose][] => Object.entries(CONNECTIONS[holder]);

/** The fewest with which the holder works, and the most that it can use. */
export const leastOf = (holder: Holder): number =>
  sum(purposes(holder).map(([, { least }]) => least));
export const mostOf = (holder: Holder): number => sum(purposes(holder).map(([, { most }]) => most));

export const LEAST_POOL = Math.max(leastOf('web'), leastOf('worker'));

/** How many connections each purpose gets of a pool. */
export function sharesOf<H extends Holder>(holder: H, pool: number): Shares<H> {
  let left = pool - leastOf(holder);
  if (left < 0) throw new RangeError(`${holder} needs ${leastOf(holder)} connections, not ${pool}`);
  const shares: Record<string, number> = {};
  for (const [name, { least, most }] of purposes(holder)) {
    const more = Math.min(left, most - least);
    shares[name] = least + more;
    left -= more;
  }
  return shares as Shares<H>;
}

/** How many connections the holder has at most. */
export const heldBy = (holder: Holder, pool: number): number => Math.min(pool, mostOf(holder));
