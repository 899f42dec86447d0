/**
 * How much of everything a rate of submissions needs. Pure: the figures of capacity_figures.ts in, sizes out.
 *
 * A core's use is linear: what an idle process costs, plus what a submission costs times the rate. At higher rates submissions
 * share commits and cost less. Each worker hears of every submission, so it costs more where there are more of them.
 */
import { heldBy } from '../config/connections.ts';
import { DAY } from '../config/variable.ts';
import { LONGEST_RETENTION } from '../config/variables.ts';
import { CHOICES, FIGURES, LANGUAGE_FIGURES } from './capacity_figures.ts';

/** The values of the figures by their names. */
export type Costs = Readonly<Record<keyof typeof FIGURES, number>> & {
  readonly languages: typeof LANGUAGE_FIGURES;
};

export const COSTS: Costs = {
  ...(Object.fromEntries(
    Object.entries(FIGURES).map(([name, { value }]) => [name, value]),
  ) as Record<keyof typeof FIGURES, number>),
  languages: LANGUAGE_FIGURES,
};

export type Demand = {
  /** Their average over the busiest minutes. */
  readonly per_second: number;
  /** Shares of languages; their sum may be anything. */
  readonly languages: Readonly<Record<string, number>>;
  /** Of the submitted program itself, in all tests of a submission together. */
  readonly cpu_seconds: number;
  readonly wall_seconds: number;
  /** What users send and programs print, of one submission. */
  readonly payload_bytes: number;
  /** Of a whole day; it decides about the disk. */
  readonly per_day: number;
  readonly disk_bytes: number;
  readonly machine_cores: number;
  readonly database_pool: number;
  /** Retention; null keeps everything. */
  readonly keep_bytes_days: number | null;
  readonly keep_events_days: number | null;
};

export type Processes = {
  readonly web: number;
  readonly workers: number;
  /** That share them; a worker hears only of the submissions of its own. */
  readonly installations?: number;
};

export type Load = { readonly database: number; readonly web: number; readonly worker: number };

/** The cores that are busy on average. */
export function loadOf(
  demand: Pick<Demand, 'per_second' | 'languages' | 'cpu_seconds'>,
  processes: Processes,
  costs: Costs = COSTS,
): Load {
  const { per_second, languages, cpu_seconds } = demand;
  const { web, workers, installations = 1 } = processes;
  const cores = (idle_ms: number, each_ms: number) => (idle_ms + per_second * each_ms) / 1000;
  const further = Math.max(0, workers / installations - 1);
  const run_ms = cpu_seconds * 1000 + mean(languages, 'box_ms', costs);
  return {
    database: cores(
      costs.idle_database_ms * (web + workers),
      costs.database_ms + costs.further_database_ms * further,
    ),
    web: cores(costs.idle_web_ms * web, costs.web_ms),
    worker: cores(
      costs.idle_worker_ms * workers,
      costs.worker_ms + costs.further_worker_ms * further + run_ms,
    ),
  };
}

export type Capacity = ReturnType<typeof capacityOf>;

export function capacityOf(demand: Demand, costs: Costs = COSTS) {
  const { per_second, machine_cores } = demand;
  const limits = limitsOf(costs);
  const installations = Math.max(1, Math.ceil(per_second / limits.submissions_per_second));
  const { slots_busy, by_cores, by_slots } = machinesOf(demand, costs);
  const spare_machines = CHOICES.spare_machines * installations;
  const without_slots = Math.max(by_cores, installations);
  const machines = Math.max(without_slots, by_slots) + spare_machines;
  const web = webOf(demand, installations, costs);
  const load = loadOf(demand, { web, workers: machines, installations }, costs);
  return {
    database: {
      cores_busy: load.database,
      cores: wholeCores(load.database, installations),
      max_connections: connectionsOf(demand, web, machines, installations),
    },
    web: { cores_busy: load.web, cores: wholeCores(load.web, installations), processes: web },
    workers: {
      cores_busy: load.worker,
      slots_busy,
      slots: Math.ceil(slots_busy / CHOICES.busy),
      cores_of_each: machine_cores,
      machines,
      spare_machines,
      machines_by_cores_alone: without_slots + spare_machines,
    },
    disk: diskOf(demand, costs),
    log: logOf(demand, costs),
    installations: { needed: installations, ...limits },
  };
}

const NO_PROCESSES: Processes = { web: 0, workers: 0 };

/** As many slots as cores, as by default: so a quota can protect each program from the others. */
function machinesOf(demand: Demand, costs: Costs) {
  const { per_second, machine_cores, languages, wall_seconds } = demand;
  const slots_busy = per_second * (wall_seconds + mean(languages, 'wall_ms', costs) / 1000);
  const cores_busy = loadOf(demand, NO_PROCESSES, costs).worker;
  // What an idle worker takes fits into the rest of its machine.
  const room = machine_cores * CHOICES.busy;
  return {
    slots_busy,
    by_cores: Math.max(1, Math.ceil(cores_busy / room)),
    by_slots: Math.ceil(slots_busy / room),
  };
}

/** A web process has one thread that does nearly all, so it uses one core at most. */
function webOf(demand: Demand, installations: number, costs: Costs): number {
  const { web } = loadOf(demand, NO_PROCESSES, costs);
  return Math.max(CHOICES.web_processes * installations, Math.ceil(web / CHOICES.busy));
}

const wholeCores = (busy: number, installations: number) =>
  Math.max(installations, Math.ceil(busy / CHOICES.busy));

function connectionsOf(
  { database_pool }: Demand,
  web: number,
  workers: number,
  installations: number,
): number {
  const processes = web * heldBy('web', database_pool) + workers * heldBy('worker', database_pool);
  const others = heldBy('command', database_pool) + CHOICES.other_connections;
  return processes + installations * others;
}

function diskOf(demand: Demand, costs: Costs) {
  const { per_day, payload_bytes, disk_bytes, keep_bytes_days, keep_events_days } = demand;
  const events_per_day = per_day * costs.data_bytes;
  const payloads_per_day = per_day * payload_bytes * costs.payload_data;
  const data_per_day = events_per_day + payloads_per_day;
  const room = disk_bytes * CHOICES.disk;
  const kept = (days: number | null) => (days === null ? Number.POSITIVE_INFINITY : days);
  // As long as no event goes. Once the first bytes go, the bytes stay as many as they are, and only events grow.
  const fullAfter = (bytes_days: number) => {
    const both = room / data_per_day;
    return both <= bytes_days ? both : (room - payloads_per_day * bytes_days) / events_per_day;
  };
  // A month is detached as a whole, when its last day is old enough.
  const detachAfter = (full_days: number) =>
    Math.min(Math.floor(full_days) - LONGEST_MONTH, LONGEST_RETENTION / DAY);
  const full_after = fullAfter(kept(keep_bytes_days));
  const detach_after = detachAfter(full_after);
  const events_days = kept(keep_events_days) + LONGEST_MONTH;
  const bytes_kept =
    events_per_day * events_days + payloads_per_day * Math.min(kept(keep_bytes_days), events_days);
  const kept_bytes_fit = bytes_kept <= room;
  return {
    data_bytes_per_day: data_per_day,
    wal_bytes_per_day: per_day * (costs.wal_bytes + payload_bytes * costs.payload_wal),
    for_ever_bytes_per_day: per_day * costs.events * costs.tree_bytes,
    bytes: disk_bytes,
    // Where what is kept does not fit, the disk is full before the first events go.
    full_after_days: kept_bytes_fit ? null : full_after,
    detach_after_days: detach_after > 0 ? detach_after : null,
    detach_with_fewer_bytes: detachAfter(fullAfter(LEAST_KEPT)) > 0,
    kept_bytes: Number.isFinite(bytes_kept) ? bytes_kept : null,
    kept_bytes_fit,
  };
}

const LONGEST_MONTH = 31;
/** The least RUNLEDGER_KEEP_BYTES, in days. */
const LEAST_KEPT = 1;

function logOf({ per_day, keep_events_days }: Demand, costs: Costs) {
  const events_per_day = per_day * costs.events;
  const kept_days = keep_events_days === null ? YEAR : keep_events_days + LONGEST_MONTH;
  const verify_s = (events_per_day * kept_days) / costs.verified;
  return {
    events_per_day,
    kept_days,
    verify_core_seconds: verify_s,
    replica_for_verify: verify_s > CHOICES.verify_s,
  };
}

/** In days; of a log that nobody shortens, so much is verified. */
export const YEAR = 365;

/** What one database can take, of which one process seals all events. */
function limitsOf(costs: Costs) {
  const accepted = costs.passed;
  const sealed = (CHOICES.sealing * 1e6) / (costs.seal_us * costs.events);
  return {
    submissions_per_second: Math.min(accepted, sealed),
    limited_by: accepted <= sealed ? ('database' as const) : ('sealing' as const),
  };
}

function mean(languages: Demand['languages'], of: 'box_ms' | 'wall_ms', costs: Costs): number {
  const shares = Object.entries(languages);
  const all = shares.reduce((sum, [, share]) => sum + share, 0);
  return shares.reduce((sum, [name, share]) => sum + costs.languages[name]![of] * share, 0) / all;
}
