/** What `./runledger judge` prints of a record. test/cli/problem_check.test.ts has it with a whole service. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { RenderedTest } from '../../src/domain/judged_record.ts';
import { answering } from '../client/answering.ts';
import { runledger } from './command_line.ts';

const AC: RenderedTest = {
  n: 1,
  name: null,
  group: null,
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  cpu_time: 0.02,
  wall_time: 0.03,
  memory_peak: 2 ** 23,
  limit_exceeded: null,
  message: null,
  stdout: '',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
};

const CASES: [shown: string, test: Partial<RenderedTest>][] = [
  ['AC  0.020 s  8.0 MiB', {}],
  ['RE  0.020 s  8.0 MiB  exit 3', { verdict: 'RE', exit_code: 3 }],
  [
    'RE  0.020 s  8.0 MiB  exit 1, at its limit of processes',
    { verdict: 'RE', exit_code: 1, limit_exceeded: 'processes' },
  ],
  ['SIG  0.020 s  8.0 MiB  SIGSEGV', { verdict: 'SIG', exit_code: 139, signal: 'SIGSEGV' }],
  [
    'MLE  0.020 s  8.0 MiB  at its limit of memory',
    { verdict: 'MLE', exit_code: 137, signal: 'SIGKILL', limit_exceeded: 'memory' },
  ],
  [
    'TLE  15.004 s  8.0 MiB  at its limit of elapsed time',
    { verdict: 'TLE', exit_code: 137, wall_time: 15.004, limit_exceeded: 'wall_time' },
  ],
  [
    'TLE  5.001 s  8.0 MiB  at its limit of CPU time',
    { verdict: 'TLE', cpu_time: 5.001, wall_time: 7, limit_exceeded: 'cpu_time' },
  ],
  ['WA  0.020 s  8.0 MiB  line 3 differs', { verdict: 'WA', message: 'line 3 differs\nx' }],
  ['RE  0.020 s  8.0 MiB  exit 1: no guess', { verdict: 'RE', exit_code: 1, message: 'no guess' }],
];

t.test('the table says why a test is not accepted, and shows the time that counts', async (t) => {
  const folder = t.testdir();
  mkdirSync(join(folder, 'one/data/secret'), { recursive: true });
  const files = {
    'judged.py': 'x',
    'one/problem.yaml': 'problem_format_version: 2025-09\nname: One\nuuid: 1\n',
    'one/data/secret/1.in': '',
    'one/data/secret/1.ans': '42\n',
  };
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
  const tests = CASES.map(([, test], index) => ({ ...AC, n: index + 1, ...test }));
  const record = { id: 'an-id', status: 'completed', verdict: 'RE', score: null, tests };
  const { origin } = await answering(t, [
    { body: '{"test_sets":[]}' },
    { body: '{"id":"a-set"}' },
    { body: JSON.stringify(record) },
  ]);
  const { stdout, stderr } = await runledger(
    ['judge', join(folder, 'judged.py'), '--package', join(folder, 'one'), '--all'],
    { RUNLEDGER_API_KEY: 'x', RUNLEDGER_SERVER: origin },
  );
  const lines = stdout.split('\n').slice(0, CASES.length);
  t.same(
    lines.map((line) => line.replace(/ {2,}/g, '  ')),
    CASES.map(([shown], index) => `${index + 1}  ${shown}`),
    stderr,
  );
});
