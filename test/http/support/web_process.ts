/** A real web process, started with the command of the Procfile. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { TestDatabase } from '../../support/database.ts';
import { spawnBound } from '../../support/spawn_bound.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const [, WEB] = /^web: exec node (.+)$/m.exec(readFileSync(join(ROOT, 'Procfile'), 'utf8'))!;
export const DIGEST_KEY = Buffer.alloc(32, 7).toString('base64');
export const WEBHOOK_KEY = `test:${Buffer.alloc(32, 9).toString('base64')}`;

/** The part of tap's `t` that is used here. */
export type Test = { teardown(work: () => unknown): void };

export type WebProcess = {
  readonly origin: string;
  readonly port: number;
  /** everything that it has written to stdout and stderr so far */
  readonly written: string[];
  readonly process: ChildProcess;
  stop(): Promise<number | null>;
};

export async function webProcess(
  t: Test,
  database: TestDatabase,
  env: Record<string, string> = {},
  /** For those who look before it has started. */
  written: string[] = [],
): Promise<WebProcess> {
  const child = spawnBound(process.execPath, WEB!.split(' '), {
    cwd: ROOT,
    // The process reports its address over the channel, and the channel's end tells it that we have ended.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: database.urls.web,
      HOST: '127.0.0.1',
      PORT: '0',
      RUNLEDGER_DIGEST_KEY: DIGEST_KEY,
      RUNLEDGER_WEBHOOK_KEYS: WEBHOOK_KEY,
      RUNLEDGER_SHUTDOWN_GRACE: '0s',
      ...env,
    },
  });
  const exited = once(child, 'exit');
  for (const stream of [child.stdout!, child.stderr!]) {
    createInterface({ input: stream }).on('line', (line) => written.push(line));
  }
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    const [code] = await exited;
    return code as number | null;
  };
  t.teardown(stop);
  const origin = await new Promise<string>((resolve, reject) => {
    child.once('message', (ready) => resolve((ready as { address: string }).address));
    void exited.then(() => reject(new Error(`web did not start:\n${written.join('\n')}`)));
  });
  return { origin, port: Number(new URL(origin).port), written, process: child, stop };
}
