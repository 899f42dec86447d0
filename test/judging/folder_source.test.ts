/** Packages that are folders on disk. */
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { readPackage } from '../../src/judging/packages/read_package.ts';
import { asFolder, Keeper, LEGACY } from './packages.ts';

t.test('a folder on disk: links inside it are followed, others are rejected', async (t) => {
  const folder = await asFolder(t, LEGACY);
  await mkdir(join(folder, 'data/secret/more'));
  await symlink('../1.in', join(folder, 'data/secret/more/2.in'));
  await symlink('../1.ans', join(folder, 'data/secret/more/2.ans'));
  const { set } = await readPackage(folder, DEFAULT_PACKAGE_BOUNDS, new Keeper().onFile);
  t.strictSame(
    set.tests.map(({ name }) => name),
    ['secret/1', 'secret/more/2'],
  );
  t.strictSame(set.tests[0]?.input, set.tests[1]?.input);
  const rejected: [target: string, message: RegExp][] = [
    ['/etc/passwd', /^data\/secret\/3\.in: it is a link out of the package/],
    ['../../../', /it is a link out of the package/],
    ['missing', /^data\/secret\/3\.in: it is a link to nothing/],
    ['3.in', /it is a link to nothing/],
    ['..', /its path has more than 16 names/],
    ['/dev/null', /it is a link out of the package/],
  ];
  for (const [target, message] of rejected) {
    const other = await asFolder(t, LEGACY);
    await symlink(target, join(other, 'data/secret/3.in'));
    await t.rejects(
      readPackage(other, DEFAULT_PACKAGE_BOUNDS, new Keeper().onFile),
      { name: 'PackageProblem', message },
      target,
    );
  }
});
