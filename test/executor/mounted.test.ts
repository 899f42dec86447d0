import { realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { isNoexec } from '../../src/executor/mounted.ts';

t.test('the mount that covers a folder says whether programs can be executed in it', async (t) => {
  const file = join(t.testdir(), 'mountinfo');
  const mount = (at: string, options: string) => `1 0 8:1 / ${at} ${options} - ext4 /dev/x rw\n`;
  writeFileSync(
    file,
    mount('/', 'rw,relatime') +
      mount('/var', 'rw,nosuid,noexec') +
      mount('/var/lib/exec', 'rw') +
      mount('/data', 'rw,noexec') +
      mount('/data', 'rw') +
      mount('/with\\040space', 'rw,noexec'),
  );
  for (const [folder, expected] of [
    ['/srv/state', false],
    ['/var/lib/state', true],
    ['/variant', false],
    ['/var/lib/exec/state', false],
    ['/data/state', false],
    ['/with space/state', true],
  ] as const)
    t.equal(await isNoexec(folder, file), expected, folder);
  t.equal(await isNoexec(realpathSync(import.meta.dirname)), false, 'of this machine');
  t.equal(await isNoexec('/srv', '/no/such/file'), false);
});
