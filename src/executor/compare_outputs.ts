/**
 * Compares outputs with answers, and lets no comparison hold up the worker.
 *
 * A comparison takes time in proportion to what it reads, and the answer of a test set may have 256 MiB: that is many
 * seconds. On the worker's own thread it would delay the heartbeats, and then the launcher would end the runs of all
 * accounts. So a large comparison has a thread of its own. There is one such thread at a time, because each reads a whole
 * answer into memory.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { type Compare, equalOutput } from '../judging/compare.ts';
import type { Content } from '../judging/judging.ts';
import type { Comparison } from './compare_thread.ts';
import type { HeldContents } from './held_contents.ts';

/** Output and answer together. Below, a comparison takes less time than the start of a thread. */
const SMALL_BYTES = 512 * 1024;
const THREAD = new URL('./compare_thread.ts', import.meta.url);

export type Compared = {
  equal: boolean;
  /** without the wait for other comparisons */
  elapsed_us: number;
};

export async function compareOutput(
  compare: Compare,
  output: Uint8Array,
  answer: Content,
  contents: HeldContents,
  signal: AbortSignal,
): Promise<Compared> {
  const size = 'bytes' in answer ? answer.bytes.length : answer.file.size;
  if (output.length + size > SMALL_BYTES) {
    const given =
      'bytes' in answer
        ? answer.bytes
        : { path: await contents.pathOf(answer), sha256: answer.file.sha256 };
    return oneAtATime(() => timed(() => inThread({ compare, output, answer: given }, signal)));
  }
  const bytes = await contents.bytesOf(answer);
  return timed(async () => equalOutput(compare, output, bytes));
}

let last: Promise<unknown> = Promise.resolve();

function oneAtATime<T>(work: () => Promise<T>): Promise<T> {
  const result = last.then(work);
  last = result.catch(() => {});
  return result;
}

async function timed(work: () => Promise<boolean>): Promise<Compared> {
  const start = performance.now();
  const equal = await work();
  return { equal, elapsed_us: Math.round((performance.now() - start) * 1000) };
}

async function inThread(comparison: Comparison, signal: AbortSignal): Promise<boolean> {
  signal.throwIfAborted();
  const thread = new Worker(THREAD, { workerData: comparison, env: {}, execArgv: [] });
  try {
    // It rejects if the thread fails, and when the execution is cancelled.
    const [equal] = await once(thread, 'message', { signal });
    return equal as boolean;
  } finally {
    await thread.terminate();
  }
}
