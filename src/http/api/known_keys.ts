/**
 * Keys that the database knows, for work that begins before a request spends its rate. A key in here may have expired since:
 * the database decides again when the request spends.
 */
import type { Results } from '../../store/results.ts';

/** Beyond this number the oldest are dropped, and the database is asked about those again. */
const KEYS_MAX = 10_000;

export type KnownKeys = {
  knows(digest: Uint8Array): Promise<boolean>;
  /** Keys were changed. */
  forget(): void;
};

export function createKnownKeys(results: Pick<Results, 'knows'>): KnownKeys {
  // Requests that come together share one question.
  const known = new Map<string, Promise<boolean>>();
  return {
    async knows(digest) {
      const name = Buffer.from(digest).toString('latin1');
      const asked = known.get(name) ?? results.knows(digest);
      if (!known.has(name) && known.size >= KEYS_MAX) known.delete(known.keys().next().value!);
      known.set(name, asked);
      const is_key = await asked.catch((error) => {
        known.delete(name);
        throw error;
      });
      if (!is_key) known.delete(name);
      return is_key;
    },
    forget: () => known.clear(),
  };
}
