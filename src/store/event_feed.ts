/**
 * What happens to submissions, for those who follow them. The feed asks the database for all of them together, a few times a
 * second: a start notifies nobody, because that would cost each start a round trip. With many followers it asks less often
 * (pause.ts). A follower costs no connection of the database.
 *
 * While a submission runs, the feed also has its output followed and asks for it.
 */
import { type Db, type Guard, isAway } from '../db.ts';
import { followOutput, type NumberedPiece } from './live_output.ts';
import { pauseAfter } from './pause.ts';

export type Happening = { version: number; type: string; at: string; facts: object };

export type Update = {
  account_id: string;
  /** Of the submission's newest event, of which type it may be. */
  version: number;
  ended: boolean;
  events: Happening[];
  /** How many tests have ended; null before the first has, and for a plain run. */
  progress: { done: number; of: number } | null;
};

export type EventFeed = {
  /** What has happened after that version; null: there is no such submission, or nothing new. */
  read(id: string, after: number): Promise<Update | null>;
  /** Calls back after each change behind `from`, until it is stopped. */
  follow(id: string, from: Update, follower: Follower): () => void;
  close(): void;
};

const PAUSE_MS = 200;
const ASK_IDS = 500;
/** After a failure, which may have taken long. */
const OUTPUT_AGAIN_MS = 5_000;

/** Which output comes is not certain, and nothing may depend on it. */
export type Follower = {
  onUpdate: (update: Update) => void;
  onOutput: (piece: NumberedPiece) => void;
};

type Followed = {
  /** with the version that each has */
  followers: Map<Follower, number>;
  runs: boolean;
  /** the number of the last piece of its output */
  shown: string;
};
type Row = Update & { id: string };

/** `guard` is of the connections of `db`: a question that hangs would be the last one. */
export function createEventFeed(
  db: Db,
  onFault: (error: unknown) => void,
  guard: Guard = (work) => work(),
): EventFeed {
  const followed = new Map<string, Followed>();
  let output_failed = false;
  let output_from_ms = 0;
  let timer: NodeJS.Timeout | null = null;
  let closed = false;

  function schedule(ms: number): void {
    if (closed || timer !== null || followed.size === 0) return;
    timer = setTimeout(() => void ask(), ms).unref();
  }

  async function ask(): Promise<void> {
    const begun = performance.now();
    let pause_ms = PAUSE_MS;
    try {
      // What was shown before the end comes before the end.
      const running = [...followed].filter(([, { runs }]) => runs).map(([id]) => id);
      await askForOutputs(running);
      for (const ids of inParts([...followed.keys()])) await askForEvents(ids);
      pause_ms = pauseAfter(performance.now() - begun, PAUSE_MS);
    } catch (error) {
      if (!isAway(error)) onFault(error);
    }
    timer = null;
    schedule(pause_ms);
  }

  async function askForEvents(ids: readonly string[]): Promise<void> {
    const asked = new Map<string, number>();
    for (const id of ids) {
      const one = followed.get(id);
      // Its last follower may have left during the questions before.
      if (one !== undefined) asked.set(id, Math.min(...one.followers.values()));
    }
    const question = () => eventsOf(db, [...asked.keys()], [...asked.values()]);
    for (const { id, ...update } of await guard(question)) {
      const one = followed.get(id);
      if (one === undefined) continue;
      one.runs = isRunning(update) ?? one.runs;
      for (const [follower, after] of [...one.followers]) {
        // It came during the question, and lacks earlier events: the next question asks for them, too.
        if (after < asked.get(id)!) continue;
        const events = update.events.filter(({ version }) => version > after);
        one.followers.set(follower, Math.max(after, update.version));
        follower.onUpdate({ ...update, events });
      }
    }
  }

  /** No event depends on output. Only this question writes, so only this one may fail for long. It is logged once. */
  async function askForOutputs(running: readonly string[]): Promise<void> {
    if (performance.now() < output_from_ms) return;
    try {
      for (const ids of inParts(running)) await askForOutput(ids);
      output_failed = false;
    } catch (error) {
      if (!output_failed && !isAway(error)) onFault(error);
      output_failed = true;
      output_from_ms = performance.now() + OUTPUT_AGAIN_MS;
    }
  }

  async function askForOutput(ids: readonly string[]): Promise<void> {
    const after = ids.map((id) => followed.get(id)?.shown ?? '0');
    for (const piece of await guard(() => followOutput(db, ids, after))) {
      const one = followed.get(piece.id);
      if (one === undefined) continue;
      one.shown = piece.n;
      for (const follower of one.followers.keys()) follower.onOutput(piece);
    }
  }

  return {
    async read(id, after) {
      const [row] = await eventsOf(db, [id], [after]);
      return row ?? null;
    },
    follow(id, from, follower) {
      const one = followed.get(id) ?? { followers: new Map(), runs: false, shown: '0' };
      one.runs = isRunning(from) ?? one.runs;
      one.followers.set(follower, from.version);
      followed.set(id, one);
      schedule(PAUSE_MS);
      return () => {
        one.followers.delete(follower);
        if (one.followers.size === 0 && followed.get(id) === one) followed.delete(id);
      };
    },
    close() {
      closed = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}

function inParts(ids: readonly string[]): string[][] {
  const count = Math.ceil(ids.length / ASK_IDS);
  return Array.from({ length: count }, (_, n) => ids.slice(n * ASK_IDS, (n + 1) * ASK_IDS));
}

/** Null: no event says. */
function isRunning({ events }: Update): boolean | null {
  const last = events.at(-1);
  return last === undefined ? null : last.type === 'execution.started';
}

function eventsOf(db: Db, ids: readonly string[], after: readonly number[]): Promise<Row[]> {
  return db<Row[]>`
    select * from runledger.submission_events(${`{${ids.join(',')}}`}::text::uuid[], ${`{${after.join(',')}}`}::text::integer[])`;
}
