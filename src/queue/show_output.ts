/**
 * Shows what programs print while they run, to those who follow their submissions. The record is the truth; this is best-effort.
 *
 * The launcher keeps the output of a run and is asked for what is new. So a run that nobody follows costs nothing, and one that
 * is followed late is shown from its beginning. A web process has the output of a submission followed, and repeats that every
 * few seconds while somebody reads it.
 *
 * What must stay true:
 *   * In a tick, each run shows RUN_BYTES at most, and all runs of the worker WORKER_BYTES. The next tick begins TICK_MS later,
 *     and not before the database has taken what was shown. So nothing piles up here.
 *   * A piece ends with a whole character, as far as the output is UTF-8.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { isAway } from '../db.ts';
import type { PerStream } from '../executor/sandbox.ts';
import type { Log } from '../log.ts';
import type { LiveOutput, OutputPiece } from '../store/live_output.ts';
import type { RunOutput, Runs } from './runs.ts';

const TICK_MS = 100;
/** 64,000 bytes a second. */
const RUN_BYTES = 6_400;
const WORKER_BYTES = 4 * RUN_BYTES;
/** Web repeats itself in half of this time. */
const FOLLOWED_MS = 10_000;

export type OutputShow = {
  /** The output of these submissions, which run here, is followed. */
  follow(submission_ids: readonly string[]): void;
};

export function createOutputShow(options: {
  runs: Pick<Runs, 'outputs'>;
  store: () => Pick<LiveOutput, 'show'>;
  log: Log;
}): OutputShow {
  const { runs, store, log } = options;
  const until_ms = new Map<string, number>();
  const shown = new WeakMap<RunOutput, PerStream<number>>();
  let turn = 0;
  let works = false;

  async function work(): Promise<void> {
    works = true;
    while (until_ms.size > 0) {
      const pause = wait(TICK_MS);
      try {
        await tick();
      } catch (error) {
        if (!isAway(error)) log.warn({ err: error }, 'output could not be shown');
      }
      await pause;
    }
    works = false;
  }

  async function tick(): Promise<void> {
    const now = performance.now();
    for (const [id, until] of until_ms) if (until < now) until_ms.delete(id);
    const outputs = runs.outputs((id) => until_ms.has(id));
    const pieces: OutputPiece[] = [];
    let left = WORKER_BYTES;
    for (let n = 0; n < outputs.length && left > 0; n += 1) {
      // If there is too much for one tick, the next one begins with another run.
      const output = outputs[turn++ % outputs.length]!;
      const found = await newOf(output, Math.min(RUN_BYTES, left));
      pieces.push(...found);
      for (const { bytes } of found) left -= bytes.length;
    }
    if (pieces.length > 0) await store().show(pieces);
  }

  async function newOf(output: RunOutput, most_bytes: number): Promise<OutputPiece[]> {
    const { submission_id, attempt, peek } = output;
    const from = shown.get(output) ?? { stdout: 0, stderr: 0 };
    const found = await peek(from, most_bytes);
    if (found === null) return [];
    const stdout = wholeCharacters(found.stdout);
    const stderr = wholeCharacters(found.stderr);
    shown.set(output, {
      stdout: from.stdout + stdout.length,
      stderr: from.stderr + stderr.length,
    });
    const of = { submission_id, attempt };
    return [
      { ...of, is_stderr: false, begins_at: from.stdout, bytes: stdout },
      { ...of, is_stderr: true, begins_at: from.stderr, bytes: stderr },
    ].filter(({ bytes }) => bytes.length > 0);
  }

  return {
    follow(submission_ids) {
      for (const id of submission_ids) until_ms.set(id, performance.now() + FOLLOWED_MS);
      if (!works) void work();
    },
  };
}

/** The first byte of a character of 1, 2, 3 or 4 bytes is smaller than this. */
const FIRST_BYTES = [0xc0, 0xe0, 0xf0, 0xf8];

/** Without a last character of which the rest is still to come. */
function wholeCharacters(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back]!;
    if ((byte & 0xc0) === 0x80) continue;
    return FIRST_BYTES.findIndex((end) => byte < end) + 1 > back ? bytes.subarray(0, -back) : bytes;
  }
  return bytes;
}
