/** A test set, and a submission that is judged by it or by tests of its own. */
import { createHash } from 'node:crypto';
import type { JudgedOutcome } from '../../src/judging/execution.ts';
import { notRun, type TestOutcome } from '../../src/judging/outcome.ts';
import { type JudgingRequest, NOT_JUDGED, packRequest } from '../../src/judging/packed_request.ts';
import type { FileRef, Group, TestSet } from '../../src/judging/test_set.ts';
import type { SubmittedJudging } from '../../src/store/submissions.ts';

export const refOf = (bytes: Uint8Array): FileRef => ({
  sha256: createHash('sha256').update(bytes).digest('hex'),
  size: bytes.length,
});

/** Its tests have the given inputs, and the same bytes as answers. */
export function aSet(name: string, inputs: readonly Uint8Array[], change: Partial<TestSet> = {}) {
  const contents = new Map<string, Uint8Array>();
  const tests = inputs.map((bytes, n) => {
    const ref = refOf(bytes);
    contents.set(ref.sha256, bytes);
    return { name: `data/secret/${n + 1}`, group: 'data/secret', input: ref, answer: ref };
  });
  const checker_source = Buffer.from('# the checker');
  const program = refOf(checker_source);
  contents.set(program.sha256, checker_source);
  const group: Omit<Group, 'name' | 'parent'> = {
    ...{ on_reject: 'break', aggregation: 'sum', accept_score: 1, reject_score: 0, args: [] },
  };
  const set: TestSet = {
    name,
    tests,
    groups: [
      { name: '', parent: null, ...group },
      { name: 'data/secret', parent: '', ...group },
    ],
    limits: { cpu_time_ms: 2000 },
    compare: 'lines',
    checker: {
      language: 'python',
      source: 'check.py',
      files: [{ path: 'check.py', file: program }],
      protocol: 'icpc',
      args: [],
    },
    interactor: null,
    passes: 1,
    scoring: 'pass-fail',
    ...change,
  };
  /** The contents that were asked for. */
  const asked: string[] = [];
  async function* contentOf(sha256: string): AsyncGenerator<Uint8Array> {
    asked.push(sha256);
    const bytes = contents.get(sha256)!;
    // In chunks that are no pieces.
    for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000);
  }
  return { set, contents, contentOf, asked };
}

export function judgingOf(change: Partial<JudgingRequest>): SubmittedJudging {
  const request = { ...NOT_JUDGED, ...change };
  const { tests, test_set, stop } = request;
  return { tests: tests?.length ?? null, test_set, stop, packed: packRequest(request)! };
}

export const aTest = (stdin: string) => ({
  ...{ name: null, stdin: Buffer.from(stdin), expected_output: Buffer.from('4\n') },
  ...{ args: null, limits: {} },
});

/** A checker may write U+0000, which jsonb does not have, and a name may look like its escape. */
export const outcomes: TestOutcome[] = [
  {
    ...notRun({ n: 1, name: 'é"\\u0000', group: 'data/secret' }),
    ...{ verdict: 'AC', exit_code: 0, cpu_time_us: 900, wall_time_us: 1000 },
    ...{ memory_peak_bytes: 4096, score: 2.5, stdout: Buffer.from('4\n') },
  },
  {
    ...notRun({ n: 2, name: '2', group: 'data/secret' }),
    ...{ verdict: 'WA', exit_code: 0, cpu_time_us: 800, wall_time_us: 900 },
    ...{ memory_peak_bytes: 4096, message: 'line 3\0is wrong', team_message: 'no' },
    ...{ stdout: Uint8Array.of(0x61, 0xff), stdout_truncated: true },
  },
  notRun({ n: 3, name: '3', group: 'data/secret' }),
];

export const judged = (change: Partial<JudgedOutcome> = {}): JudgedOutcome => ({
  ...{ tests: outcomes, score: 2.5, files: null, transcript: null },
  ...change,
});
