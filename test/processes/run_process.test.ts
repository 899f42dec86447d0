/** Web and worker as processes of their own, before they have started. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const CLI = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

for (const name of ['web', 'worker'])
  t.test(`${name} stops when asked while its database does not answer`, async (t) => {
    const silent = createServer((socket) => socket.on('error', () => {}));
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    const { port } = silent.address() as AddressInfo;
    const child = spawn(process.execPath, [CLI, name], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: `postgres://u:p@127.0.0.1:${port}/d`,
        RUNLEDGER_DATABASE_TLS: 'disable',
        RUNLEDGER_DIGEST_KEY: Buffer.alloc(32).toString('base64'),
        PORT: '0',
      },
    });
    t.teardown(() => {
      child.kill('SIGKILL');
      silent.close();
    });
    const [said, exited] = [child.stdout.toArray(), once(child, 'exit')];
    await once(silent, 'connection');
    child.kill('SIGTERM');
    t.same(await exited, [0, null], 'it ends by itself');
    t.match(Buffer.concat(await said).toString(), /"reason":"SIGTERM","msg":"stopped before/);
  });
