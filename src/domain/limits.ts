/** Limits of one run: their defaults, what a request may ask for, and how the two meet. */

/** A canonical name of a language; `src/languages` says which there are, and the boundary checks it. */
export type LanguageName = string;

export type RunLimits = {
  cpu_ms: number;
  wall_ms: number;
  memory_bytes: number;
  processes: number;
  stdout_bytes: number;
  stderr_bytes: number;
  disk_bytes: number;
  inodes: number;
  /** RLIMIT_NOFILE */
  files: number;
};

/** What a request may override; seconds have become milliseconds at the door. */
export type LimitOverrides = Partial<{
  cpu_time_ms: number;
  wall_time_ms: number;
  memory_bytes: number;
  output_bytes: number;
  processes: number;
}>;

export type Bound = { min: number; max: number };
export type LimitBounds = Record<keyof LimitOverrides, Bound>;

const MiB = 1024 * 1024;
const KiB = 1024;

const RUN: RunLimits = {
  cpu_ms: 5_000,
  wall_ms: 10_000,
  memory_bytes: 256 * MiB,
  processes: 64,
  stdout_bytes: 1 * MiB,
  stderr_bytes: 64 * KiB,
  disk_bytes: 64 * MiB,
  inodes: 4_096,
  files: 64,
};

/** A compiler runs under its own limits, never the request's: a program's must not fail its build. */
export const COMPILE_DEFAULTS: Readonly<RunLimits> = {
  cpu_ms: 10_000,
  wall_ms: 15_000,
  memory_bytes: 1024 * MiB,
  processes: 64,
  stdout_bytes: 64 * KiB,
  stderr_bytes: 64 * KiB,
  disk_bytes: 256 * MiB,
  inodes: 4_096,
  files: 256,
};

/** What a request may ask for unless the operator says otherwise. */
export const DEFAULT_BOUNDS: Readonly<LimitBounds> = {
  cpu_time_ms: { min: 10, max: 15_000 },
  wall_time_ms: { min: 10, max: 30_000 },
  memory_bytes: { min: 16 * MiB, max: 1024 * MiB },
  output_bytes: { min: 0, max: 4 * MiB },
  processes: { min: 1, max: 256 },
};

/** All that an operator decides about limits. */
export type LimitPolicy = { run: RunLimits; compile: RunLimits; bounds: LimitBounds };

export const DEFAULT_POLICY: Readonly<LimitPolicy> = {
  run: RUN,
  compile: COMPILE_DEFAULTS,
  bounds: DEFAULT_BOUNDS,
};

/** The configuration's words for them; what is counted but has no bound of its own stays as it is. */
export type LimitSettings = Readonly<{
  limits_cpu_ms: number;
  limits_cpu_max_ms: number;
  limits_wall_ms: number;
  limits_wall_max_ms: number;
  limits_memory_bytes: number;
  limits_memory_max_bytes: number;
  limits_stdout_bytes: number;
  limits_stdout_max_bytes: number;
  limits_stderr_bytes: number;
  limits_processes: number;
  limits_processes_max: number;
  limits_disk_bytes: number;
  limits_inodes: number;
  limits_files: number;
  limits_compile_cpu_ms: number;
  limits_compile_wall_ms: number;
  limits_compile_memory_bytes: number;
  limits_compile_output_bytes: number;
}>;

export function policyFrom(settings: LimitSettings): LimitPolicy {
  const upTo = (path: keyof LimitOverrides, max: number): Bound => ({
    min: Math.min(DEFAULT_BOUNDS[path].min, max),
    max,
  });
  return {
    run: {
      cpu_ms: settings.limits_cpu_ms,
      wall_ms: settings.limits_wall_ms,
      memory_bytes: settings.limits_memory_bytes,
      processes: settings.limits_processes,
      stdout_bytes: settings.limits_stdout_bytes,
      stderr_bytes: settings.limits_stderr_bytes,
      disk_bytes: settings.limits_disk_bytes,
      inodes: settings.limits_inodes,
      files: settings.limits_files,
    },
    compile: {
      ...COMPILE_DEFAULTS,
      cpu_ms: settings.limits_compile_cpu_ms,
      wall_ms: settings.limits_compile_wall_ms,
      memory_bytes: settings.limits_compile_memory_bytes,
      stdout_bytes: settings.limits_compile_output_bytes,
      stderr_bytes: settings.limits_compile_output_bytes,
    },
    bounds: {
      cpu_time_ms: upTo('cpu_time_ms', settings.limits_cpu_max_ms),
      wall_time_ms: upTo('wall_time_ms', settings.limits_wall_max_ms),
      memory_bytes: upTo('memory_bytes', settings.limits_memory_max_bytes),
      output_bytes: upTo('output_bytes', settings.limits_stdout_max_bytes),
      processes: upTo('processes', settings.limits_processes_max),
    },
  };
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
 * The limits in force. Overrides are clamped here and not rejected: a submission that was accepted
 * under an operator's bounds still runs after the operator has narrowed them.
 */
export function limitsFor(
  needs: RuntimeNeeds,
  overrides: LimitOverrides = {},
  policy: LimitPolicy = DEFAULT_POLICY,
): RunLimits {
  const { bounds } = policy;
  const base = baseFor(needs, policy.run);
  const within = (path: keyof LimitOverrides, otherwise: number): number => {
    const asked = overrides[path];
    if (asked === undefined || !Number.isFinite(asked)) return otherwise;
    return Math.min(Math.max(Math.trunc(asked), bounds[path].min), bounds[path].max);
  };
  const cpu_ms = within('cpu_time_ms', base.cpu_ms);
  return {
    ...base,
    cpu_ms,
    // More CPU time than wall time could never be used: a request for CPU alone brings its wall.
    wall_ms: within(
      'wall_time_ms',
      Math.max(base.wall_ms, Math.min(2 * cpu_ms, bounds.wall_time_ms.max)),
    ),
    memory_bytes: Math.max(within('memory_bytes', base.memory_bytes), needs.least_memory_bytes),
    stdout_bytes: within('output_bytes', base.stdout_bytes),
    processes: Math.max(within('processes', base.processes), needs.least_processes),
  };
}
