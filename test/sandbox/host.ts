/** Real files, sockets and services of the host that no program may reach, made for one suite and removed with it. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Host } from './case.ts';

export async function openHost(calls = ''): Promise<{ host: Host; close: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'host-secret-'));
  const secret = `secret-${randomBytes(12).toString('hex')}`;
  const file = join(folder, 'readable');
  await writeFile(file, secret, { mode: 0o644 });
  const abstract = `host-${randomBytes(6).toString('hex')}`;
  const path = join(folder, 'service.socket');
  const servers = await Promise.all([
    listening({ host: '127.0.0.1', port: 0 }),
    listening({ host: '::1', port: 0 }).catch(() => null),
    listening({ path }),
    listening({ path: `\0${abstract}` }),
  ]);
  const [four, six] = servers;
  const port = (server: Server) => (server.address() as { port: number }).port;
  const host: Host = {
    secret_files: [file, import.meta.filename, '/proc/1/environ'],
    secret,
    hostname: hostname(),
    tcp: [`127.0.0.1:${port(four)}`, ...(six ? [`[::1]:${port(six)}`] : [])],
    unix_sockets: [path, `@${abstract}`],
    host_words: [
      folder,
      join(import.meta.dirname, '../..'),
      hostname().length > 3 ? hostname() : folder,
    ],
    calls,
  };
  return {
    host,
    close: async () => {
      await Promise.all(
        servers.map((server) => server && new Promise((done) => server.close(done))),
      );
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function listening(where: { host?: string; port?: number; path?: string }): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on('error', () => {}); // a program that got this far has reported it and may be gone
      socket.end('a service of the host\n');
    });
    server.once('error', reject);
    server.listen(where, () => resolve(server));
  });
}
