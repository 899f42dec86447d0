import t from 'tap';
import { factsOf, packFiles, packTests } from '../../src/domain/judged_record.ts';
import type { TestFacts } from '../../src/domain/judging_facts.ts';
import { type ResultRow, renderResult } from '../../src/domain/record.ts';
import { notRun } from '../../src/judging/outcome.ts';

const completed: ResultRow = {
  id: '01970000-0000-7000-8000-00000000000a',
  account_id: '01970000-0000-7000-8000-0000000000ac',
  status: 'completed',
  language: 'cpp',
  verdict: 'SIG',
  exit_code: 139,
  signal: 'SIGSEGV',
  stdout: Buffer.from('ü€😀\n'),
  stderr: Buffer.from(''),
  stdout_truncated: false,
  stderr_truncated: true,
  cpu_time_us: 12_345,
  wall_time_us: 1_000_001,
  memory_peak_bytes: 1_234_567,
  compile: {
    cpu_time_us: 300_000,
    wall_time_us: 400_001,
    memory_peak_bytes: 99,
    exit_code: 0,
    cached: true,
  },
  limits: {
    cpu_ms: 1_500,
    wall_ms: 3_000,
    memory_bytes: 7,
    stdout_bytes: 8,
    processes: 9,
    files: 64,
  },
  limit_exceeded: 'output',
  created_at: new Date('2026-01-02T03:04:05.006Z'),
  started_at: new Date('2026-01-02T03:04:06.007Z'),
  completed_at: new Date('2026-01-02T03:04:07.008Z'),
  attempts: 2,
  tests: null,
  score: null,
  parts: { tests: null, files: null, transcript: null },
  progress: null,
  proof: { index: 73, checkpoint: 80 },
};
const FIELDS = [
  'id',
  'status',
  'verdict',
  'exit_code',
  'signal',
  'stdout',
  'stderr',
  'stdout_truncated',
  'stderr_truncated',
  'cpu_time',
  'wall_time',
  'memory_peak',
  'compile',
  'limits',
  'limit_exceeded',
  'tests',
  'score',
  'files',
  'transcript',
  'progress',
  'language',
  'created_at',
  'started_at',
  'completed_at',
  'attempts',
  'proof',
];

t.test('a completed submission has every field, in the units of the API', async (t) => {
  t.same(renderResult(completed), {
    id: completed.id,
    status: 'completed',
    verdict: 'SIG',
    exit_code: 139,
    signal: 'SIGSEGV',
    stdout: 'ü€😀\n',
    stderr: '',
    stdout_truncated: false,
    stderr_truncated: true,
    cpu_time: 0.012345,
    wall_time: 1.000001,
    memory_peak: 1_234_567,
    compile: { cpu_time: 0.3, wall_time: 0.400001, memory_peak: 99, exit_code: 0, cached: true },
    limits: { cpu_time: 1.5, wall_time: 3, memory: 7, stack: null, output: 8, processes: 9 },
    limit_exceeded: 'output',
    tests: null,
    score: null,
    files: null,
    transcript: null,
    progress: null,
    language: 'cpp',
    created_at: '2026-01-02T03:04:05.006Z',
    started_at: '2026-01-02T03:04:06.007Z',
    completed_at: '2026-01-02T03:04:07.008Z',
    attempts: 2,
    proof: { index: 73, checkpoint: 80 },
  });
});

t.test('a judged submission has its tests and its files, and progress while it runs', async (t) => {
  const outcome = { ...notRun({ n: 1, name: 'ü', group: '' }), stdout: Uint8Array.of(0xff) };
  const row: ResultRow = {
    ...completed,
    ...{ tests: factsOf([outcome]), score: 2.5, progress: { done: 1, of: 3 } },
    parts: {
      ...{ tests: packTests([outcome]), transcript: Uint8Array.of(0xff) },
      files: packFiles([{ path: 'a', bytes: Uint8Array.of(1) }]),
    },
  };
  t.match(renderResult(row, 'base64'), {
    ...{ tests: [{ n: 1, name: 'ü', stdout: '/w==' }], score: 2.5, transcript: '/w==' },
    ...{ files: [{ path: 'a', size: 1, content_base64: 'AQ==' }], progress: null },
  });
  t.match(renderResult(row), { tests: [{ stdout: '\ufffd' }], transcript: '\ufffd' });
  const running = renderResult({ ...row, status: 'running' });
  t.match(running, { tests: null, score: null, files: null, transcript: null });
  t.same(running.progress, { done: 1, of: 3 });
});

t.test('before the end it has the same fields, without values of a lost attempt', async (t) => {
  for (const status of ['pending', 'running'] as const) {
    const record = renderResult({ ...completed, status });
    t.same(Object.keys(record), FIELDS, status);
    const { id, language, created_at, started_at, attempts, ...rest } = record;
    t.same(
      { id, language, created_at, started_at, attempts },
      {
        id: completed.id,
        language: 'cpp',
        created_at: '2026-01-02T03:04:05.006Z',
        started_at: '2026-01-02T03:04:06.007Z',
        attempts: 2,
      },
    );
    t.same(new Set(Object.values(rest)), new Set([status, null]));
  }
  t.equal(renderResult({ ...completed, status: 'pending', started_at: null }).started_at, null);
});

t.test('an error of the service has a verdict and nulls', async (t) => {
  const nothing = {
    exit_code: null,
    signal: null,
    stdout: null,
    stderr: null,
    cpu_time_us: null,
    wall_time_us: null,
    memory_peak_bytes: null,
    compile: null,
    limits: null,
    limit_exceeded: null,
  };
  const record = renderResult({ ...completed, status: 'error', verdict: 'IE', ...nothing });
  t.match(record, {
    status: 'error',
    verdict: 'IE',
    exit_code: null,
    stdout: null,
    cpu_time: null,
    memory_peak: null,
    compile: null,
    completed_at: '2026-01-02T03:04:07.008Z',
  });
  t.same(Object.keys(record), FIELDS);
});

t.test('a compile without measurements has nulls inside', async (t) => {
  const compile = {
    cpu_time_us: null,
    wall_time_us: null,
    memory_peak_bytes: null,
    exit_code: null,
    cached: false,
  };
  t.same(renderResult({ ...completed, compile }).compile, {
    cpu_time: null,
    wall_time: null,
    memory_peak: null,
    exit_code: null,
    cached: false,
  });
});

t.test('seconds keep each microsecond, in plain decimals', async (t) => {
  const shown = (us: number) =>
    JSON.stringify(renderResult({ ...completed, cpu_time_us: us }).cpu_time);
  const cases: [number, string][] = [
    [0, '0'],
    [1, '0.000001'],
    [10, '0.00001'],
    [999_999, '0.999999'],
    [1_000_000, '1'],
    [10_000_001, '10.000001'],
    [86_400_123_457, '86400.123457'],
  ];
  for (const [us, text] of cases) t.equal(shown(us), text);
});

t.test(
  'each maximal sequence that is not UTF-8 becomes one U+FFFD; NUL and a byte order mark stay',
  async (t) => {
    const shown = (bytes: number[]) =>
      renderResult({ ...completed, stdout: Uint8Array.from(bytes) }).stdout;
    const cases: [number[], string][] = [
      [[0x61, 0xff, 0x62], 'a\ufffdb'],
      [[0x80, 0x80], '\ufffd\ufffd'],
      [[0xe2, 0x82], '\ufffd'],
      [[0xf0, 0x9f, 0x98], '\ufffd'],
      [[0xf0, 0x9f, 0x98, 0x80], '😀'],
      [[0xed, 0xa0, 0x80], '\ufffd\ufffd\ufffd'],
      [[0xc0, 0x80], '\ufffd\ufffd'],
      [[0xf4, 0x90, 0x80, 0x80], '\ufffd\ufffd\ufffd\ufffd'],
      [[0x00], '\u0000'],
      [[0xef, 0xbb, 0xbf, 0x61], '\ufeffa'],
      [[], ''],
    ];
    for (const [bytes, text] of cases)
      t.equal(shown(bytes), text, Buffer.from(bytes).toString('hex'));
  },
);

t.test('base64 has the exact bytes, also of a view into a larger buffer', async (t) => {
  const stdout = Uint8Array.from([9, 0x00, 0xff, 0x80, 9]).subarray(1, 4);
  const record = renderResult({ ...completed, stdout, stderr: Buffer.from('') }, 'base64');
  t.equal(record.stdout, 'AP+A');
  t.equal(record.stderr, '');
  t.equal(renderResult({ ...completed, status: 'error', stdout: null }, 'base64').stdout, null);
});

const FACTS: TestFacts = {
  verdict: 'WA',
  exit_code: 0,
  signal: null,
  limit_exceeded: null,
  cpu_time_us: 1_500,
  wall_time_us: 2_000,
  memory_peak_bytes: 3,
  score: null,
  stdout_truncated: true,
  stderr_truncated: false,
};

t.test('a judged submission has its tests, score, files and transcript', async (t) => {
  const text = { name: 'secret/1', group: 'secret', message: 'no', stderr: Buffer.from('') };
  const row: ResultRow = {
    ...completed,
    tests: [FACTS],
    score: 12.5,
    parts: {
      tests: packTests([{ ...text, stdout: Buffer.from([0x61, 0xff]) }]),
      files: packFiles([{ path: 'out/a', bytes: Buffer.from([0xff]) }]),
      transcript: Buffer.from('< 1\n'),
    },
  };
  const record = renderResult(row);
  t.same(record.tests, [
    {
      n: 1,
      name: 'secret/1',
      group: 'secret',
      verdict: 'WA',
      exit_code: 0,
      signal: null,
      cpu_time: 0.0015,
      wall_time: 0.002,
      memory_peak: 3,
      limit_exceeded: null,
      message: 'no',
      stdout: 'a\ufffd',
      stderr: '',
      stdout_truncated: true,
      stderr_truncated: false,
    },
  ]);
  t.match(record, { score: 12.5, transcript: '< 1\n', progress: null });
  t.match(record.files, [{ path: 'out/a', size: 1, sha256: /^a8100ae6/, content_base64: '/w==' }]);
  const exact = renderResult(row, 'base64');
  t.equal(exact.tests![0]!.stdout, 'Yf8=');
  t.equal(exact.transcript, Buffer.from('< 1\n').toString('base64'));
  const purged = renderResult({ ...row, parts: completed.parts });
  t.match(purged.tests, [{ verdict: 'WA', cpu_time: 0.0015, name: null, message: null }]);
  t.match(purged, { score: 12.5, files: null, transcript: null });
});

t.test('progress is shown while a submission runs, and at no other time', async (t) => {
  const progress = { done: 3, of: 50 };
  for (const status of ['pending', 'running', 'completed', 'error'] as const) {
    const record = renderResult({ ...completed, status, progress });
    t.same(record.progress, status === 'running' ? progress : null, status);
  }
});
