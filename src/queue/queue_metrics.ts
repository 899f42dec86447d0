/** The metrics of executions and of sealing. No id is ever a label. */
import { DURATION_BUCKETS_S, type Metrics } from '../metrics.ts';
import type { Sealer } from '../store/checkpoints.ts';
import type { Swept } from '../store/consumers.ts';
import type { Observer } from './execute_task.ts';

/** A worker's metrics: what it ran, and how long each phase took. */
export function executionObserver(metrics: Metrics): Observer {
  const executions = metrics.counter(
    'runledger_executions_total',
    'Executions that ended, by language and verdict.',
    ['language', 'verdict'],
  );
  const phases = metrics.histogram(
    'runledger_phase_duration_seconds',
    'Phases of an execution: queue (accepted to started), compile, run, append (result to commit).',
    DURATION_BUCKETS_S,
    ['phase', 'language'],
  );
  const lost = leasesLost(metrics);
  return {
    phase: (phase, language, seconds) => phases.observe(seconds, { phase, language }),
    ended: (language, verdict) => executions.add({ language, verdict }),
    lost: (reason, count) => lost.add({ reason }, count),
  };
}

const leasesLost = (metrics: Metrics) =>
  metrics.counter(
    'runledger_leases_lost_total',
    'Executions that a worker lost and whose submissions wait again, by reason.',
    ['reason'],
  );

/** A web process's metrics: the executions of consumers that it found dead. */
export function sweepObserver(metrics: Metrics): (swept: Swept) => void {
  const lost = leasesLost(metrics);
  return ({ reason, executions }) => lost.add({ reason: reason ?? '' }, executions ?? 0);
}

/** Health and the log have the reason. */
export function observeSealer(metrics: Metrics, sealer: Sealer): void {
  metrics.gauge(
    'runledger_log_sealing',
    '1 while this process seals the log; 0 if it may not.',
    async () => (sealer.problem() === null ? 1 : 0),
  );
}
