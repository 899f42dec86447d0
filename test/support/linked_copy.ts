/**
 * A folder that looks like this clone and consists of links to it, for a test that runs the tests or a command of the
 * documents: what these write (build, .tap) goes to the copy, not to the run that is going on.
 */
import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const NOT_LINKED = new Set(['build', '.tap', '.git', '.data']);

export async function linkedCopy(t: { teardown(work: () => unknown): void }): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'runledger-copy-'));
  t.teardown(() => rm(copy, { recursive: true, force: true }));
  for (const name of readdirSync('.').filter((name) => !NOT_LINKED.has(name)))
    symlinkSync(resolve(name), join(copy, name));
  cpSync('.tap/plugins', join(copy, '.tap/plugins'), { recursive: true });
  // Newer than what it is made from, so that make does not build it again.
  cpSync('.tap/.built', join(copy, '.tap/.built'), { preserveTimestamps: true });
  mkdirSync(join(copy, 'build'));
  for (const name of readdirSync('build').filter((name) =>
    /^(launcher|sandbox|.*\.so)$/.test(name),
  ))
    symlinkSync(resolve('build', name), join(copy, 'build', name));
  return copy;
}
