/**
 * What happens to submissions, for those who follow them. The feed asks the database for all of them together, a few times a
 * second: a start notifies nobody, because that would cost each start a round trip. The feed uses at most a tenth of its
 * connection's time, so with many followers it asks less often. A follower costs no connection of the database.
 */
import { type Db, isAway } from '../db.ts';

export type Happening = { version: number; type: string; at: string; facts: object };

export type Update = {
  account_id: string;
  /** Of the submission's newest event, of which type it may be. */
  version: number;
  ended: boolean;
  events: Happening[];
  /** How many tests have ended; null before the first has, and for a plain run. */
  progress: { done: number; of: number } | null;
};

export type EventFeed = {
  /** What has happened after that version; null: there is no such submission, or nothing new. */
  read(id: string, after: number): Promise<Update | null>;
  /** Calls back after each change, until it is stopped. */
  follow(id: string, after: number, onUpdate: (update: Update) => void): () => void;
  close(): void;
};

const PAUSE_MS = 200;
/** The pause is at least so many times as long as the queries took. */
const PAUSE_FACTOR = 9;
const ASK_IDS = 500;

type Follower = { after: number; onUpdate: (update: Update) => void };
type Row = Update & { id: string };

export function createEventFeed(db: Db, onFault: (error: unknown) => void): EventFeed {
  const followed = new Map<string, Set<Follower>>();
  let timer: NodeJS.Timeout | null = null;
  let closed = false;

  function schedule(ms: number): void {
    if (closed || timer !== null || followed.size === 0) return;
    timer = setTimeout(() => void ask(), ms).unref();
  }

  async function ask(): Promise<void> {
    const begun = performance.now();
    try {
      const ids = [...followed.keys()];
      for (let at = 0; at < ids.length; at += ASK_IDS) await askFor(ids.slice(at, at + ASK_IDS));
    } catch (error) {
      if (!isAway(error)) onFault(error);
    }
    timer = null;
    schedule(Math.max(PAUSE_MS, (performance.now() - begun) * PAUSE_FACTOR));
  }

  async function askFor(ids: readonly string[]): Promise<void> {
    const oldest = (id: string) =>
      Math.min(...[...(followed.get(id) ?? [])].map(({ after }) => after), 2 ** 31 - 1);
    for (const { id, ...update } of await eventsOf(db, ids, ids.map(oldest))) {
      for (const follower of [...(followed.get(id) ?? [])]) {
        const events = update.events.filter(({ version }) => version > follower.after);
        follower.after = Math.max(follower.after, update.version);
        follower.onUpdate({ ...update, events });
      }
    }
  }

  return {
    async read(id, after) {
      const [row] = await eventsOf(db, [id], [after]);
      return row ?? null;
    },
    follow(id, after, onUpdate) {
      const follower = { after, onUpdate };
      const others = followed.get(id);
      if (others) others.add(follower);
      else followed.set(id, new Set([follower]));
      schedule(PAUSE_MS);
      return () => {
        const others = followed.get(id);
        others?.delete(follower);
        if (others?.size === 0) followed.delete(id);
      };
    },
    close() {
      closed = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}

function eventsOf(db: Db, ids: readonly string[], after: readonly number[]): Promise<Row[]> {
  return db<Row[]>`
    select * from runledger.submission_events(${`{${ids.join(',')}}`}::text::uuid[], ${`{${after.join(',')}}`}::text::integer[])`;
}
