/** Submissions and outcomes for tests of the queue. */
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import type { NewSubmission } from '../../src/store/submissions.ts';

export function submission(id: string, facts: Partial<NewSubmission> = {}): NewSubmission {
  return {
    id,
    language: 'python',
    code: Buffer.from('print(1)'),
    stdin: Buffer.alloc(0),
    args: [],
    expected_output: null,
    compare: 'lenient',
    limits: {},
    judging: null,
    webhook: null,
    idempotency_key: null,
    request_digest: Buffer.alloc(32),
    request_id: null,
    traceparent: null,
    ...facts,
  };
}

export const outcome: ExecutionOutcome = {
  verdict: 'AC',
  status: 'completed',
  exit_code: 0,
  signal: null,
  cpu_time_us: 1000,
  wall_time_us: 2000,
  memory_peak_bytes: 4096,
  stdout: Buffer.from('1\n'),
  stderr: Buffer.alloc(0),
  stdout_truncated: false,
  stderr_truncated: false,
  compile: null,
  limits: {},
  limit_exceeded: null,
  evidence: {},
  judged: null,
};
