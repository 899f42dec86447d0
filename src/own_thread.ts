/**
 * A thread of our own code. It sees nothing of the environment but where Node keeps compiled modules: a thread does not inherit
 * the cache of its process, and without one its start takes twice the time, and Node's compiler of TypeScript 7 MB for as long
 * as it lives.
 */
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { Worker, type WorkerOptions } from 'node:worker_threads';

export function startThread(file: URL, options: Omit<WorkerOptions, 'env' | 'execArgv'>): Worker {
  // Node answers with the folder of its own version, below the one that it was given.
  const cache = getCompileCacheDir();
  const env = cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) };
  return new Worker(file, { ...options, env, execArgv: [] });
}
