/**
 * Compares outputs with answers, and lets no comparison hold up the worker.
 *
 * A comparison takes time in proportion to what it reads, and the answer of a test set may have 256 MiB: that is many
 * seconds. On the worker's own thread it would delay the heartbeats, and then the launcher would end the runs of all
 * accounts. So large comparisons have a thread of their own. It makes one at a time, because each reads a whole answer into
 * memory. The next comparisons use it again: to start a thread takes longer than to compare a megabyte.
 */
import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { type Compare, equalOutput } from '../judging/compare.ts';
import type { Content } from '../judging/judging.ts';
import { startThread } from '../own_thread.ts';
import type { Compared, Comparison } from './compare_thread.ts';
import type { HeldContents } from './held_contents.ts';
import { orAborted } from './sandbox_fault.ts';

/** Output and answer together. Below, a comparison takes less time than the start of a thread. */
const SMALL_BYTES = 512 * 1024;
/** The same where numbers may differ: that takes some microseconds for each. */
const SMALL_BYTES_OF_NUMBERS = 32 * 1024;
/** A thread that has read so much ends, because it may still have all of it in memory. */
const READ_MOST_BYTES = 32 * 1024 * 1024;
/** A thread that has had nothing to do for so long ends. */
const REST_MS = 60_000;
const THREAD = new URL('./compare_thread.ts', import.meta.url);

export async function compareOutput(
  compare: Compare,
  output: Uint8Array,
  answer: Content,
  contents: HeldContents,
  account_id: string,
  signal: AbortSignal,
): Promise<Compared> {
  const size = 'bytes' in answer ? answer.bytes.length : answer.file.size;
  if (output.length + size > smallBytes(compare)) {
    const given =
      'bytes' in answer
        ? answer.bytes
        : { path: await contents.pathOf(answer), sha256: answer.file.sha256 };
    // The message has all memory of which this may be a part.
    const comparison = { compare, output: new Uint8Array(output), answer: given };
    return oneAtATime(account_id, signal, () => inThread(comparison, output.length + size, signal));
  }
  const bytes = await contents.bytesOf(answer);
  const start = performance.now();
  const equal = equalOutput(compare, output, bytes);
  return { equal, elapsed_us: Math.round((performance.now() - start) * 1000) };
}

const smallBytes = (compare: Compare) =>
  typeof compare === 'object' && (compare.absolute !== null || compare.relative !== null)
    ? SMALL_BYTES_OF_NUMBERS
    : SMALL_BYTES;

/** Those that wait, by account. Accounts take turns, so none waits for all that another one has. */
const waiting = new Map<string, (() => Promise<void>)[]>();
let is_comparing = false;

/** Who is cancelled stops waiting at once. */
function oneAtATime<T>(
  account_id: string,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const line = waiting.get(account_id) ?? [];
  waiting.set(account_id, line);
  line.push(async () => {
    if (!signal.aborted) await work().then(resolve, reject);
  });
  void compareNext();
  return orAborted(promise, signal);
}

async function compareNext(): Promise<void> {
  if (is_comparing) return;
  is_comparing = true;
  for (let next = waiting.entries().next().value; next; next = waiting.entries().next().value) {
    const [account_id, line] = next;
    waiting.delete(account_id);
    const work = line.shift()!;
    if (line.length > 0) waiting.set(account_id, line);
    await work();
  }
  is_comparing = false;
}

type Thread = { worker: Worker; read_bytes: number; ended: boolean };

/** It has nothing to do, until it is taken or its time is over. */
let resting: { thread: Thread; timer: NodeJS.Timeout } | null = null;

async function inThread(
  comparison: Comparison,
  bytes: number,
  signal: AbortSignal,
): Promise<Compared> {
  signal.throwIfAborted();
  const thread = takeResting() ?? newThread();
  const { worker } = thread;
  const { promise: lost, reject } = Promise.withResolvers<never>();
  const onExit = () => reject(new Error('the thread of large comparisons ended'));
  worker.once('exit', onExit);
  let is_well = false;
  try {
    worker.postMessage(comparison);
    // It rejects if the thread fails, and when the execution is cancelled.
    const [compared] = await Promise.race([once(worker, 'message', { signal }), lost]);
    is_well = true;
    return compared as Compared;
  } finally {
    worker.off('exit', onExit);
    thread.read_bytes += bytes;
    // One that was cut may still answer, and the next comparison would take that answer for its own.
    if (is_well && !thread.ended && thread.read_bytes < READ_MOST_BYTES) rest(thread);
    else await worker.terminate();
  }
}

function newThread(): Thread {
  const thread: Thread = { worker: startThread(THREAD, {}), read_bytes: 0, ended: false };
  // One that fails while it rests is replaced. Nobody waits for it, so its error must not end the worker.
  thread.worker.on('error', () => {});
  thread.worker.once('exit', () => {
    thread.ended = true;
  });
  return thread;
}

function takeResting(): Thread | null {
  if (resting === null) return null;
  const { thread, timer } = resting;
  resting = null;
  clearTimeout(timer);
  if (thread.ended) return null;
  thread.worker.ref();
  return thread;
}

function rest(thread: Thread): void {
  thread.worker.unref();
  const timer = setTimeout(() => void takeResting()?.worker.terminate(), REST_MS).unref();
  resting = { thread, timer };
}
