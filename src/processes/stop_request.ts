/** When a process stops, and how long it may take. */
import type { Config } from '../config.ts';

/** Added to the grace period of running work: the time to write its outcome and to close connections. */
const CLOSING_MS = 3_000;

/** The most that a process takes to stop. */
export const stopTakesMs = (config: Pick<Config, 'shutdown_drain_ms' | 'shutdown_grace_ms'>) =>
  config.shutdown_drain_ms + config.shutdown_grace_ms + CLOSING_MS;

/** If something keeps the process alive this long after everything is closed, it exits anyway. */
export const EXIT_AFTER_MS = 500;

/** `./runledger` says whether it was started so that it ignores SIGHUP, as by nohup. Node itself would end at the signal. */
const SIGHUP_IS_IGNORED = process.env['SIGHUP_IS_IGNORED'] === '1';

/** Of every command: one that was started by nohup goes on after a logout. */
export function keepIgnoringHangups(): void {
  if (SIGHUP_IS_IGNORED) process.on('SIGHUP', () => {});
}

/** Resolves with the reason at the first stop signal, or when the process that started this one ends. */
export function stopRequested(): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => {
      if (signal !== 'SIGHUP' || !SIGHUP_IS_IGNORED) resolve(signal);
    });
  const orphaned = () => resolve('the process that started this one has ended');
  process.on('disconnect', orphaned);
  // It had a channel to its parent, which closed before this process listened.
  if (process.connected === false) orphaned();
  return promise;
}
