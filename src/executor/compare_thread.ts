/** The thread of compare_outputs.ts. It answers whether the output equals the answer, and ends. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { type Compare, equalOutput } from '../judging/compare.ts';

export type Comparison = {
  compare: Compare;
  output: Uint8Array;
  answer: Uint8Array | { path: string; sha256: string };
};

const { compare, output, answer } = workerData as Comparison;
parentPort!.postMessage(equalOutput(compare, output, bytesOf()));

function bytesOf(): Uint8Array {
  if (answer instanceof Uint8Array) return answer;
  const bytes = readFileSync(answer.path);
  if (createHash('sha256').update(bytes).digest('hex') === answer.sha256) return bytes;
  throw new Error(`the stored content ${answer.sha256} has changed`);
}
