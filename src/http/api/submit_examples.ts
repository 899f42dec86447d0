/** Examples of submissions, for the OpenAPI document, beside one for each language; a test sends each. */
import { REQUEST_LIMITS } from '../../domain/limits.ts';
import { JUDGING_EXAMPLES } from './judging_examples.ts';
import type { RequestExample } from './operation.ts';

export const SUBMIT_EXAMPLES: Record<string, RequestExample> = {
  judged: {
    summary: 'With input, limits and the expected output',
    value: {
      language: 'c++',
      code: '#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b; }',
      stdin: '2 3\n',
      expected_output: '5',
      compare: 'lenient',
      limits: Object.fromEntries(REQUEST_LIMITS.map(({ name, example }) => [name, example])),
    },
    'x-answer': '202',
  },
  bytes: {
    summary: 'Arguments, and input that is not text',
    value: {
      language: 'py',
      code: 'import sys; print(sys.argv[1:], sys.stdin.buffer.read())',
      args: ['--mode', 'fast'],
      stdin_base64: 'AP/+',
    },
    'x-answer': '202',
  },
  ...JUDGING_EXAMPLES,
  webhook: {
    summary: 'The result is delivered',
    value: {
      language: 'python',
      code: 'print(6 * 7)',
      webhook_url: 'https://hooks.example.com/results',
      webhook_secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    },
    'x-answer': '202',
  },
};
