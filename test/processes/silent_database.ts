/** A process whose database does not answer is still one that stops when it is asked. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import type t from 'tap';

export const CLI = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
export const RUNLEDGER = fileURLToPath(new URL('../../runledger', import.meta.url));

export function stopsWhenAsked(test: typeof t, name: 'web' | 'worker'): void {
  test.test(`${name} stops when asked while its database does not answer`, async (t) => {
    const { child, said, exited } = await asksForEver(t, process.execPath, [CLI, name]);
    child.kill('SIGTERM');
    t.same(await exited, [0, null], 'it ends by itself');
    t.match(Buffer.concat(await said).toString(), /"reason":"SIGTERM","msg":"stopped before/);
  });

  for (const [how, before, reason] of [
    ['ends', '', 'SIGHUP'],
    ['that it was started to ignore leaves', "trap '' HUP;", 'SIGTERM'],
  ] as const)
    test.test(`a SIGHUP ${how} ${name}`, async (t) => {
      const command = `${before} exec ${RUNLEDGER} ${name}`;
      const { child, said, exited } = await asksForEver(t, 'sh', ['-c', command]);
      child.kill('SIGHUP');
      if (before) child.kill('SIGTERM');
      t.same(await exited, [0, null]);
      t.match(Buffer.concat(await said).toString(), new RegExp(`"reason":"${reason}"`));
    });
}

/** Starts a process whose database takes the connection and never answers. */
export async function asksForEver(
  t: { teardown(work: () => unknown): void },
  command: string,
  args: readonly string[],
) {
  const silent = createServer((socket) => socket.on('error', () => {}));
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  const { port } = silent.address() as AddressInfo;
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: `postgres://u:p@127.0.0.1:${port}/d`,
      RUNLEDGER_DATABASE_TLS: 'disable',
      // A worker restarts without this one, and still ignores the signals that it was started to ignore.
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
  return { child, said, exited };
}
