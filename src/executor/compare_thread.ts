/** The thread of compare_outputs.ts. It answers whether the output equals the answer, and ends. */
import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { type Compare, equalOutput } from '../judging/compare.ts';

/** `answer`: a path, or the bytes. */
export type Comparison = { compare: Compare; output: Uint8Array; answer: string | Uint8Array };

const { compare, output, answer } = workerData as Comparison;
const bytes = typeof answer === 'string' ? readFileSync(answer) : answer;
parentPort!.postMessage(equalOutput(compare, output, bytes));
