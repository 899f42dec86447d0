/**
 * Control groups for an ordinary user. systemd delegates them to a scope of the user's service manager. A login shell
 * is not in such a scope, so `serve` starts its worker in one.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';

const SCOPE = [
  'systemd-run',
  '--user',
  '--scope',
  '--quiet',
  '--collect',
  '-p',
  'Delegate=yes',
  '--',
];
/** A running service manager answers at once. */
const TIMEOUT_MS = 3_000;

/** The command prefix that starts a worker in a delegated scope. Empty if it is not needed or not possible. */
export function delegatedScope(): readonly string[] {
  if (process.getuid!() === 0 || hasOwnGroup()) return [];
  const [program, ...args] = SCOPE;
  const tried = spawnSync(program!, [...args, 'true'], { timeout: TIMEOUT_MS, stdio: 'ignore' });
  return tried.status === 0 ? SCOPE : [];
}

/** True inside a delegated scope, or in a container whose user owns the whole tree. */
function hasOwnGroup(): boolean {
  try {
    const line = readFileSync('/proc/self/cgroup', 'utf8')
      .split('\n')
      .find((found) => found.startsWith('0::'));
    accessSync(join('/sys/fs/cgroup', line!.slice(3), 'cgroup.procs'), constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
