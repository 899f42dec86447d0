/**
 * Bounds attempts to sign in that fail: from one address, and from all together. A key cannot be guessed; this keeps strangers from using the
 * database, and makes their attempts visible in the log.
 */
const WINDOW_MS = 60_000;
const FROM_ONE = 10;
const FROM_ALL = 100;

export type SignInLimit = {
  /** Counts an attempt. Null: it may be made; otherwise the seconds to wait. */
  wait_s(address: string): number | null;
  /** One succeeded. */
  forget(address: string): void;
};

export function createSignInLimit(now_ms: () => number = () => performance.now()): SignInLimit {
  /** The newest last. There are never more than FROM_ALL. */
  let attempts: { address: string; at_ms: number }[] = [];
  return {
    wait_s(address) {
      const now = now_ms();
      attempts = attempts.filter(({ at_ms }) => at_ms > now - WINDOW_MS);
      const own = attempts.filter((attempt) => attempt.address === address);
      const full = own.length >= FROM_ONE ? own : attempts.length >= FROM_ALL ? attempts : null;
      if (full === null) {
        attempts.push({ address, at_ms: now });
        return null;
      }
      return Math.ceil((full[0]!.at_ms + WINDOW_MS - now) / 1000);
    },
    forget(address) {
      attempts = attempts.filter((attempt) => attempt.address !== address);
    },
  };
}
