/**
 * When to repeat the preparation of a speed-up that failed. A failure by chance (a busy machine, a launcher that was
 * restarted) must not switch the speed-up off until the service restarts. A lasting failure must cost little. So there is
 * no last attempt, and the pauses grow to ten minutes.
 *
 * Our front around the JDK's compiler has no such pause: without it no Java program compiles, so the next compile tries again.
 */
export const FIRST_RETRY_MS = 5_000;
const LAST_RETRY_MS = 10 * 60_000;

/** `failures` in a row, at least one. */
export function retryAfterMs(failures: number, first_ms: number = FIRST_RETRY_MS): number {
  return Math.min(first_ms * 2 ** (failures - 1), LAST_RETRY_MS);
}

export const spellRetry = (wait_ms: number) => `the next attempt follows in ${wait_ms / 1_000} s`;
