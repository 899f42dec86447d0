/** Makes the task that delivers webhooks, with everything it needs, from the configuration. */
import type { Config } from '../config.ts';
import type { Db } from '../db.ts';
import { DELIVERY_ENDS, OUTCOMES } from '../domain/delivery_outcomes.ts';
import type { Log } from '../log.ts';
import { DURATION_BUCKETS_S, type Metrics } from '../metrics.ts';
import { createDeliveries } from '../store/deliveries.ts';
import type { LargeRecords } from '../store/large_records.ts';
import { createHostGate } from '../webhooks/host_gate.ts';
import { createDnsResolver, type Resolver } from '../webhooks/resolve.ts';
import { bodiesInTurn } from './bodies_in_turn.ts';
import { createDeliverTask, type DeliveryObserver } from './deliver_webhook.ts';
import { type CreateDeliveryTask, DELIVERIES_AT_ONCE } from './web_jobs.ts';

/** With four, a receiver that answers in 50 ms gets 80 deliveries a second from each process. */
const PLACES_PER_HOST = 4;
/** For accounts that have no delivery at the receiver, while others fill it. */
const SPARE_PER_HOST = 2;
/** How many more of each account may wait in the process for the same receiver, to follow at once. */
const LINE_PER_HOST = 2;

export type DeliveringOptions = {
  readonly config: Config;
  readonly log: Log;
  readonly db: Db;
  readonly large_records: LargeRecords;
  readonly metrics?: Metrics;
  /** Name lookup, and authorities beside those that Node trusts: tests have their own. */
  readonly resolve?: Resolver;
  readonly ca?: string[];
};

export function createDelivering(options: DeliveringOptions): CreateDeliveryTask {
  const { config, log, db, large_records, metrics, ca } = options;
  const shared = {
    deliveries: createDeliveries(db),
    bodyOf: bodiesInTurn(large_records.webhookBody, DELIVERIES_AT_ONCE),
    keys: config.webhook_keys ?? [],
    schedule_ms: config.webhook_schedule_ms,
    send: {
      allow_loopback: config.webhook_allow_loopback,
      resolve: options.resolve ?? createDnsResolver(),
      limit_ms: config.webhook_timeout_ms,
      ...(ca === undefined ? {} : { ca }),
    },
    gate: createHostGate({
      at_once: DELIVERIES_AT_ONCE,
      concurrent_per_host: PLACES_PER_HOST,
      spare_per_host: SPARE_PER_HOST,
      waiting_per_host: LINE_PER_HOST,
      now_ms: () => performance.now(),
    }),
    random: Math.random,
    now: () => new Date(),
    observe: metrics === undefined ? QUIET : observer(metrics),
    log,
  };
  return (signals) => createDeliverTask({ ...shared, ...signals });
}

const QUIET: DeliveryObserver = { attempted: () => {}, ended: () => {} };

function observer(metrics: Metrics): DeliveryObserver {
  const attempts = metrics.counter(
    'runledger_delivery_attempts_total',
    'Attempts to deliver a webhook, by what came of them.',
    ['outcome'],
  );
  const durations = metrics.histogram(
    'runledger_delivery_attempt_seconds',
    'How long an attempt took, from the name lookup to the end of the answer.',
    DURATION_BUCKETS_S,
  );
  const ends = metrics.counter(
    'runledger_deliveries_ended_total',
    'Deliveries that ended, by how.',
    ['how'],
  );
  // From zero on (metrics.ts).
  for (const outcome of OUTCOMES) attempts.add({ outcome }, 0);
  for (const how of DELIVERY_ENDS) ends.add({ how }, 0);
  return {
    attempted(outcome, seconds) {
      attempts.add({ outcome });
      if (seconds !== null) durations.observe(seconds);
    },
    ended: (how) => ends.add({ how }),
  };
}
