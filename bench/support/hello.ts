import type { NewSubmission } from '../../src/store/submissions.ts';

/** The least that can be submitted. */
export function hello(id: string): NewSubmission {
  return {
    id,
    language: 'python',
    code: Buffer.from('print(1)'),
    stdin: Buffer.alloc(0),
    args: [],
    expected_output: null,
    compare: 'lenient',
    limits: {},
    webhook: null,
    idempotency_key: null,
    request_digest: Buffer.alloc(32),
    traceparent: null,
  };
}
