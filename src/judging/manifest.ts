/**
 * The canonical bytes of a test set: JSON with the names of every object in order and without white space. Equal sets have
 * equal manifests, and because a manifest names each content by its hash, its own hash stands for all bytes of the set.
 */
import { createHash } from 'node:crypto';
import type { TestSet } from './test_set.ts';

export type Manifest = { bytes: Uint8Array; sha256: string };

export function manifestOf(set: TestSet): Manifest {
  const bytes = Buffer.from(JSON.stringify(set, namesInOrder));
  return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

export function setOf(manifest: Uint8Array): TestSet {
  return JSON.parse(Buffer.from(manifest).toString()) as TestSet;
}

function namesInOrder(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
