/** Variables of the worker: languages, isolation, limits, and a switch for each speed-up. */
import { BY_NAME, LANGUAGES, ON_BY_DEFAULT } from '../languages/shared/registry.ts';
import { bytes, choice, duration, list, onOff, whole } from './parsers.ts';
import { GiB, HOUR, KiB, MiB, optional, path, row, type Variable } from './variable.ts';

export const executor = {
  languages: row('RUNLEDGER_LANGUAGES', list(...BY_NAME.keys()), {
    default: ON_BY_DEFAULT.join(','),
    unit: 'words',
    reason: `what this deployment runs, of ${[...BY_NAME.keys()].join(', ')}; any other is a 400`,
  }),
  slots: optional('RUNLEDGER_SLOTS', whole(1, 1024), {
    unit: 'slots',
    reason: 'programs that run at one time on this worker; one per core where not set',
  }),
  isolation: row('RUNLEDGER_ISOLATION', choice('auto', 'rlimits'), {
    default: 'auto',
    unit: 'word',
    reason: 'auto does not start without real isolation; rlimits is weaker, and results say so',
  }),
  launcher: row('RUNLEDGER_LAUNCHER', path, {
    default: 'build/launcher',
    unit: 'file',
    reason: 'the program that builds the boxes',
  }),
  compile_cache_bytes: row('RUNLEDGER_COMPILE_CACHE_BYTES', bytes(0, 1024 * GiB), {
    default: '1GiB',
    unit: 'bytes',
    reason: 'compiled programs kept on disk; 0 keeps none',
  }),
};

/** Of all languages, by the switch's name; `languageSwitches` reads their values. */
export const switches: Readonly<Record<string, Variable<boolean>>> = Object.fromEntries(
  LANGUAGES.flatMap((language) => language.switches).map(({ name, variable, reason }) => [
    name,
    row(variable, onOff, { default: 'on', unit: 'on/off', reason }),
  ]),
);

const LIMIT = 'what one run gets; a language gets more where its runtime cannot start with less';
const BOUND = 'the most that a request may ask for in `limits`';

export const limits = {
  limits_cpu_ms: row('RUNLEDGER_LIMITS_CPU', duration(10, HOUR), {
    default: '5s',
    unit: 'time',
    reason: LIMIT,
  }),
  limits_cpu_max_ms: row('RUNLEDGER_LIMITS_CPU_MAX', duration(10, HOUR), {
    default: '15s',
    unit: 'time',
    reason: BOUND,
  }),
  limits_wall_ms: row('RUNLEDGER_LIMITS_WALL', duration(10, HOUR), {
    default: '10s',
    unit: 'time',
    reason: LIMIT,
  }),
  limits_wall_max_ms: row('RUNLEDGER_LIMITS_WALL_MAX', duration(10, HOUR), {
    default: '30s',
    unit: 'time',
    reason: BOUND,
  }),
  limits_memory_bytes: row('RUNLEDGER_LIMITS_MEMORY', bytes(MiB, 1024 * GiB), {
    default: '256MiB',
    unit: 'bytes',
    reason: LIMIT,
  }),
  limits_memory_max_bytes: row('RUNLEDGER_LIMITS_MEMORY_MAX', bytes(MiB, 1024 * GiB), {
    default: '1GiB',
    unit: 'bytes',
    reason: BOUND,
  }),
  limits_stdout_bytes: row('RUNLEDGER_LIMITS_STDOUT', bytes(0, 64 * MiB), {
    default: '1MiB',
    unit: 'bytes',
    reason: LIMIT,
  }),
  limits_stdout_max_bytes: row('RUNLEDGER_LIMITS_STDOUT_MAX', bytes(0, 64 * MiB), {
    default: '4MiB',
    unit: 'bytes',
    reason: BOUND,
  }),
  limits_stderr_bytes: row('RUNLEDGER_LIMITS_STDERR', bytes(0, 64 * MiB), {
    default: '64KiB',
    unit: 'bytes',
    reason: 'stderr that is kept of one run; the rest is drained and the result flagged',
  }),
  limits_processes: row('RUNLEDGER_LIMITS_PROCESSES', whole(1, 4096), {
    default: '64',
    unit: 'processes and threads',
    reason: LIMIT,
  }),
  limits_processes_max: row('RUNLEDGER_LIMITS_PROCESSES_MAX', whole(1, 4096), {
    default: '256',
    unit: 'processes and threads',
    reason: BOUND,
  }),
  limits_disk_bytes: row('RUNLEDGER_LIMITS_DISK', bytes(64 * KiB, 64 * GiB), {
    default: '64MiB',
    unit: 'bytes',
    reason: 'the work folder and /tmp together; charged to the memory of the run',
  }),
  limits_inodes: row('RUNLEDGER_LIMITS_INODES', whole(16, 10_000_000), {
    default: '4096',
    unit: 'files',
    reason: 'the work folder and /tmp together',
  }),
  limits_files: row('RUNLEDGER_LIMITS_FILES', whole(8, 65_536), {
    default: '64',
    unit: 'open files',
    reason: LIMIT,
  }),
  limits_compile_cpu_ms: row('RUNLEDGER_LIMITS_COMPILE_CPU', duration(100, HOUR), {
    default: '10s',
    unit: 'time',
    reason: 'what one compile gets',
  }),
  limits_compile_wall_ms: row('RUNLEDGER_LIMITS_COMPILE_WALL', duration(100, HOUR), {
    default: '15s',
    unit: 'time',
    reason: 'what one compile gets',
  }),
  limits_compile_memory_bytes: row('RUNLEDGER_LIMITS_COMPILE_MEMORY', bytes(MiB, 1024 * GiB), {
    default: '1GiB',
    unit: 'bytes',
    reason: 'what one compile gets',
  }),
  limits_compile_output_bytes: row('RUNLEDGER_LIMITS_COMPILE_OUTPUT', bytes(0, 64 * MiB), {
    default: '64KiB',
    unit: 'bytes',
    reason: 'diagnostics of a compiler that are kept',
  }),
};
