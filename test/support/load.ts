/**
 * Runs the tests beside busy processes, as on a slow machine, where tests that depend on timing fail.
 *
 *   node test/support/load.ts PROCESSES [FILE or folder]...
 *
 * The busy processes have the same priority as the tests. They end when the tests have ended, or when this process dies.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const RUN = fileURLToPath(new URL('run.ts', import.meta.url));
const BUSY = ['--pdeathsig=KILL', 'sh', '-c', 'while :; do :; done'];

const [processes, ...paths] = process.argv.slice(2);
const count = Number(processes);
if (!Number.isInteger(count) || count < 1) {
  console.error('how many busy processes? node test/support/load.ts 12 test/cli');
  process.exit(2);
}
const busy = Array.from({ length: count }, () => spawn('setpriv', BUSY, { stdio: 'ignore' }));
const run = spawn(process.execPath, [RUN, ...paths], { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => run.kill(signal));
const [code] = await once(run, 'exit');
for (const one of busy) one.kill('SIGKILL');
process.exitCode = (code as number | null) ?? 1;
