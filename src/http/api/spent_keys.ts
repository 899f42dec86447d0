/**
 * Keys that are over their rate, as the database reported last. Until their rate resets, their requests are rejected
 * without being read and without spending in the database.
 *
 * What must stay true: this never rejects a request that the database would accept. The database reports whole seconds,
 * rounded up, so the last second is not trusted; and a change of limits or keys clears everything here (the database
 * notifies of it). Nothing notifies of the end of a secret that was rotated away: so once in a while the database is asked
 * whether there still is such a key.
 */
import type { Caller } from '../../store/caller.ts';
import type { Results } from '../../store/results.ts';

/** Beyond this number the oldest entries are dropped, and the database is asked about those keys. */
const KEYS_MAX = 10_000;

/** An expired secret is over its rate for so long at most. */
const TRUSTED_MS = 1_000;

type OverRate = { caller: Caller; retry_after_s: number };
/** `exists`: the newest answer of the database, or the one that is still to come, and when it was asked for. */
type Entry = { caller: Caller; until_ms: number; asked_ms: number; exists: Promise<boolean> };

export type SpentKeys = {
  find(digest: Uint8Array): Promise<OverRate | null>;
  remember(digest: Uint8Array, over: OverRate): void;
  forget(): void;
};

export function createSpentKeys(
  { knows }: Pick<Results, 'knows'>,
  now_ms: () => number = () => performance.now(),
): SpentKeys {
  const entries = new Map<string, Entry>();

  function askAgain(entry: Entry, digest: Uint8Array): void {
    const asked_ms = now_ms();
    // Not before it has answered.
    entry.asked_ms = Infinity;
    entry.exists = knows(digest)
      // Where the database is away, it cannot do better either.
      .catch(() => true)
      .finally(() => {
        entry.asked_ms = asked_ms;
      });
  }

  return {
    async find(digest) {
      if (entries.size === 0) return null;
      const name = nameOf(digest);
      const entry = entries.get(name);
      if (entry === undefined) return null;
      if (now_ms() - entry.asked_ms >= TRUSTED_MS) askAgain(entry, digest);
      const exists = await entry.exists;
      // Keys may have changed since.
      if (entries.get(name) !== entry) return null;
      const left_s = (entry.until_ms - now_ms()) / 1000;
      if (!exists || left_s <= 1) {
        entries.delete(name);
        return null;
      }
      const { caller } = entry;
      const seconds = Math.ceil(left_s);
      const rate = { ...caller.rate, reset_s: seconds };
      return { caller: { ...caller, rate }, retry_after_s: seconds };
    },
    remember(digest, { caller, retry_after_s }) {
      if (retry_after_s <= 1) return;
      if (entries.size >= KEYS_MAX) entries.delete(entries.keys().next().value!);
      const asked_ms = now_ms();
      const until_ms = asked_ms + retry_after_s * 1000;
      entries.set(nameOf(digest), { caller, until_ms, asked_ms, exists: Promise.resolve(true) });
    },
    forget: () => entries.clear(),
  };
}

function nameOf(digest: Uint8Array): string {
  return Buffer.from(digest).toString('latin1');
}
