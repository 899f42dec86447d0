/**
 * Loaded into every test file (.taprc). When a file ends, it says how much CPU time it took. And it ends the file when its
 * runner has ended, even by kill -9. Otherwise the file would run on, with the PostgreSQL that it started.
 *
 * Only the kernel could tell us of the end of our parent, and Node cannot ask it to, so the parent's number is polled:
 * it changes when the parent dies. SIGKILL, because nothing may hold this process up; the servers and workers that it
 * started get their own signal from the kernel.
 */
import { writeSync } from 'node:fs';
import { processOf } from './processes.ts';
import { cpuComment } from './report.ts';

const POLL_MS = 200;

const runner = process.ppid;
setInterval(() => {
  if (process.ppid !== runner) process.kill(process.pid, 'SIGKILL');
}, POLL_MS).unref();

// tap makes every Node process that a test starts write down which modules it loads. Nobody reads that. It takes each process a
// tenth of a second, and one under another user id cannot write it.
const SPAWNING = Symbol.for('process-on-spawn@*:singletonId');
(globalThis as { [SPAWNING]?: { unwrap(): void } })[SPAWNING]?.unwrap();

/** Of this process and of the children that it waited for: what a server used that outlives the file is not in it. */
function cpuSeconds(): number {
  const { cpu_s, ended_s } = processOf(process.pid)!;
  return cpu_s + ended_s;
}

// A process that a test forks loads this file, too, and its output is for the test.
if (process.argv[1]?.endsWith('.test.ts') && process.env['TAP_CHILD_ID'])
  process.once('exit', () => writeSync(process.stdout.fd, cpuComment(cpuSeconds())));
