/**
 * The memory of the programs of which the service consists, without a line of ours: as many processes of Node, sessions of
 * PostgreSQL, JVMs that have compiled one class, and an interpreter of Python. The service cannot take less.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import postgres from 'postgres';
import { serverOptions, superuserUrl } from '../../src/local/embedded.ts';
import { startServer } from '../../src/local/postgres.ts';
import { localSecrets } from '../../src/local/secrets.ts';
import { treeOf } from '../../test/support/processes.ts';
import { type Kind, type Memory, pssOf } from './service_memory.ts';

const IDLE_NODE = 'process.stdout.write("ready"); setInterval(() => {}, 1e9)';
const IDLE_PYTHON = 'import time; print("ready", flush=True); time.sleep(1e6)';
const IDLE_JAVA = `class Idle {
  public static void main(String[] words) throws Exception {
    System.out.println("ready");
    Thread.sleep(Long.MAX_VALUE);
  }
}`;
/** Until what a start leaves behind is gone. */
const SETTLE_MS = 2_000;

/**
 * For as many processes of each kind as there are in `of`, but one interpreter of Python: the others are forks, which share its
 * pages. `node`: the Node of the service.
 */
export async function bareMemory(of: Memory, node: string): Promise<Record<Kind, number>> {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-bare-'));
  const running: ChildProcess[] = [];
  try {
    const idle = join(folder, 'Idle.java');
    writeFileSync(idle, IDLE_JAVA);
    const bare: Partial<Record<Kind, [string, ...string[]]>> = {
      serve: [node, '-e', IDLE_NODE],
      web: [node, '-e', IDLE_NODE],
      worker: [node, '-e', IDLE_NODE],
      java: ['java', '-XX:+UseSerialGC', '-Xmx64m', idle],
      python: ['python3', '-c', IDLE_PYTHON],
    };
    const started = Object.entries(bare).flatMap(([kind, [program, ...words]]) =>
      Array.from({ length: kind === 'python' ? 1 : of[kind as Kind].count }, () => {
        const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] });
        running.push(child);
        return { kind: kind as Kind, child, ready: once(child.stdout!, 'data') };
      }),
    );
    await Promise.all(started.map(({ ready }) => ready));
    await wait(SETTLE_MS);
    const memory: Record<Kind, number> = {
      ...{ serve: 0, web: 0, worker: 0, java: 0, python: 0, boxes: 0 },
      postgres: await barePostgres(folder, of.postgres.count),
    };
    for (const { kind, child } of started) memory[kind] += pssOf(child.pid!);
    return memory;
  } finally {
    for (const child of running) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** With the settings of the embedded server, and as many sessions that have asked for nothing but a number. */
async function barePostgres(state_dir: string, processes: number): Promise<number> {
  const secrets = await localSecrets(state_dir);
  const server = await startServer(serverOptions({ state_dir, postgres_uid: null }, secrets, null));
  const count = () => treeOf(server.pid).length;
  const sessions: postgres.Sql[] = [];
  try {
    while (count() < processes) {
      const session = postgres(superuserUrl(server.port, secrets, 'postgres'), { max: 1 });
      sessions.push(session);
      await session`select 1`;
    }
    await wait(SETTLE_MS);
    return treeOf(server.pid).reduce((sum, { pid }) => sum + pssOf(pid), 0);
  } finally {
    await Promise.all(sessions.map((session) => session.end()));
    await server.stop();
  }
}
