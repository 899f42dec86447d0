import t from 'tap';
import { requestDigest, submissionParser } from '../../src/http/api/parse_submission.ts';
import type { SubmissionRules } from '../../src/http/api/submission_schema.ts';

const RULES: SubmissionRules = {
  languages: ['python', 'cpp'],
  bounds: {
    cpu_time: { min: 0.01, max: 10 },
    wall_time: { min: 0.01, max: 20 },
    memory: { min: 1, max: 2 ** 30 },
    stack: { min: 1, max: 2 ** 30 },
    output: { min: 0, max: 2 ** 20 },
    processes: { min: 1, max: 64 },
  },
  forbidden: [],
  webhookUrlProblem: (url) => (url.startsWith('https://') ? null : 'must begin with https://'),
};
const parse = submissionParser(RULES);
const parseText = (text: string) => parse(Buffer.from(text));
const parsed = (body: object) => parseText(JSON.stringify(body)).submission!;
const KEY = Buffer.alloc(32, 1);
const digest = (body: object, key = KEY) =>
  Buffer.from(requestDigest(key, parsed(body))).toString('hex');

t.test('a parsed submission has canonical names, bytes, and times in milliseconds', async (t) => {
  t.same(parsed({ language: 'c++', code: 'é', limits: { cpu_time: 1.5, memory: 7 } }), {
    language: 'cpp',
    code: Buffer.from('é'),
    stdin: Buffer.alloc(0),
    args: [],
    expected_output: null,
    compare: 'lenient',
    limits: { cpu_time_ms: 1500, memory_bytes: 7 },
    webhook: null,
  });
  const full = {
    language: 'py',
    code: '',
    stdin_base64: 'AP8=',
    expected_output: '',
    compare: 'exact',
  };
  t.match(parsed(full), {
    stdin: Buffer.from([0, 255]),
    expected_output: Buffer.alloc(0),
    compare: 'exact',
  });
});

t.test('the digest depends on the meaning of a request, not on its spelling', async (t) => {
  const base = { language: 'python', code: 'x', stdin: 'a' };
  t.equal(digest(base), digest({ stdin: 'a', code: 'x', language: 'py' }));
  t.equal(digest(base), digest({ language: 'py', code: 'x', stdin_base64: 'YQ==' }));
  t.equal(digest(base), digest({ ...base, args: [], compare: 'lenient', limits: {} }));
  const others = [
    { ...base, language: 'cpp' },
    { ...base, code: 'y' },
    { ...base, stdin: 'b' },
    { language: 'py', code: 'xa' },
    { language: 'py', code: '', stdin: 'xa' },
    { ...base, args: ['a'] },
    { ...base, args: ['', 'a'] },
    { ...base, expected_output: '' },
    { ...base, compare: 'exact' },
    { ...base, limits: { cpu_time: 1 } },
    { ...base, limits: { wall_time: 1 } },
    { ...base, webhook_url: 'https://a.example', webhook_secret: 's' },
    { ...base, webhook_url: 'https://a.example', webhook_secret: 't' },
  ];
  t.equal(new Set([base, ...others].map((body) => digest(body))).size, others.length + 1);
  t.not(digest(base), digest(base, Buffer.alloc(32, 2)), 'and on its key');
  const limits = { cpu_time: 1, memory: 5 };
  t.equal(digest({ ...base, limits }), digest({ ...base, limits: { memory: 5, cpu_time: 1 } }));
});

t.test('each field has one error, and there are a hundred at most', async (t) => {
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`x${n}`, 1]));
  const { errors } = parseText(JSON.stringify({ ...many, language: 'py', code: '' }));
  t.equal(errors!.length, 100);
  t.ok(JSON.stringify(errors).length < 50_000);
  const both = parseText(JSON.stringify({ ...many, language: 'py', code: '', limits: many }));
  t.equal(both.errors!.length, 100, 'in all');
});

t.test('every unknown field is named, those of limits, too', async (t) => {
  const { errors } = parseText('{"language":"py","code":"","a":1,"b":2,"limits":{"c":3,"d":4}}');
  t.same(errors!.map(({ path }) => path).sort(), ['a', 'b', 'limits.c', 'limits.d']);
});

t.test('each field that a deployment forbids has an error', async (t) => {
  const narrow = submissionParser({ ...RULES, forbidden: ['args', 'limits'] });
  const body = { language: 'py', code: '', args: ['a'], limits: { cpu_time: 99 } };
  const { errors } = narrow(Buffer.from(JSON.stringify(body)));
  t.same(errors!.map(({ path }) => path).sort(), ['args', 'limits', 'limits.cpu_time']);
});

t.test('a list that is too long has one error, and its items have none', async (t) => {
  const { errors } = parseText(`{"language":"py","code":"","args":[${'1,'.repeat(100_000)}1]}`);
  t.strictSame(errors, [{ path: 'args', message: 'has more than 256 items' }]);
  const within = parseText(`{"language":"py","code":"","x":{"y":[[${'1,'.repeat(256)}1]]}}`);
  t.strictSame(within.errors, [{ path: 'x.y[0]', message: 'has more than 256 items' }]);
  const deep = parseText(
    `{"language":"py","code":"","x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
  );
  t.ok(deep.errors!.some(({ message }) => message.startsWith('the body nests deeper')));
  const short = parsed({ language: 'py', code: '', args: Array.from({ length: 64 }, () => 'a') });
  t.equal(short.args.length, 64);
});
