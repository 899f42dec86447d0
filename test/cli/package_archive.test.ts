/** The archive of a package in a folder has the test set of the folder. */
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { archivePackage } from '../../src/cli/package_archive.ts';
import { manifestOf } from '../../src/judging/manifest.ts';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { readPackage } from '../../src/judging/packages/read_package.ts';
import { openZip } from '../../src/judging/packages/zip_source.ts';
import { asFolder, type Files, LEGACY, temporaryFolder } from '../judging/packages.ts';
import { PROBLEMS, problemFolder } from '../judging/problems.ts';

const nothing = async () => {};

async function archived(t: Test, folder: string): Promise<string> {
  const archive = join(await temporaryFolder(t), 'package.zip');
  await archivePackage(folder, DEFAULT_PACKAGE_BOUNDS, archive);
  return archive;
}

async function sameSet(t: Test, folder: string, title: string): Promise<void> {
  const here = await readPackage(folder, DEFAULT_PACKAGE_BOUNDS, nothing);
  const there = await readPackage(await archived(t, folder), DEFAULT_PACKAGE_BOUNDS, nothing);
  t.equal(manifestOf(there.set).sha256, manifestOf(here.set).sha256, title);
}

const namesIn = async (archive: string) => {
  const source = await openZip(archive, DEFAULT_PACKAGE_BOUNDS);
  await source.close();
  return source.files.map(({ path }) => path).sort();
};

t.test('every package', async (t) => {
  for (const problem of PROBLEMS) await sameSet(t, problemFolder(problem), problem.name);
});

t.test('a package without a name, one within another folder, and a flat one', async (t) => {
  const unnamed: Files = { ...LEGACY, 'problem.yaml': '' };
  await sameSet(t, await asFolder(t, unnamed), 'the name is that of the folder');
  const nested = Object.entries(unnamed).map(([name, data]) => [`inner/${name}`, data]);
  await sameSet(t, await asFolder(t, Object.fromEntries(nested)), 'the name is the inner one');
  await sameSet(t, await asFolder(t, { '1.in': 'a', '1.ans': 'b' }), 'a flat one');
  const hidden = join(await temporaryFolder(t), '.hidden');
  await mkdir(hidden);
  await writeFile(join(hidden, '1.in'), '');
  await writeFile(join(hidden, '1.ans'), '');
  t.strictSame(await namesIn(await archived(t, hidden)), ['package/1.ans', 'package/1.in']);
});

t.test(
  'nothing is packed that the set does not need, and a link is packed as its file',
  async (t) => {
    const folder = await asFolder(t, {
      ...LEGACY,
      'submissions/accepted/a.py': 'x',
      'problem_statement/problem.tex': 'x',
      'notes.txt': 'x',
      '.git/config': 'x',
    });
    await symlink('1.in', join(folder, 'data/secret/2.in'));
    await symlink('1.ans', join(folder, 'data/secret/2.ans'));
    const base = folder.split('/').at(-1)!;
    t.strictSame(
      await namesIn(await archived(t, folder)),
      [
        'data/secret/1.ans',
        'data/secret/1.in',
        'data/secret/2.ans',
        'data/secret/2.in',
        'problem.yaml',
      ].map((name) => `${base}/${name}`),
    );
  },
);

t.test('equal packages have equal archives, which other programs can read', async (t) => {
  const folder = problemFolder({ name: 'sum' });
  const [one, other] = [await archived(t, folder), await archived(t, folder)];
  t.ok((await readFile(one)).equals(await readFile(other)));
  const listed = execFileSync('python3', ['-m', 'zipfile', '--test', one], { encoding: 'utf8' });
  t.match(listed, /^Done testing/);
});

t.test('32 MiB of one character is no zip bomb', async (t) => {
  const folder = await asFolder(t, { '1.in': Buffer.alloc(32 << 20, 'a'), '1.ans': '' });
  await sameSet(t, folder, 'it is read');
});
