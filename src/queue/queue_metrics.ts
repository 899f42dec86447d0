/** The queue's metrics. No id is ever a label. */
import type { Db } from '../db.ts';
import { DURATION_BUCKETS_S, type Metrics } from '../metrics.ts';
import type { Sealer } from '../store/checkpoints.ts';
import type { Swept } from '../store/consumers.ts';
import { type QueueFacts, queueFacts } from '../store/queue_facts.ts';
import type { Observer } from './execute_task.ts';

/** A worker's metrics: what it ran, and how long each phase took. */
export function executionObserver(metrics: Metrics): Observer {
  const executions = metrics.counter(
    'runledger_executions_total',
    'Executions that ended, by language and verdict.',
  );
  const phases = metrics.histogram(
    'runledger_phase_duration_seconds',
    'Phases of an execution: queue (accepted to started), compile, run, append (result to commit).',
    DURATION_BUCKETS_S,
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
  );

/** A web process's metrics: the executions of consumers that it found dead. */
export function sweepObserver(metrics: Metrics): (swept: Swept) => void {
  const lost = leasesLost(metrics);
  return ({ reason, executions }) => lost.add({ reason: reason ?? '' }, executions ?? 0);
}

/** A web process's metrics: the queue and the log at the moment of asking, in one query for all gauges. */
export function observeQueue(metrics: Metrics, db: Db): void {
  let asked: Promise<QueueFacts> | null = null;
  const facts = () => {
    asked ??= queueFacts(db).finally(() => {
      asked = null;
    });
    return asked;
  };
  const gauge = (name: string, help: string, of: (facts: QueueFacts) => number) =>
    metrics.gauge(name, help, async () => of(await facts()));
  gauge('runledger_queue_depth', 'Submissions that no worker has started.', (f) => f.waiting);
  gauge(
    'runledger_queue_held',
    'Of those, the submissions that are gated: their key is at its limit.',
    (f) => f.gated,
  );
  gauge('runledger_executions_running', 'Executions that run.', (f) => f.running);
  gauge(
    'runledger_queue_oldest_wait_seconds',
    'How long the oldest submission has waited.',
    (f) => f.oldest_wait_s,
  );
  gauge('runledger_workers_alive', 'Workers whose heartbeats arrive.', (f) => f.workers);
  gauge('runledger_worker_slots', 'Programs that they can run at once.', (f) => f.slots);
  gauge(
    'runledger_deliveries_waiting',
    'Webhooks that wait for their next attempt.',
    (f) => f.deliveries_waiting,
  );
  gauge(
    'runledger_log_unsealed_events',
    'Events that no checkpoint covers yet.',
    (f) => f.unsealed,
  );
  gauge('runledger_log_lag_seconds', 'Age of the oldest of them.', (f) => f.unsealed_s);
  gauge(
    'runledger_log_checkpoint_age_seconds',
    'Age of the newest checkpoint; without new events no checkpoint is made.',
    (f) => f.checkpoint_age_s,
  );
}

/** Health and the log have the reason. */
export function observeSealer(metrics: Metrics, sealer: Sealer): void {
  metrics.gauge(
    'runledger_log_sealing',
    '1 while this process seals the log; 0 if it may not.',
    async () => (sealer.problem() === null ? 1 : 0),
  );
}
