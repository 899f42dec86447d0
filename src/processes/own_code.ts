/**
 * What `serve` does on a machine that offers no full isolation. If only people on this machine can submit code, it falls
 * back to degraded isolation, so that a first try gives a verdict anywhere. In every other case the worker decides, and
 * refuses to start.
 */
import { join } from 'node:path';
import { isOnThisMachine } from '../config/database_tls.ts';
import { type Config, isLoopback, listenHost } from '../config.ts';
import { probeIsolation } from '../executor/probe.ts';
import { launcherOf } from './process.ts';

/** A command that starts the worker with a control group, where an ordinary user can have one. */
export const SCOPE = join(import.meta.dirname, '../local/scope.sh');

export type Choice =
  | { kind: 'as configured' }
  | { kind: 'degraded'; missing: string }
  | { kind: 'none'; problem: string };

export async function chooseIsolation(config: Config): Promise<Choice> {
  if (!runsOwnCodeOnly(config)) return { kind: 'as configured' };
  const probe = (isolation: 'auto' | 'rlimits') =>
    probeIsolation({ launcher: launcherOf(config), isolation, through: [SCOPE] });
  const best = await probe('auto');
  // A launcher that failed by chance may find an isolation at the worker's next try.
  if ('isolation' in best || !best.lacks) return { kind: 'as configured' };
  const degraded = await probe('rlimits');
  if ('problem' in degraded) return { kind: 'none', problem: degraded.problem };
  return { kind: 'degraded', missing: degraded.isolation.missing ?? '' };
}

/** No other machine can submit: neither by HTTP, directly or through a proxy, nor by a database that others use. */
export function runsOwnCodeOnly(config: Config): boolean {
  const { database_url, web_database_url, worker_database_url } = config;
  const isOwn = (url: string | null) => url === null || isOnThisMachine(new URL(url));
  return (
    config.isolation === 'auto' &&
    config.tls !== 'proxy' &&
    isLoopback(listenHost(config)) &&
    [database_url, web_database_url, worker_database_url].every(isOwn)
  );
}
