/**
 * Keys that are over their rate, as the database said last: until they reset, their requests are
 * refused without being read and without asking again.
 *
 * What must stay true: it never refuses what the database would let pass. The database tells whole
 * seconds, rounded up, so the last of them is not believed; and when limits or keys are changed,
 * everything here is forgotten (the database says so on a channel).
 */
import type { Caller } from '../store/caller.ts';

/** More keys than this over their rate at once: the oldest are asked about again. */
const KEYS_MAX = 10_000;

type Refused = { caller: Caller; retry_after_s: number };
type Entry = { caller: Caller; until_ms: number };

export type SpentKeys = {
  find(digest: Uint8Array): Refused | null;
  remember(digest: Uint8Array, refused: Refused): void;
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
