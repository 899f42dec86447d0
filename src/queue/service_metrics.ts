/**
 * A web process's metrics of the service as a whole: the queue, the workers, the log and the database. All of them are read
 * in one statement, on a connection that no submission waits for, and at most once in FRESH_MS, however many ask. There is one
 * such statement at a time: one that takes long would otherwise have others beside it, up to all connections for requests.
 */
import type { Db } from '../db.ts';
import type { Metrics } from '../metrics.ts';
import type { RetentionFacts } from '../store/retention.ts';
import { type ServiceFacts, serviceFacts } from '../store/service_facts.ts';

const FRESH_MS = 1_000;
/** Prometheus waits 10 s for a page. Without the database it gets the other metrics in this time. */
const LIMIT_MS = 3_000;
/** While a statement takes longer, the page has the outcome of the one before, if it is not older than this. */
const OUTDATED_MS = 60_000;

type Options = {
  readonly queue_capacity: number;
  /** Those that it offers: they have a value where no worker runs them, too. */
  readonly languages?: readonly string[];
  readonly fresh_ms?: number;
  readonly limit_ms?: number;
  readonly outdated_ms?: number;
};

/** `opened`: null until the database has answered for the first time. */
export function observeService(metrics: Metrics, opened: () => Db | null, options: Options): void {
  const { fresh_ms = FRESH_MS, limit_ms = LIMIT_MS, outdated_ms = OUTDATED_MS } = options;
  const facts = shared({ fresh_ms, limit_ms, outdated_ms }, () => {
    const db = opened();
    return db ? serviceFacts(db) : Promise.reject(new Error('the database has not answered yet'));
  });
  const gauge: Gauge = (name, help, of) => metrics.gauge(name, help, async () => of(await facts()));
  metrics.gauge('runledger_database_up', '1 if the database answers; else 0.', () =>
    facts().then(
      () => 1,
      () => 0,
    ),
  );
  queueGauges(gauge);
  metrics.gauge(
    'runledger_queue_capacity',
    'The most submissions that may be pending (RUNLEDGER_QUEUE_CAPACITY).',
    () => options.queue_capacity,
  );
  languageGauges(metrics, facts, options.languages ?? []);
  logGauges(gauge);
  retentionGauges(metrics, facts);
  databaseGauges(gauge);
}

/** Ages have no value while there is nothing of that kind. */
type Gauge = (name: string, help: string, of: (facts: ServiceFacts) => number | null) => void;

function queueGauges(gauge: Gauge): void {
  gauge('runledger_queue_depth', 'Submissions that no worker has started.', (f) => f.waiting);
  gauge(
    'runledger_queue_held',
    'Of those, the submissions that more workers would not start: their key is at its limit, or no worker runs their language.',
    (f) => f.gated,
  );
  gauge(
    'runledger_queue_again',
    'Submissions that were lost with a worker and wait to be run again, approximately.',
    (f) => f.again,
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
}

function languageGauges(
  metrics: Metrics,
  facts: () => Promise<ServiceFacts>,
  offered: readonly string[],
): void {
  const each = (name: string, help: string, of: 'workers' | 'slots') =>
    metrics.gauge(
      name,
      help,
      async () => {
        const run = (await facts()).languages.map((one) => [one.language, one[of]] as const);
        const none = offered.map((language) => [language, 0] as const);
        return [...new Map([...none, ...run])].map(([language, count]) => [{ language }, count]);
      },
      ['language'],
    );
  each('runledger_language_workers', 'Workers alive that run the language.', 'workers');
  each(
    'runledger_language_slots',
    'Slots of these workers. One slot serves all languages of its worker.',
    'slots',
  );
}

function logGauges(gauge: Gauge): void {
  gauge(
    'runledger_log_unsealed_events',
    'Events that no checkpoint covers yet; where there are very many, not all are counted.',
    (f) => f.unsealed,
  );
  gauge('runledger_log_lag_seconds', 'Age of the oldest of them.', (f) => f.unsealed_s);
  gauge(
    'runledger_log_checkpoint_age_seconds',
    'Age of the newest checkpoint; without new events no checkpoint is made.',
    (f) => f.checkpoint_age_s,
  );
}

function retentionGauges(metrics: Metrics, facts: () => Promise<ServiceFacts>): void {
  const gauge = (name: string, help: string, of: (facts: RetentionFacts) => number | null) =>
    metrics.gauge(name, help, async () => of((await facts()).retention));
  gauge('runledger_retention_problem', '1 while old data is there that is due; else 0.', (f) =>
    Number(f.problem !== null),
  );
  gauge(
    'runledger_retention_round_age_seconds',
    'How long ago the last round of scheduled retention ended.',
    (f) => f.ended_s,
  );
  gauge(
    'runledger_retention_oldest_bytes_seconds',
    'Age of the oldest submission whose code, input or output is kept.',
    (f) => f.oldest_bytes_s,
  );
}

function databaseGauges(gauge: Gauge): void {
  gauge('runledger_database_size_bytes', 'Size of the database on its disk.', (f) => f.size_bytes);
  gauge(
    'runledger_database_connections',
    'Connections to the server, of all of its databases.',
    (f) => f.connections,
  );
  gauge(
    'runledger_database_connections_left',
    'Connections that the server still allows to ordinary logins.',
    (f) => Math.max(f.connections_max - f.connections, 0),
  );
}

type Times = { fresh_ms: number; limit_ms: number; outdated_ms: number };
/** A question that is under way. */
type Asking<T> = { asked: Promise<T>; late: Promise<void> };

/** The same answer for everybody who asks until `fresh_ms` after it came, a failure too. It asks again only after that. */
function shared<T>({ fresh_ms, limit_ms, outdated_ms }: Times, ask: () => Promise<T>) {
  let last: { outcome: Promise<T>; at_ms: number } | null = null;
  let asking: Asking<T> | null = null;

  const begin = (): Asking<T> => {
    const asked = ask();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, limit_ms).unref();
    const ended = () => {
      clearTimeout(timer);
      last = { outcome: asked, at_ms: performance.now() };
      asking = null;
    };
    asked.then(ended, ended);
    return { asked, late };
  };
  const lastOutcome = (): Promise<T> => {
    if (last !== null && performance.now() < last.at_ms + outdated_ms) return last.outcome;
    throw new Error(`the database did not answer within ${limit_ms} ms`);
  };
  return (): Promise<T> => {
    if (asking === null && last !== null && performance.now() < last.at_ms + fresh_ms)
      return last.outcome;
    asking ??= begin();
    // The question goes on: a database that is away in silence ends it only after a while.
    return Promise.race([asking.asked, asking.late.then(lastOutcome)]);
  };
}
