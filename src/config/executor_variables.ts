/** What a worker reads alone: languages, isolation, limits, and a switch for each speed-up. */
import { bytes, choice, duration, list, onOff, whole } from './parsers.ts';
import { GiB, HOUR, KiB, MiB, optional, path, row } from './variable.ts';

export const executor = {
  languages: row('RUNLEDGER_LANGUAGES', list('python', 'cpp', 'java'), {
    default: 'python,cpp,java',
    unit: 'words',
    reason: 'what this deployment takes; any other is a 400',
  }),
  slots: optional('RUNLEDGER_SLOTS', whole(1, 1024), {
    unit: 'slots',
    reason: 'programs that run at the same moment on this worker; one per core where not set',
  }),
  isolation: row('RUNLEDGER_ISOLATION', choice('auto', 'rlimits'), {
    default: 'auto',
    unit: 'word',
    reason:
      'auto refuses to start without real isolation; rlimits is weaker and marked so everywhere',
  }),
  launcher: row('RUNLEDGER_LAUNCHER', path, {
    default: 'build/launcher',
    unit: 'file',
    reason: 'the program that builds the boxes',
  }),
  python_zygote: row('RUNLEDGER_PYTHON_ZYGOTE', onOff, {
    default: 'on',
    unit: 'on/off',
    reason: 'start Python programs by fork from a warm interpreter',
  }),
  precompiled_headers: row('RUNLEDGER_PRECOMPILED_HEADERS', onOff, {
    default: 'on',
    unit: 'on/off',
    reason: 'compile C++ with headers that were compiled ahead',
  }),
  mold: row('RUNLEDGER_MOLD', onOff, {
    default: 'on',
    unit: 'on/off',
    reason: 'link C++ with mold where it is installed',
  }),
  java_compiler: row('RUNLEDGER_JAVA_COMPILER', onOff, {
    default: 'on',
    unit: 'on/off',
    reason: 'keep a javac running instead of starting one per submission',
  }),
  compile_cache_bytes: row('RUNLEDGER_COMPILE_CACHE_BYTES', bytes(0, 1024 * GiB), {
    default: '1GiB',
    unit: 'bytes',
    reason: 'compiled programs kept on disk; 0 keeps none',
  }),
};

const LIMIT = 'what one run gets; Java gets more where it cannot start with less';
const BOUND = 'most that a request may ask for in `limits`';

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
    reason: 'stderr kept of one run; what is over it is drained and flagged',
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
    reason: "a compiler's messages that are kept",
  }),
};
