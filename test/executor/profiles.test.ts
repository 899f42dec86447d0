/** Which folders of a language each slot copies. */
import { linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { profilesFor } from '../../src/executor/profiles.ts';
import type { Toolchains } from '../../src/languages/common/toolchains.ts';

const root = mkdtempSync(join(tmpdir(), 'runledger-profiles-'));
t.teardown(() => rmSync(root, { recursive: true, force: true }));

/** Links, because they are made soon. A copy has a file for each. */
function folderOf(count: number, bytes: number): string {
  const folder = join(root, `${count}x${bytes}`);
  mkdirSync(folder);
  writeFileSync(join(folder, '0'), Buffer.alloc(bytes));
  for (let n = 1; n < count; n++) linkSync(join(folder, '0'), join(folder, `${n}`));
  return folder;
}

/** As of a language that has only this folder. */
async function isCopied(folder: string, slots: number): Promise<boolean> {
  const installed = { language: { name: 'python' }, mounts: [{ from: folder, to: folder }] };
  const profiles = await profilesFor(
    new Map([['python', installed]]) as never as Toolchains,
    slots,
  );
  const { trees, mounts } = profiles['python']!;
  t.equal(trees!.length + mounts.length, 1);
  return trees!.length === 1;
}

/** So many slots leave no memory for large folders. */
const NO_MEMORY = 1e9;

t.test('small folders are copied, by what the copies take', async (t) => {
  t.ok(await isCopied(folderOf(1_800, 4_097), NO_MEMORY), '1,800 files of a page and a byte');
  t.notOk(await isCopied(folderOf(1_900, 4_097), NO_MEMORY), '1,900 of them take 17 MiB');
});

t.test('a folder of very many entries is shared, whatever the memory', async (t) => {
  const folder = folderOf(20_001, 0);
  t.notOk(await isCopied(folder, 1));
  rmSync(join(folder, '1'));
  t.ok(await isCopied(folder, 1));
});
