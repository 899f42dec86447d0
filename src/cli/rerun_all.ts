/** Runs stored submissions again, a few at a time, and only while nothing else waits for a worker. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Db } from '../db.ts';
import {
  ASPECTS,
  ASPECTS_OF_ANOTHER_SET,
  type Aspect,
  type Changes,
  changesOf,
  type Measured,
  RUNS,
  sumUp,
} from '../domain/rerun_changes.ts';
import {
  cancelHopeless,
  findObstacle,
  type Original,
  readRerun,
  rerunKey,
  rerunOf,
} from '../store/reruns.ts';
import type { Submissions } from '../store/submissions.ts';

export type Rerun = {
  readonly original: Original;
  /** The ids of its reruns, and what each gave. */
  readonly ids: readonly string[];
  readonly runs: readonly Measured[];
  readonly steady: readonly Aspect[];
  readonly unsteady: readonly Aspect[];
  /** Why it was not run again, or not as often as a comparison takes; null if it was. Then nothing is steady or unsteady. */
  readonly skipped: string | null;
};

/** Each rerun has one. */
export const OUTCOMES = ['the same', 'changed', 'differ from run to run', 'left out'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export function outcomeOf({ steady, unsteady, skipped }: Rerun): Outcome {
  if (skipped !== null) return 'left out';
  if (steady.length > 0) return 'changed';
  return unsteady.length > 0 ? 'differ from run to run' : 'the same';
}

export type Progress = {
  /** One more of the originals is done. */
  done(): void;
  /** What it has waited for, for a while; null: it goes on. */
  waits(what: string | null): void;
};

type Options = {
  readonly db: Db;
  readonly submissions: Submissions;
  readonly operator: string;
  readonly at_once: number;
  /** The test set that judges them; null: each one's own. */
  readonly by_set: string | null;
  readonly progress: Progress;
};

/** By the account of the originals: the digest of the key for their reruns. */
type Keys = ReadonlyMap<string, Uint8Array>;

/** One looks whether others wait, and submits, before the next one looks. */
type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

const POLL_MS = 50;
/** A shorter wait is not worth a line. */
export const SAY_AFTER_MS = 2000;

/** In the order of the originals. */
export async function rerunAll(originals: readonly Original[], options: Options): Promise<Rerun[]> {
  const reruns = new Array<Rerun>(originals.length);
  const rest = originals.entries();
  const keys = await keysFor(originals, options);
  let turn: Promise<unknown> = Promise.resolve();
  const inTurn: InTurn = (work) => {
    const done = turn.then(work);
    turn = done.catch(() => {});
    return done;
  };
  const lane = async () => {
    for (const [n, original] of rest) {
      reruns[n] = await rerunOne(original, keys, options, inTurn);
      options.progress.done();
    }
  };
  await Promise.all(Array.from({ length: options.at_once }, lane));
  return reruns;
}

/** One after the other, before anything runs: two that begin at once would make two keys of one account. */
async function keysFor(originals: readonly Original[], { db, operator }: Options): Promise<Keys> {
  const keys = new Map<string, Uint8Array>();
  for (const { account_id, missing } of originals)
    if (missing === null && !keys.has(account_id))
      keys.set(account_id, await rerunKey(db, account_id, operator));
  return keys;
}

async function rerunOne(
  original: Original,
  keys: Keys,
  options: Options,
  inTurn: InTurn,
): Promise<Rerun> {
  const [ids, runs, changes]: [string[], Measured[], Changes[]] = [[], [], []];
  const aspects = options.by_set === null ? ASPECTS : ASPECTS_OF_ANOTHER_SET;
  let skipped = original.missing;
  while (skipped === null && runs.length < RUNS) {
    const submitted = await inTurn(() => submit(original, keys, options));
    if ('problem' in submitted) skipped = submitted.problem;
    else {
      const run = await ended(submitted.id, original.language, options);
      if ('problem' in run) {
        skipped = run.problem;
        break;
      }
      ids.push(submitted.id);
      runs.push(run);
      changes.push(changesOf(original, run, aspects));
      if (changes.at(-1)!.size === 0) break;
    }
  }
  return { original, ids, runs, skipped, ...sumUp(skipped === null ? changes : []) };
}

async function submit(
  original: Original,
  keys: Keys,
  options: Options,
): Promise<{ id: string } | { problem: string }> {
  const { db, submissions, operator, at_once, by_set } = options;
  for (;;) {
    await over(() => findObstacle(db, at_once), options);
    const digest = keys.get(original.account_id)!;
    const command = await rerunOf(db, original.id, digest, operator, by_set);
    if (command === null) return { problem: 'its bytes were removed' };
    const outcome = await submissions.submit(command);
    if (outcome.kind === 'accepted') return { id: outcome.id };
    // Its bytes are being removed, or something else has its row for a moment.
    if (outcome.kind === 'no_original') await wait(POLL_MS);
    else return { problem: `it was not accepted: ${outcome.kind}` };
  }
}

async function ended(
  id: string,
  language: string,
  options: Options,
): Promise<Measured | { problem: string }> {
  let run: Measured | { problem: string } | null = null;
  await over(async () => {
    const { status, measured } = await readRerun(options.db, id);
    run = measured;
    if (status === 'pending') {
      const problem = await cancelHopeless(options.db, id);
      if (problem === null) return `waiting for a worker that runs ${language}`;
      run = { problem };
      return null;
    }
    return measured === null ? RUNNING : null;
  }, options);
  return run!;
}

/** It takes as long as it takes, so nothing is said of it. */
const RUNNING = 'running';

/** Until there is nothing left to wait for. */
async function over(look: () => Promise<string | null>, { progress }: Options): Promise<void> {
  let since = performance.now();
  for (let what = await look(); what !== null; what = await look()) {
    if (what === RUNNING) since = performance.now();
    const is_long = performance.now() - since > SAY_AFTER_MS;
    progress.waits(is_long ? what : null);
    await wait(POLL_MS);
  }
  progress.waits(null);
}
