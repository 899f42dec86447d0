/** Mutants of values and pure rules: limits and their defaults, verdicts, the record, secrets. */
import { inFile, type Mutant } from './mutant.ts';

const LIMITS = 'src/domain/limits.ts';
const VERDICT = 'src/domain/verdict.ts';

export const domainMutants: readonly Mutant[] = [
  ...inFile(
    LIMITS,
    'test/config/defaults.test.ts',
    ['the default CPU limit is 5 s', 'default: 5_000', 'default: 6_000'],
    ['the default wall limit is 10 s', 'default: 10_000', 'default: 9_000'],
    ['the default memory limit is 256 MiB', 'default: 256 * MiB', 'default: 128 * MiB'],
    ['the default output limit is 1 MiB', 'default: 1 * MiB', 'default: 2 * MiB'],
    ['the default of kept stderr is 64 KiB', 'default: 64 * KiB', 'default: 32 * KiB'],
    ['the default disk limit is 64 MiB', 'default: 64 * MiB', 'default: 32 * MiB'],
    ['the default of inodes is 4096', 'default: 4_096', 'default: 4_095'],
    [
      'the default of processes is 64',
      "default: 64,\n    variable: 'RUNLEDGER_LIMITS_PROCESSES'",
      "default: 63,\n    variable: 'RUNLEDGER_LIMITS_PROCESSES'",
    ],
    [
      'the default of open files is 64',
      "default: 64,\n    variable: 'RUNLEDGER_LIMITS_FILES'",
      "default: 65,\n    variable: 'RUNLEDGER_LIMITS_FILES'",
    ],
    ['a request may ask for 15 s of CPU time', 'max: 15_000', 'max: 16_000'],
    [
      'a request may ask for 1 GiB',
      "max: 1 * GiB,\n      description:\n        'Memory of",
      "max: 2 * GiB,\n      description:\n        'Memory of",
    ],
  ),
  ...inFile(
    LIMITS,
    'test/domain/limits.test.ts',
    ['a request may ask for 30 s of wall time', 'max: 30_000', 'max: 31_000'],
    ['a request may ask for 4 MiB of output', 'max: 4 * MiB', 'max: 5 * MiB'],
    ['a request may ask for 256 processes', 'max: 256,', 'max: 255,'],
    [
      'the stack is never larger than the memory',
      '  limits.stack_bytes = Math.min(limits.stack_bytes, limits.memory_bytes);\n',
      '',
    ],
    ['a request asks for 4 MiB at least', 'min: 4 * MiB', 'min: 8 * MiB'],
  ),
  ...inFile(
    VERDICT,
    'test/domain/verdict.test.ts',
    [
      'time goes before memory',
      "  { verdict: 'TLE', holds: (run, { limits }) => timeExceeded(run, limits) !== null },\n  { verdict: 'MLE', holds: ranOutOfMemory },\n",
      "  { verdict: 'MLE', holds: ranOutOfMemory },\n  { verdict: 'TLE', holds: (run, { limits }) => timeExceeded(run, limits) !== null },\n",
    ],
    [
      'output goes before the signal of its kill',
      "  { verdict: 'OLE', holds: outputExceeded },\n  { verdict: 'SIG', holds: (run) => run.signal !== null },\n",
      "  { verdict: 'SIG', holds: (run) => run.signal !== null },\n  { verdict: 'OLE', holds: outputExceeded },\n",
    ],
    [
      'an exit code goes before the output',
      "  { verdict: 'RE', holds: (run) => run.exit_code !== 0 },\n  { verdict: 'WA', holds: (run, { isWrong }) => isWrong?.(run.stdout) ?? false },\n",
      "  { verdict: 'WA', holds: (run, { isWrong }) => isWrong?.(run.stdout) ?? false },\n  { verdict: 'RE', holds: (run) => run.exit_code !== 0 },\n",
    ],
    [
      'output of exactly the limit is within it',
      'stdout_seen_bytes > limits.stdout_bytes',
      'stdout_seen_bytes >= limits.stdout_bytes',
    ],
    [
      'the end of a long stderr is read',
      'latin1(run.stderr) + latin1(run.stderr_end)',
      'latin1(run.stderr)',
    ],
    ['the wall limit is TLE', "  if (run.killed_for === 'wall') return 'wall_time';\n", ''],
    [
      'a run that uses exactly its memory limit is within it',
      'run.memory_peak_bytes > limits.memory_bytes',
      'run.memory_peak_bytes >= limits.memory_bytes',
    ],
    ['a message about memory needs evidence', 'if (!evident && !degraded) return false;', ''],
    [
      'where no group counts memory, the message is enough',
      'if (!evident && !degraded)',
      'if (!evident)',
    ],
    [
      'a refusal of memory is evidence',
      'run.memory_refused > 0 || run.memory_peak_bytes >= full_bytes',
      'run.memory_peak_bytes >= full_bytes',
    ],
    ['a single refusal is enough', 'run.memory_refused > 0', 'run.memory_refused > 1'],
    [
      'a refusal without a message is no verdict',
      'return runtime.out_of_memory_words.some((words) => stderr.includes(words));',
      'return run.memory_refused > 0 || runtime.out_of_memory_words.some((w) => stderr.includes(w));',
    ],
    ['a message counts from nine tenths of the limit', 'NEARLY_ALL = 0.9', 'NEARLY_ALL = 0.8'],
    [
      'use of exactly nine tenths is enough',
      'run.memory_peak_bytes >= full_bytes',
      'run.memory_peak_bytes > full_bytes',
    ],
    [
      'where a runtime has a heap of its own, the message counts when that is full',
      'runtime.full_heap_bytes?.(limits) ?? limits',
      'limits',
    ],
    [
      'a run that uses exactly its CPU limit is within it',
      'run.cpu_us > limits.cpu_ms * 1_000',
      'run.cpu_us >= limits.cpu_ms * 1_000',
    ],
    [
      'a run that uses exactly its wall limit is within it',
      'run.wall_us > limits.wall_ms * 1_000',
      'run.wall_us >= limits.wall_ms * 1_000',
    ],
    ['a single kill by the kernel for memory is MLE', 'run.oom_kills > 0', 'run.oom_kills > 1'],
    [
      'words on stderr are no MLE when the program exits with 0',
      'if (run.killed_for !== null || run.exit_code === 0) return false;',
      'if (run.killed_for !== null) return false;',
    ],
    [
      'the end of a run that the service cut off is no verdict on the program',
      "report.killed_for === 'cancelled' || report.killed_for === 'deadline'",
      "report.killed_for === 'cancelled'",
    ],
    [
      'a compile that was cut off is no compile error',
      'compile !== null && interrupted(compile)',
      'false',
    ],
    [
      'a compiler that crashes is a compile error',
      'compile.signal !== null || compile.exit_code !== 0',
      'compile.exit_code !== 0 && compile.signal === null',
    ],
    [
      'OLE has the exit code of our kill',
      "verdict === 'TLE' || verdict === 'OLE' ||",
      "verdict === 'TLE' ||",
    ],
    ['a signal is 128 and its number', 'exit_code: 128 + signal', 'exit_code: signal'],
  ),
  ...inFile('src/domain/verdicts.ts', 'test/sql/next_submission.test.ts', [
    'IE is an error of the service',
    "    status: 'error',\n",
    "    status: 'completed',\n",
  ]),
  ...inFile(
    'src/domain/record.ts',
    'test/domain/record.test.ts',
    [
      'nothing of a lost attempt is shown before the end',
      'ended || !field.at_end ? field.value(row, text) : null',
      'field.value(row, text)',
    ],
    ['a byte order mark is output', 'ignoreBOM: true', 'ignoreBOM: false'],
    ['times are seconds', 'microseconds / 1_000_000', 'microseconds / 1_000'],
  ),
  ...inFile(
    'src/domain/record_pieces.ts',
    'test/domain/record_pieces.test.ts',
    ['a byte order mark is output', 'ignoreBOM: true', 'ignoreBOM: false'],
    ['a character may be divided', '{ stream: true }', '{ stream: false }'],
    ['base64 is divided at threes', 'STEP_BYTES = 63 * 1024', 'STEP_BYTES = 64 * 1024'],
    ['a long escape has a last half', 'view.setUint16(to + 4, LAST_TWO[byte]!);', ''],
    ['little is encoded at once', 'room -= value.bytes.length;', ''],
    ['UTF-8 stays as it is', ".slice(1, -1), 'latin1')", ".slice(1, -1), 'utf8')"],
    ['a record in one piece is written', 'readerOf(parts).read(json);', ''],
  ),
  ...inFile('src/access/secret.ts', 'test/access/secret.test.ts', [
    'a mistyped key is rejected without asking the database',
    'return checksum(presented.slice(0, -CHECK_LENGTH)) === presented.slice(-CHECK_LENGTH);',
    'return true;',
  ]),
  ...inFile('src/environment.ts', 'test/environment.test.ts', [
    'a worker gets no key of the service',
    "worker: ['DATABASE_URL', ",
    "worker: ['DATABASE_URL', 'RUNLEDGER_SEAL_KEY', ",
  ]),
];
