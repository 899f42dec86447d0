/** The metrics of executions, of submissions that end without one, and of sealing. No id is ever a label. */
import { LOSS_REASONS } from '../domain/loss_reasons.ts';
import { VERDICT_NAMES } from '../domain/verdicts.ts';
import { DURATION_BUCKETS_S, type Metrics } from '../metrics.ts';
import type { Sealer } from '../store/checkpoints.ts';
import type { Swept } from '../store/consumers.ts';
import type { Observer } from './execute_task.ts';

/** By default a submission waits for a day at most. */
const PHASE_BUCKETS_S = [...DURATION_BUCKETS_S, 300, 1_800, 7_200, 86_400];

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
    PHASE_BUCKETS_S,
    ['phase', 'language'],
  );
  const lost = observeLost(metrics);
  const no_room = metrics.counter(
    'runledger_no_room_total',
    'Executions for which this worker had no room: on its disk, in memory, for a process, or no launcher. Its log has the reason.',
  );
  no_room.add({}, 0);
  return {
    phase: (phase, language, seconds) => phases.observe(seconds, { phase, language }),
    ended: (language, verdict) => executions.add({ language, verdict }),
    lost,
    noRoom: () => no_room.add({}),
  };
}

/** A web process's metrics: what became of the executions of consumers that it found dead, and what waited too long. */
export function webObserver(metrics: Metrics) {
  const given_up = submissionsGivenUp(metrics);
  const lost = observeLost(metrics, given_up);
  return {
    swept: ({ reason, executions, ended }: Swept) =>
      lost(reason ?? '', executions ?? 0, ended ?? 0),
    expired: (count: number) => given_up.add({ reason: 'age' }, count),
  };
}

function observeLost(metrics: Metrics, given_up = submissionsGivenUp(metrics)): Observer['lost'] {
  const lost = metrics.counter(
    'runledger_leases_lost_total',
    'Executions that a worker lost, by reason. Their submissions wait again, or are given up.',
    ['reason'],
  );
  for (const reason of LOSS_REASONS) lost.add({ reason }, 0);
  return (reason, count, ended) => {
    lost.add({ reason }, count);
    given_up.add({ reason: 'losses' }, ended);
  };
}

/** Of the process that ended them: no worker has a result to count. */
function submissionsGivenUp(metrics: Metrics) {
  const given_up = metrics.counter<'reason'>(
    'runledger_submissions_given_up_total',
    'Submissions that ended in error without a result: they waited too long (age), or workers lost them too often (losses).',
    ['reason'],
  );
  for (const reason of ['age', 'losses']) given_up.add({ reason }, 0);
  return given_up;
}

/** Health and the log have the reason. */
export function observeSealer(metrics: Metrics, sealer: Sealer): void {
  metrics.gauge(
    'runledger_log_sealing',
    '1 while this process seals the log; 0 if it may not.',
    async () => (sealer.problem() === null ? 1 : 0),
  );
}
