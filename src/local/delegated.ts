/**
 * How an ordinary user gets control groups of its own: systemd delegates them to a scope of the
 * user's manager. A login shell is in no such scope, so `serve` starts its worker in one.
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
/** A manager that is there answers at once. */
const PATIENCE_MS = 3_000;

/** What to put before a worker's command; nothing where that is not needed or would not help. */
export function delegatedScope(): readonly string[] {
  if (process.getuid!() === 0 || hasOwnGroup()) return [];
  const [program, ...args] = SCOPE;
  const tried = spawnSync(program!, [...args, 'true'], { timeout: PATIENCE_MS, stdio: 'ignore' });
  return tried.status === 0 ? SCOPE : [];
}

/** Started inside a delegated scope, or in a container that gives its user the whole tree. */
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
