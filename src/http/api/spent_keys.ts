/**
 * Keys that are over their rate, as the database reported last. Until their rate resets, their requests are rejected
 * without being read and without asking the database.
 *
 * What must stay true: this never rejects a request that the database would accept. The database reports whole seconds,
 * rounded up, so the last second is not trusted; and a change of limits or keys clears everything here (the database
 * notifies of it).
 */
import type { Caller } from '../../store/caller.ts';

/** Beyond this number the oldest entries are dropped, and the database is asked about those keys. */
const KEYS_MAX = 10_000;

type OverRate = { caller: Caller; retry_after_s: number };
type Entry = { caller: Caller; until_ms: number };

export type SpentKeys = {
  find(digest: Uint8Array): OverRate | null;
  remember(digest: Uint8Array, over: OverRate): void;
  forget(): void;
};

export function createSpentKeys(now_ms: () => number = () => performance.now()): SpentKeys {
  const entries = new Map<string, Entry>();
  return {
    find(digest) {
      if (entries.size === 0) return null;
      const name = nameOf(digest);
      const entry = entries.get(name);
      if (entry === undefined) return null;
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
    remember(digest, { caller, retry_after_s }) {
      if (retry_after_s <= 1) return;
      if (entries.size >= KEYS_MAX) entries.delete(entries.keys().next().value!);
      entries.set(nameOf(digest), { caller, until_ms: now_ms() + retry_after_s * 1000 });
    },
    forget: () => entries.clear(),
  };
}

function nameOf(digest: Uint8Array): string {
  return Buffer.from(digest).toString('latin1');
}
