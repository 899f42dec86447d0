/**
 * Counts rejected requests in memory and adds the counts to the database every few seconds (sql/functions/refusals.sql): no
 * rejected request writes anything.
 *
 * What must stay true: memory and table are bounded, whatever strangers send. Beyond ENTRIES_MAX entries between two
 * flushes, callers without a known key are counted together. While the database is away the counts stay here, within the same bound.
 */
import { type Db, hex, isAway } from '../db.ts';

const FLUSH_MS = 5_000;
const ENTRIES_MAX = 1_000;
const HOUR_MS = 3_600_000;

export type Refused = {
  /** The word of the error. */
  error: string;
  /** Null: the request ended before its key was known. */
  key_id: string | null;
  /** SHA-256 of the presented key; null: none, or none that is well formed. */
  digest: Uint8Array | null;
  request_id: string;
};

export type Refusals = {
  count(refused: Refused): void;
  /** Stores what is counted here. Happens every few seconds, too. */
  flush(): Promise<void>;
  /** Stores what is still counted here, if the database is there. */
  close(): Promise<void>;
};

type Entry = {
  hour: Date;
  error: string;
  key_id: string | null;
  digest: string | null;
  requests: number;
  last_at: Date;
  last_request_id: string;
};

export function createRefusals(
  db: Db,
  onError: (error: unknown) => void,
  now: () => Date = () => new Date(),
): Refusals {
  let entries = new Map<string, Entry>();
  let flushing: Promise<void> | null = null;

  async function flush(): Promise<void> {
    if (entries.size === 0) return;
    const batch = entries;
    entries = new Map();
    try {
      await db`select runledger.count_refusals(${JSON.stringify([...batch.values()])}::text::jsonb)`;
    } catch (error) {
      if (isAway(error)) for (const entry of batch.values()) add(entry);
      else onError(error);
    }
  }

  function add(entry: Entry): void {
    const { hour, error } = entry;
    const caller = entry.key_id ?? entry.digest;
    const nameOf = (caller: string | null) => `${hour.getTime()} ${error} ${caller}`;
    const full =
      entry.key_id === null && entries.size >= ENTRIES_MAX && !entries.has(nameOf(caller));
    const kept = full ? { ...entry, digest: OTHERS } : entry;
    const name = nameOf(full ? OTHERS : caller);
    const before = entries.get(name);
    if (before === undefined) entries.set(name, kept);
    else {
      before.requests += entry.requests;
      if (entry.last_at >= before.last_at) {
        before.last_at = entry.last_at;
        before.last_request_id = entry.last_request_id;
      }
    }
  }

  const timer = setInterval(() => {
    flushing ??= flush().finally(() => {
      flushing = null;
    });
  }, FLUSH_MS).unref();

  return {
    count({ error, key_id, digest, request_id: last_request_id }) {
      const last_at = now();
      const hour = new Date(Math.floor(last_at.getTime() / HOUR_MS) * HOUR_MS);
      const shown = key_id === null && digest !== null ? hex(digest) : null;
      add({ hour, error, key_id, digest: shown, requests: 1, last_at, last_request_id });
    },
    flush,
    async close() {
      clearInterval(timer);
      await flushing;
      await flush();
    },
  };
}

/** In the place of a digest: no digest has this prefix, so the table counts it as 'others'. */
const OTHERS = 'others';
