/**
 * A worker as a separate process, for tests that kill, stop and cut it off. Its executor runs no program: the submission's
 * code is a command (below). Another process stands in for the launcher: it keeps the deadline, dies with the worker, and
 * writes every begin and end of a run to a file, with the machine's monotonic clock.
 *
 *   sleep MS [MS]  runs for this time; the second time is that of later attempts
 *   die            kills its worker
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { loadConfig } from '../../src/config.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../../src/judging/execution.ts';
import { createLog } from '../../src/log.ts';
import { openNeighbours } from '../../src/queue/neighbours.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { outcome } from './given.ts';

const [runs_file = '', slots = '4', deadline_kept = 'kept'] = process.argv.slice(2);
const config = loadConfig();
const log = createLog({ level: config.log_level, process: 'worker', to: 'stderr' });

const neighbours = await openNeighbours(log);
const stand_in = fileURLToPath(new URL('launcher_stand_in.ts', import.meta.url));
const launcher = spawn(process.execPath, [stand_in, runs_file, deadline_kept], {
  stdio: ['pipe', 'pipe', 'inherit', neighbours.descriptor ?? 'ignore'],
});
const say = (message: object) => launcher.stdin!.write(`${JSON.stringify(message)}\n`);
const ends = new Map<string, (ended: { killed: boolean }) => void>();
createInterface({ input: launcher.stdout! }).on('line', (line) => {
  const { run, killed } = JSON.parse(line) as { run: string; killed: boolean };
  ends.get(run)?.({ killed });
  ends.delete(run);
});

async function execute(order: ExecutionOrder, signal: AbortSignal): Promise<ExecutionOutcome> {
  const [what, ms, later_ms = ms] = Buffer.from(order.code).toString().split(' ');
  if (what === 'die') process.kill(process.pid, 'SIGKILL');
  const run = `${order.submission_id}#${order.attempt}`;
  const { promise, resolve } = Promise.withResolvers<{ killed: boolean }>();
  ends.set(run, resolve);
  say({ run, ms: Number((order.attempt === 1 ? ms : later_ms) ?? 0) });
  signal.addEventListener('abort', () => say({ kill: run }), { once: true });
  const { killed } = await promise;
  if (killed) throw new Error('the run was killed');
  return outcome;
}

const worker = await startWorker({
  config,
  log,
  neighbours,
  executor: {
    toolchains: () => Object.fromEntries(config.languages.map((name) => [name, 'none'])),
    slots: Number(slots),
    isolation: { kind: 'none', pid: process.pid },
    execute,
    isReady: () => true,
    extendDeadline: (ms) => say({ deadline_ms: ms }),
    async close() {
      launcher.stdin!.end();
      await once(launcher, 'exit');
    },
  },
});
process.send?.(worker.consumer_id());
process.on('SIGTERM', async () => {
  await worker.stop();
  process.exitCode = 0;
  process.disconnect?.();
  // As a real process does: a connection that was being made when the network was cut may be left.
  setTimeout(() => process.exit(), 1_000).unref();
});
// The test has ended.
process.on('disconnect', () => {
  if (process.exitCode === undefined) process.exit(1);
});
