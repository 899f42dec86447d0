/** The service at this moment and some of its last minutes, for the console and for `status`: sql/functions/console_now.sql. */
import type { Db } from '../db.ts';
import type { QueueFacts } from './queue_facts.ts';
import type { SealingLag } from './service_health.ts';

export type Minute = {
  /** When it began. */
  minute: string;
  accepted: number;
  unfinished: number;
  /** How much of the minute these submissions are: less than 60 where there were too many to read. */
  covered_s: number;
  verdicts: Record<string, number>;
  /** From acceptance to end: p50, p95 and p99; null: none has ended. */
  latency_s: number[] | null;
};

export type Now = {
  at: string;
  queue: QueueFacts & Pick<SealingLag, 'unsealed_more'>;
  /** Of the delivery whose submission is the oldest of those that wait; null: none waits. */
  deliveries_oldest_s: number | null;
  /** Web processes that are alive. */
  webs: number;
  workers: {
    id: string;
    host: string;
    slots: number;
    running: number;
    isolation: string | null;
    toolchains: Record<string, string>;
    heartbeat_s: number;
    /** It is handed new submissions. Not while it drains, or may start no program just now. */
    takes: boolean;
  }[];
  /** By language, of all workers. */
  slots: Record<string, number>;
  /** By language. */
  running: Record<string, number>;
  minutes: Minute[];
};

/** Of one minute. */
const MOST_READ = 1000;

export type ReadNow = (minutes: readonly Date[]) => Promise<Now>;

export const createReadNow =
  (db: Db): ReadNow =>
  async (minutes) => {
    const list = `{${minutes.map((minute) => minute.toISOString()).join(',')}}`;
    const [row] = await db<{ now: Now }[]>`
      select runledger.console_now(${list}::text::timestamptz[], ${MOST_READ}) as now`;
    return row!.now;
  };

export type ShownLanguage = { language: string; slots: number; running: number };

/** `offered`: languages that are shown where no worker runs them, too. */
export function languagesOf(
  { slots, running }: Pick<Now, 'slots' | 'running'>,
  offered: readonly string[],
): ShownLanguage[] {
  const names = new Set([...offered, ...Object.keys(slots), ...Object.keys(running)]);
  return [...names].sort().map((language) => ({
    language,
    slots: slots[language] ?? 0,
    running: running[language] ?? 0,
  }));
}
