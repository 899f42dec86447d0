/**
 * Limits of one run. LIMITS is the one table: a row is a limit that the launcher enforces, with its default, and, where a
 * submission may set it, the field of the API and its bounds. Everything else derives from the rows: `RunLimits`, which
 * the launcher's order must carry whole (src/executor/launcher_wire.ts), the variables of the configuration, the request
 * schema, the OpenAPI document and the client's types. So a new limit is one row, and does not compile before the order
 * to the launcher has it.
 */

import {
  FRAME_MAX,
  KEEP_BYTES_MAX,
  MOST_FILES,
  MOST_PROCESSES,
  OUTPUTS_BYTES,
} from './launcher_bounds.ts';

/** A canonical name of a language; `src/languages` says which there are, and the boundary checks it. */
export type LanguageName = string;

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;
const HOUR = 3_600_000;

export type Limit = Readonly<{
  unit: 'ms' | 'bytes' | 'count';
  default: number;
  /** the configuration variable of the default; that of the largest value of a request ends in _MAX */
  variable: string;
  /** the smallest and largest value that the configuration accepts */
  range: readonly [number, number];
  /** for people: what is counted, and why */
  counts?: string;
  reason?: string;
  request?: RequestLimit;
}>;

/** How a submission sets a limit. Times are seconds in the API and milliseconds everywhere else. */
type RequestLimit = Readonly<{
  /** its name in `limits` of a request */
  name: string;
  /** its name in stored submissions and events; it never changes */
  stored: string;
  /** bounds of a request; an operator may set another maximum */
  min: number;
  max: number;
  description: string;
  /** for the OpenAPI document, in the unit of the API */
  example: number;
}>;

export const LIMITS = {
  cpu_ms: {
    unit: 'ms',
    default: 5_000,
    variable: 'RUNLEDGER_LIMITS_CPU',
    range: [10, HOUR],
    request: {
      name: 'cpu_time',
      stored: 'cpu_time_ms',
      min: 10,
      max: 15_000,
      description: 'CPU time of the run, seconds.',
      example: 1,
    },
  },
  wall_ms: {
    unit: 'ms',
    default: 10_000,
    variable: 'RUNLEDGER_LIMITS_WALL',
    range: [10, HOUR],
    request: {
      name: 'wall_time',
      stored: 'wall_time_ms',
      min: 10,
      max: 30_000,
      description: 'Elapsed time of the run, seconds.',
      example: 2,
    },
  },
  memory_bytes: {
    unit: 'bytes',
    default: 256 * MiB,
    variable: 'RUNLEDGER_LIMITS_MEMORY',
    range: [MiB, 1024 * GiB],
    request: {
      name: 'memory',
      stored: 'memory_bytes',
      min: 4 * MiB,
      max: 1 * GiB,
      description:
        'Memory of the run, bytes. A language gets more where its runtime cannot start with less.',
      example: 128 * MiB,
    },
  },
  stack_bytes: {
    unit: 'bytes',
    default: 1 * GiB,
    variable: 'RUNLEDGER_LIMITS_STACK',
    range: [64 * KiB, 1024 * GiB],
    reason: 'the stack of the main thread; the memory limit where that is less',
    request: {
      name: 'stack',
      stored: 'stack_bytes',
      min: 64 * KiB,
      max: 1 * GiB,
      description:
        'Stack of the main thread, bytes; the memory limit if absent, and never more. A language gets more where its runtime cannot start with less.',
      example: 64 * MiB,
    },
  },
  stdout_bytes: {
    unit: 'bytes',
    default: 1 * MiB,
    variable: 'RUNLEDGER_LIMITS_STDOUT',
    // As much is kept of a file that is judged instead.
    range: [0, KEEP_BYTES_MAX - OUTPUTS_BYTES],
    request: {
      name: 'output',
      stored: 'output_bytes',
      min: 0,
      max: 4 * MiB,
      description: 'Standard output kept, bytes.',
      example: 64 * KiB,
    },
  },
  stderr_bytes: {
    unit: 'bytes',
    default: 64 * KiB,
    variable: 'RUNLEDGER_LIMITS_STDERR',
    range: [0, 64 * MiB],
    reason: 'stderr that is kept of one run; the rest is drained and the result flagged',
  },
  processes: {
    unit: 'count',
    default: 64,
    variable: 'RUNLEDGER_LIMITS_PROCESSES',
    range: [1, MOST_PROCESSES],
    counts: 'processes and threads',
    request: {
      name: 'processes',
      stored: 'processes',
      min: 1,
      max: 256,
      description:
        'Processes and threads at once. A language gets more where its runtime cannot start with less. A request for more than the default gets fewer open files for each process, at least 16: in all there are no more than by the defaults.',
      example: 16,
    },
  },
  disk_bytes: {
    unit: 'bytes',
    default: 64 * MiB,
    variable: 'RUNLEDGER_LIMITS_DISK',
    // The files of any request fit: those of one frame, each in pages of its own.
    range: [FRAME_MAX + MiB, 64 * GiB],
    reason: 'the work folder and /tmp together; charged to the memory of the run',
  },
  inodes: {
    unit: 'count',
    default: 4_096,
    variable: 'RUNLEDGER_LIMITS_INODES',
    // A request can have 64 files with 15 folders each, and stdin_file; a checker's box has what passes left, too.
    range: [2_048, 10_000_000],
    counts: 'files',
    reason: 'the work folder and /tmp together',
  },
  /** RLIMIT_NOFILE */
  files: {
    unit: 'count',
    default: 64,
    variable: 'RUNLEDGER_LIMITS_FILES',
    range: [8, MOST_FILES],
    counts: 'open files',
    reason:
      'of each process; a request for more than the default `processes` gets fewer for each, so that in all there are no more',
  },
} as const satisfies Readonly<Record<string, Limit>>;

type Rows = typeof LIMITS;
export type LimitField = keyof Rows;

/** The limits in force for one run: every row has a value. */
export type RunLimits = Record<LimitField, number>;

/** The rows that a submission may set, and their names in the API and in the log. */
export type RequestField = {
  [F in LimitField]: Rows[F] extends { request: RequestLimit } ? F : never;
}[LimitField];
type RequestOf<F extends RequestField> = Rows[F]['request'];
export type RequestLimitName = { [F in RequestField]: RequestOf<F>['name'] }[RequestField];
type StoredName = { [F in RequestField]: RequestOf<F>['stored'] }[RequestField];

/** The limits that a submission set, as they are stored. */
export type LimitOverrides = Partial<Record<StoredName, number>>;

export type Bound = { min: number; max: number };
export type LimitBounds = Record<StoredName, Bound>;

export const LIMIT_FIELDS = Object.keys(LIMITS) as LimitField[];

export const REQUEST_LIMITS = LIMIT_FIELDS.flatMap((field) => {
  const row: Limit = LIMITS[field];
  return row.request === undefined ? [] : [{ ...row.request, unit: row.unit, field }];
}) as readonly (Omit<RequestLimit, 'name' | 'stored'> & {
  field: RequestField;
  unit: Limit['unit'];
  name: RequestLimitName;
  stored: StoredName;
})[];

/** The limits that a program can be seen to exceed, by their names in the API: `limit_exceeded` of a record. */
export const EXCEEDABLE = [
  'cpu_time',
  'wall_time',
  'memory',
  'output',
  'processes',
] as const satisfies readonly RequestLimitName[];

/** As a person reads them. */
export const EXCEEDABLE_WORDS: Readonly<Record<(typeof EXCEEDABLE)[number], string>> = {
  cpu_time: 'CPU time',
  wall_time: 'elapsed time',
  memory: 'memory',
  output: 'output',
  processes: 'processes',
};

/** The limits in force as callers see them: with the names and units of a request. */
export function shownLimits(limits: Readonly<Record<string, number>>): ShownLimits {
  const shown = REQUEST_LIMITS.map(({ name, unit, field }) => {
    const value = limits[field];
    if (value === undefined) return [name, null];
    return [name, unit === 'ms' ? value / 1000 : value];
  });
  return Object.fromEntries(shown) as ShownLimits;
}

/** A limit is null in a record of a time before the limit existed. */
export type ShownLimits = Record<RequestLimitName, number | null>;

/** A compiler has limits of its own, never those of a request, so that tight limits for a program don't fail its build. */
export const COMPILE_DEFAULTS: Readonly<RunLimits> = {
  cpu_ms: 10_000,
  wall_ms: 15_000,
  memory_bytes: 1 * GiB,
  stack_bytes: 64 * MiB,
  processes: 64,
  stdout_bytes: 64 * KiB,
  stderr_bytes: 64 * KiB,
  disk_bytes: 256 * MiB,
  inodes: 4_096,
  files: 256,
};

/** Everything that an operator decides about limits. */
export type LimitPolicy = { run: RunLimits; compile: RunLimits; bounds: LimitBounds };

/** The policy of a configuration that sets nothing. */
export const DEFAULT_POLICY: Readonly<LimitPolicy> = {
  run: mapFields(({ default: value }) => value),
  compile: COMPILE_DEFAULTS,
  bounds: boundsOf((request) => request.max),
};

export const DEFAULT_BOUNDS: Readonly<LimitBounds> = DEFAULT_POLICY.bounds;

/** The limits of a configuration: src/config/limit_variables.ts has a variable for each. */
export type LimitSettings = Readonly<
  Record<`limits_${LimitField}` | `limits_max_${RequestField}`, number> &
    Record<`limits_compile_${'cpu_ms' | 'wall_ms' | 'memory_bytes' | 'output_bytes'}`, number>
>;

export function policyFrom(settings: LimitSettings): LimitPolicy {
  return {
    run: mapFields((_, field) => settings[`limits_${field}`]),
    compile: {
      ...COMPILE_DEFAULTS,
      cpu_ms: settings.limits_compile_cpu_ms,
      wall_ms: settings.limits_compile_wall_ms,
      memory_bytes: settings.limits_compile_memory_bytes,
      stdout_bytes: settings.limits_compile_output_bytes,
      stderr_bytes: settings.limits_compile_output_bytes,
    },
    bounds: boundsOf(({ field }) => settings[`limits_max_${field}`]),
  };
}

function mapFields(pick: (row: Limit, field: LimitField) => number): RunLimits {
  const values = LIMIT_FIELDS.map((field) => [field, pick(LIMITS[field], field)]);
  return Object.fromEntries(values) as RunLimits;
}

function boundsOf(maxOf: (request: (typeof REQUEST_LIMITS)[number]) => number): LimitBounds {
  const bounds = REQUEST_LIMITS.map((request) => {
    const max = maxOf(request);
    return [request.stored, { min: Math.min(request.min, max), max }];
  });
  return Object.fromEntries(bounds) as LimitBounds;
}

/** What a language's runtime takes for itself, so that the limits stay those of the program. */
export type RuntimeNeeds = Readonly<{
  /** The default wall time is multiplied by it. */
  wall_factor: number;
  /** Added to the default. */
  more_processes: number;
  /** Added to the limit. */
  more_files: number;
  /** The least that the runtime starts with: under a lower limit no program could run. */
  least_memory_bytes: number;
  least_stack_bytes: number;
  least_processes: number;
}>;

function baseFor(needs: RuntimeNeeds, run: RunLimits): RunLimits {
  return {
    ...run,
    wall_ms: needs.wall_factor * run.wall_ms,
    processes: run.processes + needs.more_processes,
    files: run.files + needs.more_files,
  };
}

/**
 * The limits in force. Overrides are clamped here and not rejected: a submission that was accepted under an operator's
 * bounds still runs after the operator has narrowed them.
 */
export function limitsFor(
  needs: RuntimeNeeds,
  overrides: LimitOverrides = {},
  policy: LimitPolicy = DEFAULT_POLICY,
): RunLimits {
  const { bounds } = policy;
  const limits = { ...baseFor(needs, policy.run) };
  for (const { field, stored } of REQUEST_LIMITS) {
    const asked = overrides[stored];
    if (!isNumber(asked)) continue;
    const { min, max } = bounds[stored];
    limits[field] = Math.min(Math.max(Math.trunc(asked), min), max);
  }
  // CPU time beyond the wall time could never be used, so a request for CPU time alone raises the wall time, too.
  if (!isNumber(overrides.wall_time_ms)) {
    const { max } = bounds.wall_time_ms;
    limits.wall_ms = Math.max(limits.wall_ms, Math.min(2 * limits.cpu_ms, max));
  }
  limits.files = Math.min(limits.files, filesOfEach(limits.processes, needs, policy.run));
  limits.memory_bytes = Math.max(limits.memory_bytes, needs.least_memory_bytes);
  limits.stack_bytes = Math.max(limits.stack_bytes, needs.least_stack_bytes);
  limits.stack_bytes = Math.min(limits.stack_bytes, limits.memory_bytes);
  limits.processes = Math.max(limits.processes, needs.least_processes);
  limits.processes = Math.min(limits.processes, MOST_PROCESSES);
  limits.files = Math.min(limits.files, MOST_FILES);
  return limits;
}

/** Even with the most processes, each can have its standard streams and some files. */
const LEAST_FILES = 16;

/**
 * The kernel charges some of what a descriptor can hold to no group, such as a socket's buffers. So a request for more
 * processes gives each of them fewer descriptors: in all there are never more than by the operator's defaults.
 */
function filesOfEach(processes: number, needs: RuntimeNeeds, run: RunLimits): number {
  const own = Math.max(processes - needs.more_processes, 1);
  const share = Math.floor((run.files * run.processes) / own);
  return Math.max(share, LEAST_FILES) + needs.more_files;
}

const isNumber = (value: number | undefined): value is number =>
  value !== undefined && Number.isFinite(value);
