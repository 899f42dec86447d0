/** Hostile archives, and honest ones that look like them. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { readPackage } from '../../src/judging/packages/read_package.ts';
import type { TestSet } from '../../src/judging/test_set.ts';
import { ANS, HONEST_ARCHIVES, HOSTILE_ARCHIVES, IN } from './hostile_archives.ts';
import { archiveOf, Keeper, onDisk, rejects } from './packages.ts';
import { type ZipItem, zipOf } from './zip_writer.ts';

t.test('a hostile archive is rejected, and the item is named', async (t) => {
  for (const [title, items, expected, options, bounds] of HOSTILE_ARCHIVES) {
    await rejects(t, title, zipOf(items, options), expected, bounds);
  }
});

t.test('an archive whose end is wrong is rejected', async (t) => {
  const good = zipOf([IN, ANS]);
  const other = zipOf([{ name: '9.in', data: 'other' }, { name: '9.ans' }]);
  const END_BYTES = 22;
  const cases: [title: string, archive: Uint8Array, expected: RegExp][] = [
    ['an empty file', new Uint8Array(), /no zip archive/],
    ['one byte', Uint8Array.of(0x50), /no zip archive/],
    ['no archive', randomBytes(100_000), /no zip archive/],
    ['an archive that is cut short', good.subarray(0, -1), /cut short/],
    ['an archive without its end record', good.subarray(0, -END_BYTES), /no zip archive/],
    ['an archive without its start', good.subarray(10), /its directory is not where/],
    ['bytes behind the end', Buffer.concat([good, randomBytes(10)]), /other bytes follow its end/],
    ['an archive behind another one', Buffer.concat([good, other]), /its directory is not where/],
    ['an end record in the comment', zipOf([IN, ANS], { comment: other }), /several end records/],
    ['only an end record', good.subarray(-END_BYTES), /its directory is not where/],
  ];
  for (const [title, archive, expected] of cases) await rejects(t, title, archive, expected);
});

t.test('no change of one byte of an archive makes another set of it', async (t) => {
  const good = zipOf([IN, ANS]);
  const path = (archive: Uint8Array) => onDisk(t, archive);
  const { set: honest } = await readPackage(
    await path(good),
    DEFAULT_PACKAGE_BOUNDS,
    new Keeper().onFile,
  );
  for (let at = 0; at < good.length; at++) {
    const changed = Buffer.from(good);
    changed[at] = (changed[at] ?? 0) ^ 0x5a;
    const { set } = await readPackage(
      await path(changed),
      DEFAULT_PACKAGE_BOUNDS,
      new Keeper().onFile,
    ).catch((error: Error) => {
      t.equal(error.name, 'PackageProblem', `byte ${at}: ${error.stack}`);
      return { set: null };
    });
    if (set !== null) t.strictSame(contentsOf(set), contentsOf(honest), `byte ${at}`);
  }
});

const contentsOf = ({ tests }: TestSet) => tests.map(({ input, answer }) => [input, answer]);

t.test('an honest archive is read, however it was packed', async (t) => {
  for (const [title, items, options] of HONEST_ARCHIVES) {
    const keeper = new Keeper();
    const { set } = await readPackage(
      await onDisk(t, zipOf(items, options)),
      DEFAULT_PACKAGE_BOUNDS,
      keeper.onFile,
    );
    t.strictSame(
      set.tests.map(({ name, input, answer }) => [name, keeper.text(input), keeper.text(answer)]),
      [['1', 'in\n', 'out\n']],
      title,
    );
  }
});

t.test('a large file comes in small chunks, and a reader may stop', async (t) => {
  const data = Buffer.alloc(20 << 20, randomBytes(1 << 20));
  const path = await onDisk(t, archiveOf({ '1.in': data, '1.ans': 'x' }));
  const keeper = new Keeper();
  const { set } = await readPackage(path, DEFAULT_PACKAGE_BOUNDS, keeper.onFile);
  t.ok(keeper.largest_chunk <= 64 * 1024, `${keeper.largest_chunk}`);
  t.ok(keeper.kept.get(set.tests[0]?.input.sha256 ?? '')?.equals(data));
  const sizes: number[] = [];
  await readPackage(path, DEFAULT_PACKAGE_BOUNDS, async ({ size }, bytes) => {
    sizes.push(size);
    for await (const _ of bytes) break;
  });
  t.strictSame(sizes, [data.length, 1]);
});

t.test('what the set does not need is never unpacked', async (t) => {
  const damaged: ZipItem = { name: 'problem_statement/problem.tex', data: 'x', says: { crc: 1 } };
  const items = Object.entries({
    'problem.yaml': 'name: x',
    'data/secret/1.in': '',
    'data/secret/1.ans': '',
  });
  const archive = zipOf([...items.map(([name, data]) => ({ name, data })), damaged]);
  const { set } = await readPackage(
    await onDisk(t, archive),
    DEFAULT_PACKAGE_BOUNDS,
    new Keeper().onFile,
  );
  t.equal(set.tests.length, 1);
});

t.test('an error of the consumer is handed on, and so is one of the disk', async (t) => {
  const path = await onDisk(t, zipOf([IN, ANS]));
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  await t.rejects(
    readPackage(path, DEFAULT_PACKAGE_BOUNDS, async () => Promise.reject(full)),
    full,
  );
  await t.rejects(
    readPackage(`${path}.missing`, DEFAULT_PACKAGE_BOUNDS, async () => {}),
    { code: 'ENOENT' },
  );
});

t.test('the largest archive that the bounds allow is read', async (t) => {
  const items = Array.from({ length: 100 }, (_, i) => [`${i}.in`, `${i}.ans`])
    .flat()
    .map((name) => ({ name, data: name }));
  const bounds = {
    ...DEFAULT_PACKAGE_BOUNDS,
    files: items.length,
    unpacked_bytes: items.reduce((sum, { data }) => sum + data.length, 0),
  };
  const { set } = await readPackage(await onDisk(t, zipOf(items)), bounds, new Keeper().onFile);
  t.equal(set.tests.length, 100);
});
