/**
 * Keys that are over their rate, as the database reported last. Until their rate resets, their requests are rejected
 * without being read and without spending in the database.
 *
 * What must stay true: this never rejects a request that the database would accept. The database reports whole seconds,
 * rounded up, so the last second is not trusted. A change of limits or keys clears everything here. The database notifies of
 * it, and an answer that it gave before may come later: so no answer to a request that began before the change is remembered.
 * Nothing notifies of the end of a secret that was rotated away: so once in a while the database is asked whether there still
 * is such a key. No request waits for that, unless nothing was heard of the key for long.
 */
import type { Caller } from '../../store/caller.ts';
import type { Results } from '../../store/results.ts';

/** Beyond this number the oldest entries are dropped, and the database is asked about those keys. */
const KEYS_MAX = 10_000;

/** After this time the database is asked again. */
const TRUSTED_MS = 1_000;
/** An expired secret is over its rate for so long at most: after this time a request waits for the answer. */
const STALE_MS = 10_000;

type OverRate = { caller: Caller; retry_after_s: number };
type Entry = {
  caller: Caller;
  until_ms: number;
  /** When the database answered last that there is such a key, or did not answer. */
  heard_ms: number;
  /** What the database is asked. */
  question: Promise<void> | null;
};

export type SpentKeys = {
  find(digest: Uint8Array): Promise<OverRate | null>;
  /** `since_ms`: when the request began. */
  remember(digest: Uint8Array, over: OverRate, since_ms: number): void;
  forget(): void;
};

export function createSpentKeys(
  { knows }: Pick<Results, 'knows'>,
  now_ms: () => number = () => performance.now(),
): SpentKeys {
  const entries = new Map<string, Entry>();
  let forgot_ms = -Infinity;

  async function ask(name: string, entry: Entry, digest: Uint8Array): Promise<void> {
    // Where the database is away, it cannot do better either.
    const exists = await knows(digest).catch(() => true);
    entry.heard_ms = now_ms();
    entry.question = null;
    if (!exists && entries.get(name) === entry) entries.delete(name);
  }

  return {
    async find(digest) {
      if (entries.size === 0) return null;
      const name = nameOf(digest);
      const entry = entries.get(name);
      if (entry === undefined) return null;
      const age_ms = now_ms() - entry.heard_ms;
      if (age_ms >= TRUSTED_MS) entry.question ??= ask(name, entry, digest);
      if (age_ms >= STALE_MS) await entry.question;
      // It has expired, or keys have changed since.
      if (entries.get(name) !== entry) return null;
      const left_s = (entry.until_ms - now_ms()) / 1000;
      if (left_s <= 1) {
        entries.delete(name);
        return null;
      }
      const { caller } = entry;
      const seconds = Math.ceil(left_s);
      const rate = { ...caller.rate, reset_s: seconds };
      return { caller: { ...caller, rate }, retry_after_s: seconds };
    },
    remember(digest, { caller, retry_after_s }, since_ms) {
      if (retry_after_s <= 1 || since_ms <= forgot_ms) return;
      if (entries.size >= KEYS_MAX) entries.delete(entries.keys().next().value!);
      const heard_ms = now_ms();
      const until_ms = heard_ms + retry_after_s * 1000;
      entries.set(nameOf(digest), { caller, until_ms, heard_ms, question: null });
    },
    forget() {
      forgot_ms = now_ms();
      entries.clear();
    },
  };
}

function nameOf(digest: Uint8Array): string {
  return Buffer.from(digest).toString('latin1');
}
