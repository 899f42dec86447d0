import t from 'tap';
import { DEFAULT_POLICY } from '../../src/domain/limits.ts';
import type { BoxReport } from '../../src/domain/result.ts';
import { type Case, exitCodeOf, judge, signalName } from '../../src/domain/verdict.ts';
import { VERDICT_NAMES } from '../../src/domain/verdicts.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const limits = DEFAULT_POLICY.run;

const report = (over: Partial<BoxReport> = {}): BoxReport => ({
  exit_code: 0,
  signal: null,
  killed_for: null,
  limit_at_us: null,
  cpu_us: 1_000,
  wall_us: 2_000,
  memory_peak_bytes: 1_000_000,
  oom_kills: 0,
  memory_refused: 0,
  processes_peak: 1,
  pids_limit_hits: 0,
  stdout: bytes('42\n'),
  stderr: bytes(''),
  stdout_seen_bytes: 3,
  stderr_seen_bytes: 0,
  ...over,
});

const subject = (run: Partial<BoxReport> | null, over: Partial<Case> = {}): Case => ({
  compile: null,
  run: run === null ? null : report(run),
  limits,
  isWrong: null,
  runtime: { out_of_memory_words: ['\nMemoryError'] },
  degraded: false,
  ...over,
});

const isNot = (text: string) => (stdout: Uint8Array) => Buffer.from(stdout).toString() !== text;
const killed = { exit_code: null, signal: 9 };
const cpu = limits.cpu_ms * 1_000;
const wall = limits.wall_ms * 1_000;
const room = limits.stdout_bytes;
const memory = limits.memory_bytes;
const nearly = Math.ceil(memory * 0.9);
const late = { stderr: bytes('talks'), stderr_end: bytes('more\nMemoryError') };
const withHeap: Case['runtime'] = {
  out_of_memory_words: ['\nMemoryError'],
  full_heap_bytes: ({ memory_bytes }) => memory_bytes / 4,
};

const rows: [string, Case, [string, number | null, string | null]][] = [
  ['exits 0', subject({}), ['AC', 0, null]],
  ['the right output', subject({}, { isWrong: isNot('42\n') }), ['AC', 0, null]],
  ['another output', subject({}, { isWrong: isNot('43\n') }), ['WA', 0, null]],
  ['exits 3', subject({ exit_code: 3 }), ['RE', 3, null]],
  ['exits 137 by itself', subject({ exit_code: 137 }), ['RE', 137, null]],
  ['wrong and failing', subject({ exit_code: 1 }, { isWrong: isNot('43\n') }), ['RE', 1, null]],
  ['at the process limit', subject({ exit_code: 1, pids_limit_hits: 9 }), ['RE', 1, null]],
  ['a segfault', subject({ exit_code: null, signal: 11 }), ['SIG', 139, 'SIGSEGV']],
  ['seccomp', subject({ exit_code: null, signal: 31 }), ['SIG', 159, 'SIGSYS']],
  ['kills itself', subject(killed), ['SIG', 137, 'SIGKILL']],
  [
    'output to the byte',
    subject({ stdout: new Uint8Array(room), stdout_seen_bytes: room }),
    ['AC', 0, null],
  ],
  ['output one byte over', subject({ stdout_seen_bytes: room + 1 }), ['OLE', 137, 'SIGKILL']],
  [
    'killed for output',
    subject({ ...killed, killed_for: 'output', stdout_seen_bytes: room + 1 }),
    ['OLE', 137, 'SIGKILL'],
  ],
  [
    'killed for output, and dead only after its wall time',
    subject({ ...killed, killed_for: 'output', stdout_seen_bytes: room + 1, wall_us: wall + 1 }),
    ['OLE', 137, 'SIGKILL'],
  ],
  ['stderr over its limit', subject({ stderr_seen_bytes: 10_000_000 }), ['AC', 0, null]],
  ['the kernel killed for memory', subject({ ...killed, oom_kills: 1 }), ['MLE', 137, 'SIGKILL']],
  ['a child killed for memory', subject({ exit_code: 0, oom_kills: 1 }), ['MLE', 0, null]],
  [
    'words of the runtime after all that is kept',
    subject({ exit_code: 1, memory_peak_bytes: nearly, ...late }),
    ['MLE', 1, null],
  ],
  ['the same words without evidence', subject({ exit_code: 1, ...late }), ['RE', 1, null]],
  ['memory to the byte', subject({ memory_peak_bytes: memory }), ['AC', 0, null]],
  ['memory one byte over', subject({ memory_peak_bytes: memory + 1 }), ['MLE', 0, null]],
  [
    'the runtime reports that memory ran out',
    subject({
      exit_code: 1,
      stderr: bytes('  x = 1\nMemoryError\n'),
      memory_peak_bytes: nearly,
    }),
    ['MLE', 1, null],
  ],
  [
    'the runtime reports it and aborts',
    subject({
      exit_code: null,
      signal: 6,
      stderr: bytes('\nMemoryError'),
      memory_peak_bytes: nearly,
    }),
    ['MLE', 134, 'SIGABRT'],
  ],
  [
    'the runtime reports it and the program exits with 0',
    subject({ stderr: bytes('\nMemoryError'), memory_peak_bytes: memory }),
    ['AC', 0, null],
  ],
  [
    'a program that used less reports it',
    subject({
      exit_code: 1,
      stderr: bytes('\nMemoryError'),
      memory_peak_bytes: nearly - 1,
    }),
    ['RE', 1, null],
  ],
  [
    'a program that used less reports it and aborts',
    subject({ exit_code: null, signal: 6, stderr: bytes('\nMemoryError') }),
    ['SIG', 134, 'SIGABRT'],
  ],
  [
    'the runtime reports it after memory was refused',
    subject({ exit_code: 1, stderr: bytes('\nMemoryError'), memory_refused: 1 }),
    ['MLE', 1, null],
  ],
  [
    'the runtime reports it after memory was refused, and aborts',
    subject({ exit_code: null, signal: 6, stderr: bytes('\nMemoryError'), memory_refused: 2 }),
    ['MLE', 134, 'SIGABRT'],
  ],
  ['memory was refused, and the program goes on', subject({ memory_refused: 1 }), ['AC', 0, null]],
  [
    'memory was refused, and the program fails for another reason',
    subject({ exit_code: 1, stderr: bytes('ZeroDivisionError'), memory_refused: 1 }),
    ['RE', 1, null],
  ],
  [
    'memory was refused, and the program crashes without a message',
    subject({ exit_code: null, signal: 11, memory_refused: 1 }),
    ['SIG', 139, 'SIGSEGV'],
  ],
  [
    'memory was refused, and the output is wrong',
    subject({ memory_refused: 1 }, { isWrong: isNot('43\n') }),
    ['WA', 0, null],
  ],
  [
    'the runtime reports it when its heap is just full',
    subject(
      { exit_code: 1, stderr: bytes('\nMemoryError'), memory_peak_bytes: memory / 4 },
      { runtime: withHeap },
    ),
    ['MLE', 1, null],
  ],
  [
    'the runtime reports it before its heap is full',
    subject(
      { exit_code: 1, stderr: bytes('\nMemoryError'), memory_peak_bytes: memory / 4 - 1 },
      { runtime: withHeap },
    ),
    ['RE', 1, null],
  ],
  [
    'a program reports it where the kernel counts no memory of a group',
    subject({ exit_code: 1, stderr: bytes('\nMemoryError') }, { degraded: true }),
    ['MLE', 1, null],
  ],
  [
    'memory and output at once',
    subject({ ...killed, oom_kills: 1, stdout_seen_bytes: room + 1 }),
    ['MLE', 137, 'SIGKILL'],
  ],
  ['CPU timer', subject({ ...killed, killed_for: 'cpu' }), ['TLE', 137, 'SIGKILL']],
  ['wall timer', subject({ ...killed, killed_for: 'wall' }), ['TLE', 137, 'SIGKILL']],
  ['exits as the timer fires', subject({ killed_for: 'wall' }), ['TLE', 137, 'SIGKILL']],
  ['CPU to the microsecond', subject({ cpu_us: cpu }), ['AC', 0, null]],
  ['CPU one microsecond over', subject({ cpu_us: cpu + 1 }), ['TLE', 137, 'SIGKILL']],
  ['wall to the microsecond', subject({ wall_us: wall }), ['AC', 0, null]],
  ['wall one microsecond over', subject({ wall_us: wall + 1 }), ['TLE', 137, 'SIGKILL']],
  [
    'time and memory at once',
    subject({ ...killed, killed_for: 'cpu', oom_kills: 2 }),
    ['TLE', 137, 'SIGKILL'],
  ],
  ['cancelled', subject({ ...killed, killed_for: 'cancelled' }), ['IE', null, null]],
  ['the deadline passed', subject({ ...killed, killed_for: 'deadline' }), ['IE', null, null]],
  ['no end known', subject({ exit_code: null }), ['IE', null, null]],
  ['nothing ran', subject(null), ['IE', null, null]],
  ['compiles and runs', subject({ exit_code: 2 }, { compile: report() }), ['RE', 2, null]],
  [
    'the compiler rejects the code',
    subject(null, { compile: report({ exit_code: 1 }) }),
    ['CE', null, null],
  ],
  [
    'the compiler out of time',
    subject(null, { compile: report({ ...killed, killed_for: 'cpu' }) }),
    ['CE', null, null],
  ],
  [
    'the compiler ends as its timer fires',
    subject(null, { compile: report({ killed_for: 'wall' }) }),
    ['CE', null, null],
  ],
  [
    'the compiler out of memory',
    subject(null, { compile: report({ ...killed, oom_kills: 1 }) }),
    ['CE', null, null],
  ],
  [
    'the compiler crashes',
    subject(null, { compile: report({ exit_code: null, signal: 11 }) }),
    ['CE', null, null],
  ],
  [
    'the compile was cancelled',
    subject(null, { compile: report({ ...killed, killed_for: 'cancelled' }) }),
    ['IE', null, null],
  ],
];

t.test('the first row that holds decides', async (t) => {
  for (const [name, given, [verdict, exit_code, signal]] of rows) {
    const { limit_exceeded: _, ...judgement } = judge(given);
    t.strictSame(judgement, { verdict, exit_code, signal }, name);
  }
});

t.test('limit_exceeded names the limit of the run that the program exceeded', async (t) => {
  const exceeded: Record<string, string> = {
    'at the process limit': 'processes',
    'output one byte over': 'output',
    'killed for output': 'output',
    'killed for output, and dead only after its wall time': 'output',
    'the kernel killed for memory': 'memory',
    'a child killed for memory': 'memory',
    'the runtime reports that memory ran out': 'memory',
    'words of the runtime after all that is kept': 'memory',
    'the runtime reports it and aborts': 'memory',
    'the runtime reports it after memory was refused': 'memory',
    'the runtime reports it after memory was refused, and aborts': 'memory',
    'the runtime reports it when its heap is just full': 'memory',
    'memory one byte over': 'memory',
    'a program reports it where the kernel counts no memory of a group': 'memory',
    'memory and output at once': 'memory',
    'CPU timer': 'cpu_time',
    'wall timer': 'wall_time',
    'exits as the timer fires': 'wall_time',
    'CPU one microsecond over': 'cpu_time',
    'wall one microsecond over': 'wall_time',
    'time and memory at once': 'cpu_time',
  };
  const shown = rows.flatMap(([name, given]) => {
    const { limit_exceeded } = judge(given);
    return limit_exceeded === null ? [] : [[name, limit_exceeded]];
  });
  t.strictSame(Object.fromEntries(shown), exceeded);
  t.equal(judge(subject({ pids_limit_hits: 1 })).limit_exceeded, null, 'not for an AC');
});

t.test('the rows above give every verdict of the list', async (t) => {
  const given = new Set(rows.map(([, , [verdict]]) => verdict));
  t.strictSame([...given].sort(), [...VERDICT_NAMES].sort());
});

t.test('signals have names', async (t) => {
  const names = {
    1: 'SIGHUP',
    6: 'SIGABRT',
    9: 'SIGKILL',
    11: 'SIGSEGV',
    24: 'SIGXCPU',
    31: 'SIGSYS',
  };
  for (const [n, name] of Object.entries(names)) t.equal(signalName(Number(n)), name);
  t.equal(signalName(32), 'SIG32');
  t.equal(signalName(34), 'SIGRTMIN');
  t.equal(signalName(40), 'SIGRTMIN+6');
  t.equal(signalName(64), 'SIGRTMIN+30');
});

t.test('the exit code is the one that a shell shows', async (t) => {
  t.equal(exitCodeOf(report({ exit_code: 7 })), 7);
  t.equal(exitCodeOf(report({ exit_code: null, signal: 11 })), 139);
  t.equal(exitCodeOf(report({ exit_code: null, signal: null, killed_for: 'wall' })), 137);
  t.equal(exitCodeOf(report({ exit_code: null })), null);
});
