/** What is removed by itself, in words. */
import type { RetentionFacts } from '../store/retention.ts';

export function retentionText(facts: RetentionFacts): string {
  if (!facts.scheduled) return 'nothing is removed by itself';
  return `bytes are kept ${spell(facts.keep_bytes_s)}, events ${spell(facts.keep_events_s)}`;
}

const spell = (seconds: number | null) =>
  seconds === null ? 'for ever' : `for ${seconds / 86_400} days`;
