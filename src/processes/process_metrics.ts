/** The metrics that every process has of itself. The programs that a worker runs are not in them. */
import type { ProcessName } from '../environment.ts';
import type { Metrics } from '../metrics.ts';
import { versionOf } from '../version.ts';

export async function observeProcess(metrics: Metrics, name: ProcessName): Promise<void> {
  const build = { version: await versionOf(), node: process.versions.node };
  metrics.gauge(
    'runledger_process_info',
    'The kind of this process.',
    () => [[{ process: name }, 1]],
    ['process'],
  );
  metrics.gauge(
    'runledger_build_info',
    'The version of Runledger and of Node.',
    () => [[build, 1]],
    ['version', 'node'],
  );
  metrics.gauge(
    'runledger_process_start_time_seconds',
    'When this process started, in seconds since 1970.',
    () => performance.timeOrigin / 1e3,
  );
  metrics.total(
    'runledger_process_cpu_seconds_total',
    'CPU time of this process, all of its threads together.',
    () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    },
  );
  metrics.total(
    'runledger_process_busy_seconds_total',
    'For how long its main thread has not been idle. At 1 s a second, requests wait for it.',
    () => performance.eventLoopUtilization().active / 1e3,
  );
  metrics.gauge('runledger_process_resident_memory_bytes', 'Memory of this process.', () =>
    process.memoryUsage.rss(),
  );
}
