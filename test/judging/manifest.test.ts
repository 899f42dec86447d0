/** The canonical bytes of a test set. */
import { createHash } from 'node:crypto';
import t from 'tap';
import { manifestOf, setOf } from '../../src/judging/manifest.ts';
import type { TestSet } from '../../src/judging/test_set.ts';
import { LEGACY, NEW, read } from './packages.ts';

/** The same value with the names of each object in the opposite order. */
const reversed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, item]) => [name, reversed(item)]);
  return Object.fromEntries(entries.reverse());
};

t.test('equal sets have equal manifests, and a manifest is its set', async (t) => {
  const { set } = await read(t, { ...NEW, 'output_validator/v.py': 'exit(42)' });
  const manifest = manifestOf(set);
  t.equal(manifestOf(reversed(set) as TestSet).sha256, manifest.sha256);
  t.strictSame(setOf(manifest.bytes), set);
  const bytes = Buffer.from(manifest.bytes);
  t.equal(manifest.sha256, createHash('sha256').update(bytes).digest('hex'));
  t.match(bytes.toString(), /^\{"checker":\{"args":/);
});

t.test('each change of a set changes its manifest', async (t) => {
  const { set } = await read(t, LEGACY);
  const other_answer = await read(t, { ...LEGACY, 'data/secret/1.ans': 'other' });
  const others: TestSet[] = [
    other_answer.set,
    { ...set, name: 'x' },
    { ...set, limits: { cpu_time_ms: 1 } },
    { ...set, tests: [...set.tests, ...set.tests] },
    { ...set, passes: 2 },
  ];
  const hashes = [set, ...others].map((each) => manifestOf(each).sha256);
  t.equal(new Set(hashes).size, others.length + 1);
});
