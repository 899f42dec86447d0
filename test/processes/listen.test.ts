/** Where a process listens, on a kernel without IPv6, too, and what it says where it cannot. */
// needs: c
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { faultLine } from '../../src/fault.ts';
import { listenOn } from '../../src/listen.ts';
import { createLog, type Log } from '../../src/log.ts';

const ROOT = join(import.meta.dirname, '../..');

/** What such a kernel answers. */
const WITHOUT_IPV6 = `
  #define _GNU_SOURCE
  #include <dlfcn.h>
  #include <errno.h>
  #include <sys/socket.h>
  int socket(int family, int type, int protocol) {
    if (family == AF_INET6) {
      errno = EAFNOSUPPORT;
      return -1;
    }
    return ((int (*)(int, int, int))dlsym(RTLD_NEXT, "socket"))(family, type, protocol);
  }
`;

const LISTENING = `
  import { createServer } from 'node:net';
  import { listenHost, loadConfig } from './src/config.ts';
  import { listenOn } from './src/listen.ts';
  const server = createServer();
  await listenOn(server, { host: listenHost(loadConfig()), port: 0, remedy: 'none', log: console });
  console.log(server.address().address);
  server.close();
`;

const SILENT = createLog({ level: 'silent', process: 'test' });

t.test('without HOST it listens on all addresses that the kernel has', async (t) => {
  const folder = t.testdir();
  const [source, library] = [join(folder, 'no_ipv6.c'), join(folder, 'no_ipv6.so')];
  writeFileSync(source, WITHOUT_IPV6);
  execFileSync('cc', ['-shared', '-fPIC', '-o', library, source, '-ldl']);
  const listening = (env: Record<string, string>) =>
    execFileSync(process.execPath, ['--input-type=module', '-e', LISTENING], {
      cwd: ROOT,
      env: { RUNLEDGER_TLS: 'proxy', ...env },
      encoding: 'utf8',
    }).trim();
  t.equal(listening({ LD_PRELOAD: library }), '0.0.0.0');
  const has_ipv6 = existsSync('/proc/net/if_inet6');
  t.equal(listening({}), has_ipv6 ? '::' : '0.0.0.0');
  t.equal(listening({ HOST: '127.0.0.1' }), '127.0.0.1');
});

t.test(
  'a connection that cannot be accepted ends nothing, and is logged once a second',
  async (t) => {
    const server = createServer();
    t.teardown(() => void server.close());
    const said: string[] = [];
    const warning = { warn: ({ err }: { err: Error }) => void said.push(err.message) };
    const log = warning as unknown as Log;
    await listenOn(server, { host: '127.0.0.1', port: 0, remedy: 'none', log });
    // As Node tells of it.
    for (const message of ['accept ENFILE', 'accept ENFILE again'])
      server.emit('error', new Error(message));
    t.same(said, ['accept ENFILE']);
    t.ok(server.listening);
  },
);

t.test('the remedy for a port in use is given for nothing else', async (t) => {
  const [first, second] = [createServer(), createServer()];
  t.teardown(() => void first.close());
  const remedy = 'choose another port';
  await listenOn(first, { host: '127.0.0.1', port: 0, remedy, log: SILENT });
  const { port } = first.address() as AddressInfo;
  const line = (host: string) =>
    listenOn(second, { host, port, remedy, log: SILENT }).then(String, faultLine);
  t.equal(await line('127.0.0.1'), `port ${port} of 127.0.0.1 is in use: choose another port`);
  // An address for documents, which no machine has.
  t.match(await line('192.0.2.1'), /^listen EADDRNOTAVAIL: .*: choose an address of this machine$/);
});
