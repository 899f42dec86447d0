/** A real worker process with the launcher, beside the web processes of a service. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { CANNOT_RUN } from '../../../src/local/child.ts';
import type { TestDatabase } from '../../support/database.ts';
import { takePreparedInto } from '../../support/prepared.ts';
import { spawnBound } from '../../support/spawn_bound.ts';
import type { Test } from './web_process.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/**
 * Resolves with null when the worker is ready, or with the reason why this machine cannot run one. `within`: a command that runs
 * it elsewhere, as in a network namespace.
 */
export async function realWorker(
  t: Test,
  database: TestDatabase,
  env: Record<string, string> = {},
  within: readonly string[] = [],
): Promise<string | null> {
  const state = mkdtempSync(join(tmpdir(), 'runledger-worker-'));
  t.teardown(() => rmSync(state, { recursive: true, force: true }));
  await takePreparedInto(state);
  const [command, ...args] = [...within, process.execPath, 'src/cli/main.js', 'worker'];
  const child = spawnBound(command!, args, {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: database.urls.worker,
      RUNLEDGER_STATE_DIR: state,
      RUNLEDGER_LOG_LEVEL: 'warn',
      RUNLEDGER_SHUTDOWN_GRACE: '0s',
      // On a busy machine everything waits long for a processor. Only CPU time may decide a verdict.
      RUNLEDGER_LIMITS_COMPILE_CPU: '5min',
      RUNLEDGER_LIMITS_COMPILE_WALL: '10min',
      RUNLEDGER_LIMITS_WALL: '10min',
      RUNLEDGER_LIMITS_WALL_MAX: '10min',
      // Compiling the headers takes ten times as long as the few programs that could use them.
      RUNLEDGER_PRECOMPILED_HEADERS: 'off',
      ...env,
    },
  });
  const exited = once(child, 'exit');
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await exited;
  });
  const written: string[] = [];
  for (const stream of [child.stdout!, child.stderr!]) {
    createInterface({ input: stream }).on('line', (line) => written.push(line));
  }
  return new Promise((resolve, reject) => {
    child.once('message', () => resolve(null));
    void exited.then(([code]) => {
      const reason = written.filter((line) => !line.startsWith('{')).join(' ');
      if (code === CANNOT_RUN) resolve(reason);
      else reject(new Error(`worker did not start:\n${written.join('\n')}`));
    });
  });
}
