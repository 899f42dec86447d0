/** What killed tests leave on the disk goes with a later run. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import t from 'tap';
import { ownFolder, removeLeftFolders } from './own_folders.ts';

t.test('the folders of processes that have ended are removed, and no others', async (t) => {
  const { pid } = spawnSync('true');
  const own = `${basename(ownFolder())}a`;
  const left = own.replace(`${process.pid}`, `${pid}`);
  const others = [own, 'runledger-own-x', `other-${pid}-a`];
  const folder = t.testdir(Object.fromEntries([left, ...others].map((name) => [name, { a: '' }])));
  removeLeftFolders(folder);
  t.strictSame(readdirSync(folder).sort(), others.sort());
});
