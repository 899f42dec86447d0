/** The pause between two questions that a process asks again and again. */

/** So many times as long as a question took: questions take a tenth of the time, but for slow ones. */
const PAUSE_FACTOR = 9;
/** Behind one slow question the next must not be a minute away. */
const MOST_MS = 2_000;

/** Only behind an answer: how long a failure took says nothing of the next question. Behind that, `least_ms` is enough. */
export const pauseAfter = (took_ms: number, least_ms: number): number =>
  Math.max(least_ms, Math.min(took_ms * PAUSE_FACTOR, MOST_MS));
