/**
 * How many files a process may have open. Node raises its own limit to the most that it may have, so that number counts. With
 * few, web could reach neither the database nor a file while many clients are connected, and no program could be given more
 * than the worker may have itself.
 */
import { readFileSync } from 'node:fs';
import type { Config } from '../config.ts';
import { COMPILE_DEFAULTS } from '../domain/limits.ts';
import { CannotRun } from './process.ts';

/** For the database, for pipes, logs and files: what a process needs beside clients, or beside what its programs may have. */
const OWN = 256;

/** The configuration with no more connections than there is room for. Throws CannotRun if there is not enough. */
export function withinOpenFiles(config: Config, most = mostOpenFiles()): Config {
  const least = OWN + Math.max(config.limits_files, COMPILE_DEFAULTS.files);
  if (most < least)
    throw new CannotRun(
      `a process may have only ${most} files open here, and needs ${least}`,
      'raise the limit: `ulimit -n 4096` before the start, or LimitNOFILE=4096 in a unit',
    );
  return { ...config, connections_max: Math.min(config.connections_max, most - OWN) };
}

function mostOpenFiles(): number {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const [, hard] = /^Max open files +\S+ +(\d+)/m.exec(limits) ?? [];
  return hard === undefined ? Infinity : Number(hard);
}
