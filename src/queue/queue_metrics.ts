/** The metrics of executions and of sealing. No id is ever a label. */
import { LOSS_REASONS } from '../domain/loss_reasons.ts';
import { VERDICT_NAMES } from '../domain/verdicts.ts';
import { DURATION_BUCKETS_S, type Metrics } from '../metrics.ts';
import type { Sealer } from '../store/checkpoints.ts';
import type { Swept } from '../store/consumers.ts';
import type { Observer } from './execute_task.ts';

/** A worker's metrics: what it ran, and how long each phase took. `languages`: those that it can run. */
export function executionObserver(metrics: Metrics, languages: readonly string[]): Observer {
  const executions = metrics.counter(
    'runledger_executions_total',
    'Executions that ended, by language and verdict.',
    ['language', 'verdict'],
  );
  // From zero on (metrics.ts).
  for (const language of languages)
    for (const verdict of VERDICT_NAMES) executions.add({ language, verdict }, 0);
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

function leasesLost(metrics: Metrics) {
  const lost = metrics.counter(
    'runledger_leases_lost_total',
    'Executions that a worker lost and whose submissions wait again, by reason.',
    ['reason'],
  );
  for (const reason of LOSS_REASONS) lost.add({ reason }, 0);
  return lost;
}

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
