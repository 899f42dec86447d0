/**
 * What Runledger costs, as measured: the only place of these figures. The model in capacity_model.ts computes with them, and
 * `make bench FILE=bench/capacity.bench.ts` measures each again, prints it beside the figure here, and exits 1 where the two
 * are far apart.
 */
export type Figure = {
  readonly value: number;
  readonly unit: string;
  /** What it is of, as a row of the documents and of the bench. */
  readonly what: string;
  /** The command that measures it. */
  readonly measured_by: string;
};

const CAPACITY = 'make bench FILE=bench/capacity.bench.ts';
const LEDGER = 'make bench FILE=bench/ledger.bench.ts';
const SERVICE = 'make bench FILE=bench/service.bench.ts';

const figure = (value: number, unit: string, what: string, measured_by = CAPACITY): Figure => ({
  value,
  unit,
  what,
  measured_by,
});

/** A submission here has one run, its request waits for the result, and it has no webhook. */
export const FIGURES = {
  database_ms: figure(4, 'ms', 'CPU of PostgreSQL for a submission'),
  web_ms: figure(1.7, 'ms', 'CPU of web for a submission'),
  worker_ms: figure(1.4, 'ms', 'CPU of the worker process for a submission, without its programs'),
  further_database_ms: figure(
    0.08,
    'ms',
    'CPU of PostgreSQL for a submission, for each worker process after the first',
  ),
  further_worker_ms: figure(
    0.06,
    'ms',
    'CPU of each worker process after the first, for a submission',
  ),
  idle_database_ms: figure(1.7, 'ms/s', 'CPU of PostgreSQL for each web or worker process, idle'),
  idle_web_ms: figure(5.3, 'ms/s', 'CPU of a web process, idle'),
  idle_worker_ms: figure(2.7, 'ms/s', 'CPU of a worker process with its launcher, idle'),
  events: figure(3, 'events', 'events of a submission'),
  data_bytes: figure(3800, 'bytes', 'data of a submission, without what users sent and printed'),
  wal_bytes: figure(5400, 'bytes', 'WAL of a submission, without what users sent and printed'),
  payload_data: figure(1.3, 'bytes', 'data for each byte that users sent or printed'),
  payload_wal: figure(1.1, 'bytes', 'WAL for each byte that users sent or printed'),
  tree_bytes: figure(
    33,
    'bytes',
    'hashes of an event, which stay when its month is detached',
    LEDGER,
  ),
  seal_us: figure(12, 'µs', 'CPU of web and PostgreSQL to seal an event', LEDGER),
  verified: figure(32_000, 'events/s', 'events that one core verifies, with PostgreSQL', LEDGER),
  passed: figure(
    435,
    'runs/s',
    'submissions of one database, on 2 cores for it, web, worker and programs',
    SERVICE,
  ),
} as const satisfies Readonly<Record<string, Figure>>;

/**
 * What a source that was never seen costs in the boxes, beyond what the program itself does: compiler, runtime and launcher.
 * Of programs that print one line: a long source of C++ takes many times as much to compile.
 */
export const LANGUAGE_FIGURES: Readonly<
  Record<string, { readonly box_ms: number; readonly wall_ms: number }>
> = {
  python: { box_ms: 2.8, wall_ms: 6.8 },
  cpp: { box_ms: 72, wall_ms: 70 },
  java: { box_ms: 42, wall_ms: 43 },
};

/** Choices, not measurements: how full we let things become on average, so that a peak still fits. */
export const CHOICES = {
  /** of the cores of database, web and workers, and of the slots */
  busy: 0.6,
  /** of the disk, by data */
  disk: 0.7,
  /** of one core, by the one process that seals */
  sealing: 0.5,
  /** a longer check of the whole log should not run on the primary */
  verify_s: 3600,
  /** one may end, or be restarted */
  web_processes: 2,
  /** a machine that fails leaves enough of the others */
  spare_machines: 1,
  /** for an auditor, backups, metrics, and those that PostgreSQL reserves for superusers */
  other_connections: 10,
} as const;
