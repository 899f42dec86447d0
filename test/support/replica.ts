/** A streaming replica of a server of a test: a copy of its stopped data, which then follows it. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Server, startServer } from '../../src/local/postgres.ts';
import type { OwnServer } from './database.ts';

export type TestReplica = {
  /** The same login's address, at the replica. */
  at(url: string): string;
  kill(): Promise<void>;
  /** Starts it again, on the same port. */
  start(): Promise<void>;
};

/** The primary is stopped for a moment. */
export async function replicaOf(
  t: { teardown(work: () => unknown): void },
  primary: OwnServer,
  settings: Record<string, string> = {},
): Promise<TestReplica> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-replica-'));
  const data_dir = join(folder, 'data');
  let running: Server | undefined;
  t.teardown(async () => {
    await running?.stop();
    await rm(folder, { recursive: true, force: true });
  });
  await primary.stop();
  // With the owners: root's PostgreSQL runs as another user, who may have no right to a folder above.
  await promisify(execFile)('cp', ['-a', primary.data_dir, data_dir]);
  await writeFile(join(data_dir, 'standby.signal'), '');
  await primary.start();
  const { hostname, port, username, password } = new URL(primary.superuser_url);
  let own_port: number | null = null;
  const start = async () => {
    running = await startServer({
      ...{ data_dir, password: '', port: own_port, uid: null, durable: false },
      settings: {
        ...settings,
        primary_conninfo: `host=${hostname} port=${port} user=${username} password=${password}`,
      },
    });
    own_port = running.port;
  };
  await start();
  return {
    start,
    at(url) {
      const there = new URL(url);
      there.port = String(own_port);
      return there.href;
    },
    async kill() {
      process.kill(running!.pid, 'SIGKILL');
      await running!.exited;
    },
  };
}
