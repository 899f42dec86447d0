/** Starts a program that the kernel kills when this process ends, even by kill -9. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';

export function spawnBound(
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  return spawn('setpriv', ['--pdeathsig=KILL', '--', command, ...args], options);
}
