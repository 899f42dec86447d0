/** The thread of compare_outputs.ts: it answers whether an output equals its answer. If it cannot, it ends with the error. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { type Compare, equalOutput } from '../judging/compare.ts';

export type Comparison = {
  compare: Compare;
  output: Uint8Array;
  answer: Uint8Array | { path: string; sha256: string };
};

export type Compared = {
  equal: boolean;
  /** without the wait for other comparisons, and for the thread */
  elapsed_us: number;
};

parentPort!.on('message', ({ compare, output, answer }: Comparison) => {
  const start = performance.now();
  const equal = equalOutput(compare, output, bytesOf(answer));
  const elapsed_us = Math.round((performance.now() - start) * 1000);
  parentPort!.postMessage({ equal, elapsed_us } satisfies Compared);
});

// A comparison could not be received. Without an error, the worker would wait for its answer for ever.
parentPort!.on('messageerror', (error) => {
  throw error;
});

function bytesOf(answer: Comparison['answer']): Uint8Array {
  if (answer instanceof Uint8Array) return answer;
  const bytes = readFileSync(answer.path);
  if (createHash('sha256').update(bytes).digest('hex') === answer.sha256) return bytes;
  throw new Error(`the stored content ${answer.sha256} has changed`);
}
