/** What of an error is logged. */
import { spawnSync } from 'node:child_process';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { errorFacts } from '../src/log.ts';

const coded = (code: string) => Object.assign(new Error('why'), { code });

t.test('an outage is logged without a stack', async (t) => {
  for (const code of ['ECONNREFUSED', 'ENOSPC', 'CONNECTION_CLOSED', '57P03', '53300', '08006'])
    t.match(errorFacts(coded(code)), { message: 'why', code, stack: undefined }, code);
});

t.test('what may be a mistake of this program has its stack', async (t) => {
  for (const error of [new TypeError('why'), coded('ERR_INVALID_ARG_TYPE'), coded('42883')])
    t.match(errorFacts(error), { message: 'why', stack: /log\.test/ });
});

t.test('a log that cannot be written does not end its process', (t) => {
  const module = JSON.stringify(join(import.meta.dirname, '../src/log.ts'));
  const script = `import(${module}).then(({ createLog }) => {
    const log = createLog({ level: 'info', process: 'web' });
    for (let line = 0; line < 3; line++) log.info('a line');
    setTimeout(() => process.exit(42), 50);
  })`;
  const stdio = ['ignore', openSync('/dev/full', 'w'), 'pipe'] as const;
  const { status, stderr } = spawnSync(process.execPath, ['-e', script], { stdio: [...stdio] });
  t.equal(status, 42, String(stderr));
  t.end();
});
