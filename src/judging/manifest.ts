/**
 * The canonical bytes of a test set: JSON with the names of every object in order and without white space. Equal sets have
 * equal manifests, and because a manifest names each content by its hash, its own hash stands for all bytes of the set.
 */
import { createHash } from 'node:crypto';
import type { FileRef, TestSet } from './test_set.ts';

export type Manifest = { bytes: Uint8Array; sha256: string };

export function manifestOf(set: TestSet): Manifest {
  const bytes = Buffer.from(JSON.stringify(set, canonical));
  return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

export function setOf(manifest: Uint8Array): TestSet {
  return JSON.parse(Buffer.from(manifest).toString()) as TestSet;
}

/** Each content that the set needs, once. */
export function contentsOf(set: TestSet): FileRef[] {
  const programs = [set.checker, set.interactor].flatMap((program) => program?.files ?? []);
  const refs = [
    ...set.tests.flatMap(({ input, answer }) => [input, answer]),
    ...programs.map(({ file }) => file),
  ];
  return [...new Map(refs.map((ref) => [ref.sha256, ref])).values()];
}

/** PostgreSQL reads manifests as jsonb, which has no half of a surrogate pair. */
function canonical(_: string, value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
