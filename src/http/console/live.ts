/** The state that the first page of the console shows: read at most once every two seconds, for all who look at once. */
import {
  languagesOf,
  type Now,
  type ReadNow,
  type ShownLanguage,
} from '../../store/console_now.ts';
import type { WitnessState } from '../../store/cosignatures.ts';
import {
  isOver,
  type KnownMinutes,
  minutesToRead,
  shownMinutes,
  withMinutes,
} from './live_minutes.ts';

const REFRESH_MS = 2_000;

export type Live = {
  state(): Promise<LiveState>;
  /** What this process knows of the log, without the database. */
  log(): LiveState['log'];
};

export type LiveState = {
  at: string;
  queue: Now['queue'] & { capacity: number };
  workers: Now['workers'];
  languages: ShownLanguage[];
  log: { problem: string | null; witnesses: readonly WitnessState[] };
  /** Columns of the same length; null: not known yet, or nothing ended. */
  hour: {
    /** Seconds since 1970. */
    minutes: number[];
    per_s: (number | null)[];
    /** p50, p95, p99 */
    latency_s: (number | null)[][];
    verdicts: Record<string, (number | null)[]>;
    /** Some minutes had more submissions than were read. */
    sampled: boolean;
  };
};

export type LiveParts = {
  read: ReadNow;
  queue_capacity: number;
  /** Those that the service offers: they are shown where no worker runs them, too. */
  languages: readonly string[];
  witnesses: () => readonly WitnessState[];
  sealingProblem: () => string | null;
};

export function createLive(parts: LiveParts, now_ms: () => number = Date.now): Live {
  let known: KnownMinutes = new Map();
  let last: { state: Promise<LiveState>; from_ms: number } | null = null;
  let reading = false;

  async function refresh(): Promise<LiveState> {
    try {
      const minutes = minutesToRead(known, now_ms()).map((minute) => new Date(minute));
      const now = await parts.read(minutes);
      known = withMinutes(known, now.minutes, now_ms());
      return stateOf(parts, now, known, now_ms());
    } finally {
      reading = false;
    }
  }
  return {
    log: () => logOf(parts),
    state() {
      // A refresh that takes longer is waited for, and one that failed is not repeated at once.
      if (last !== null && (reading || now_ms() < last.from_ms + REFRESH_MS)) return last.state;
      reading = true;
      last = { state: refresh(), from_ms: now_ms() };
      return last.state;
    },
  };
}

function logOf({ sealingProblem, witnesses }: LiveParts): LiveState['log'] {
  return { problem: sealingProblem(), witnesses: witnesses() };
}

function stateOf(parts: LiveParts, now: Now, known: KnownMinutes, now_ms: number): LiveState {
  const shown = shownMinutes(now_ms);
  const column = <T>(value: (minute: Now['minutes'][number]) => T | null) =>
    shown.map((minute) => {
      const found = known.get(minute);
      return found === undefined ? null : value(found);
    });
  const names = new Set([...known.values()].flatMap(({ verdicts }) => Object.keys(verdicts)));
  return {
    at: now.at,
    queue: { ...now.queue, capacity: parts.queue_capacity },
    workers: now.workers,
    languages: languagesOf(now, parts.languages),
    log: logOf(parts),
    hour: {
      minutes: shown.map((minute) => minute / 1000),
      per_s: column(({ minute, accepted, covered_s }) => {
        const passed_s = Math.max((now_ms - Date.parse(minute)) / 1000, 1);
        return accepted / Math.min(covered_s, passed_s);
      }),
      latency_s: [0, 1, 2].map((n) => column(({ latency_s }) => latency_s?.[n] ?? null)),
      verdicts: Object.fromEntries(
        [...names].sort().map((name) => [
          name,
          // In a minute of which only a part was read, as many as a whole one would have. The minute that is going on has
          // none yet: the plot would fall at its end, or jump with each of the first verdicts.
          column(({ minute, verdicts, covered_s }) =>
            isOver(minute, now_ms)
              ? Math.round(((verdicts[name] ?? 0) * 60) / Math.min(covered_s, 60))
              : null,
          ),
        ]),
      ),
      sampled: [...known.values()].some(({ covered_s }) => covered_s < 60),
    },
  };
}
