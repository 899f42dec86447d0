/** A worker that cannot open its executor: does it end for good? */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Config, loadConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { openExecutor } from '../../src/processes/open_executor.ts';

const log = createLog({ level: 'silent', process: 'worker' });

/** The error of a worker in whose place of the launcher this program is. */
async function errorWith(t: Test, more: Partial<Config>): Promise<Error> {
  const env = { RUNLEDGER_LANGUAGES: 'python', RUNLEDGER_STATE_DIR: t.testdirName };
  return openExecutor({ ...loadConfig(env), ...more }, log).then(
    () => t.fail('it opened') as never,
    (error) => error,
  );
}

t.test('the boxes of other users can read what it writes, whatever its umask was', async (t) => {
  t.teardown(() => process.umask(before));
  const before = process.umask(0o077);
  await errorWith(t, { launcher: '/bin/false' });
  t.equal(process.umask(), 0o022);
});

t.test('a launcher that ends may start later; one that finds no isolation cannot', async (t) => {
  const finds_none = join(t.testdir(), 'launcher');
  t.match(await errorWith(t, { launcher: '/bin/false' }), { name: 'Fault', remedy: /doctor/ });
  writeFileSync(finds_none, '#!/bin/sh\nexit 3\n', { mode: 0o700 });
  t.match(await errorWith(t, { launcher: finds_none }), { name: 'CannotRun' });
  t.match(await errorWith(t, { launcher: '/no/launcher' }), { name: 'CannotRun' });
});
