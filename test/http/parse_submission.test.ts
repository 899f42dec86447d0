import t from 'tap';
import { requestDigest, submissionParser } from '../../src/http/api/parse_submission.ts';
import { type SubmissionRules, submissionSchema } from '../../src/http/api/submission_schema.ts';
import { unpackRequest } from '../../src/judging/packed_request.ts';
import { matchLists } from '../support/match_lists.ts';

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
const parse = submissionParser(RULES).body;
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
    judging: null,
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

const SET_ID = 'f1980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11';
const exact = { language: 'py', code: 'exit(42)', protocol: 'icpc' };

/** No two of these ask for the same. */
const judged: Record<string, unknown>[] = [
  { files: [{ path: 'a', content: 'b' }] },
  { files: [{ path: 'a', content: 'c' }] },
  { files: [{ path: 'ab', content: '' }] },
  { tests: [{}] },
  { tests: [{}, {}] },
  { tests: [{ name: 'a' }] },
  { tests: [{ stdin: 'a' }] },
  { tests: [{ expected_output: 'a' }] },
  { tests: [{ expected_output: '' }] },
  { tests: [{ args: [] }] },
  { tests: [{ limits: { cpu_time: 1 } }] },
  { tests: [{}], stop: 'never' },
  { tests: [{}], compare: 'exact' },
  { test_set: SET_ID },
  { test_set: SET_ID, compare: 'lines' },
  { test_set: SET_ID, compare: 'exact' },
  { test_set: SET_ID.replace('f1', 'f2') },
  { compare: { by: 'tokens' } },
  { compare: { by: 'tokens', case_sensitive: false } },
  { compare: { by: 'tokens', absolute: 0 } },
  { compare: { by: 'tokens', relative: 0 } },
  { checker: exact },
  { checker: { ...exact, protocol: 'testlib' } },
  { checker: { ...exact, files: [{ path: 'a', content: '' }] } },
  { interactor: exact },
  { stdin_file: 'a' },
  { stdout_file: 'a' },
  { outputs: ['a'] },
  { interactor: exact, transcript: true },
];

t.test('the digest depends on the meaning of a request, not on its spelling', async (t) => {
  const base = { language: 'python', code: 'x', stdin: 'a' };
  t.equal(digest(base), digest({ stdin: 'a', code: 'x', language: 'py' }));
  t.equal(digest(base), digest({ language: 'py', code: 'x', stdin_base64: 'YQ==' }));
  t.equal(digest(base), digest({ ...base, args: [], compare: 'lenient', limits: {} }));
  t.equal(digest(base), digest({ ...base, compare: 'lines', files: [], outputs: [] }));
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
    ...judged.map((more) => ({ language: 'python', code: 'x', ...more })),
  ];
  t.equal(new Set([base, ...others].map((body) => digest(body))).size, others.length + 1);
  t.not(digest(base), digest(base, Buffer.alloc(32, 2)), 'and on its key');
  const limits = { cpu_time: 1, memory: 5 };
  t.equal(digest({ ...base, limits }), digest({ ...base, limits: { memory: 5, cpu_time: 1 } }));
});

t.test('null for an optional field is as if it were absent', async (t) => {
  const plain = { language: 'py', code: 'x' };
  const optional = Object.entries(submissionSchema(RULES).entries)
    .filter(([, { type }]) => type === 'exact_optional')
    .map(([name]) => name);
  t.ok(optional.length >= 15, `${optional.length} fields`);
  for (const name of optional) t.equal(digest({ ...plain, [name]: null }), digest(plain), name);
  const limits = { cpu_time: 1, memory: null, processes: null };
  t.equal(digest({ ...plain, limits }), digest({ ...plain, limits: { cpu_time: 1 } }));
  const nested = {
    tests: [{ name: null, stdin: null, stdin_base64: 'YQ==', args: null, limits }],
    files: [{ path: 'a', content: null, content_base64: 'Yg==' }],
    checker: { ...exact, files: null },
  };
  const without = {
    tests: [{ stdin_base64: 'YQ==', limits: { cpu_time: 1 } }],
    files: [{ path: 'a', content_base64: 'Yg==' }],
    checker: exact,
  };
  t.equal(digest({ ...plain, ...nested }), digest({ ...plain, ...without }));
  const tokens = { by: 'tokens', relative: 0.5 };
  t.equal(
    digest({ ...plain, compare: { ...tokens, case_sensitive: null, absolute: null } }),
    digest({ ...plain, compare: tokens }),
  );
  t.equal(
    digest({ ...plain, compare: { ...tokens, case_sensitive: true } }),
    digest({ ...plain, compare: tokens }),
    'cases count unless the request says that they do not',
  );

  const wrong: [object, string][] = [
    [{ nope: null }, 'nope'],
    [{ limits: { nope: null } }, 'limits.nope'],
    [{ tests: [{ nope: null }] }, 'tests[0].nope'],
    [{ code: null }, 'code'],
    [{ args: [null] }, 'args[0]'],
    [{ files: [{ path: 'a', content: null }] }, 'files[0].content'],
    [{ webhook_url: 'https://example.test', webhook_secret: null }, 'webhook_secret'],
  ];
  for (const [more, path] of wrong) {
    matchLists(t, parseText(JSON.stringify({ ...plain, ...more })).errors, [{ path }], path);
  }
});

t.test('each field has one error, and there are a hundred at most', async (t) => {
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`x${n}`, 1]));
  const { errors } = parseText(JSON.stringify({ ...many, language: 'py', code: '' }));
  t.equal(errors!.length, 100);
  t.ok(JSON.stringify(errors).length < 50_000);
  const both = parseText(JSON.stringify({ ...many, language: 'py', code: '', limits: many }));
  t.equal(both.errors!.length, 100, 'in all');
});

/** The paths of all mistakes. */
const fault = (body: object) =>
  parseText(JSON.stringify({ language: 'py', code: '', ...body }))
    .errors!.map(({ path }) => path)
    .sort();

t.test('every unknown field of every object is named, and every mistake of a form', async (t) => {
  t.same(fault({ a: 1, b: 2, limits: { c: 3, d: 4 } }), ['a', 'b', 'limits.c', 'limits.d']);
  const two = { foo: 1, bar: 2 };
  const named = (at: string) => [`${at}.bar`, `${at}.foo`];
  t.same(fault({ tests: [{}, two] }), named('tests[1]'));
  t.same(fault({ tests: [{ limits: two }] }), named('tests[0].limits'));
  const file = { path: 'a', content: '' };
  t.same(fault({ files: [{ ...file, ...two }] }), named('files[0]'));
  t.same(fault({ checker: { ...exact, ...two } }), named('checker'));
  t.same(fault({ checker: { ...exact, files: [{ ...file, ...two }] } }), named('checker.files[0]'));
  t.same(fault({ compare: { by: 'tokens', ...two, absolute: -1 } }), [
    'compare.absolute',
    ...named('compare'),
  ]);
  t.same(fault({ compare: { by: 'tokens', case_sensitive: 3, absolute: -1 } }), [
    'compare.absolute',
    'compare.case_sensitive',
  ]);
  t.same(fault({ compare: { by: 'words' } }), ['compare.by']);
  for (const compare of ['words', 1, []]) t.same(fault({ compare }), ['compare']);
  const many = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`f${n}`, {}]));
  t.equal(fault({ tests: [many, many] }).length, 100);
});

t.test('each field that a deployment forbids has an error', async (t) => {
  const narrow = submissionParser({ ...RULES, forbidden: ['args', 'limits'] }).body;
  const body = { language: 'py', code: '', args: ['a'], limits: { cpu_time: 99 } };
  const { errors } = narrow(Buffer.from(JSON.stringify(body)));
  t.same(errors!.map(({ path }) => path).sort(), ['args', 'limits', 'limits.cpu_time']);
});

t.test(
  'a field is forbidden wherever a submission has it, by the name that is there',
  async (t) => {
    const narrow = submissionParser({ ...RULES, forbidden: ['files', 'expected_output'] }).body;
    const program = { language: 'py', code: '', protocol: 'icpc' };
    const files = [{ path: 'a', content: '' }];
    const rejected = (more: object) => {
      const { errors } = narrow(Buffer.from(JSON.stringify({ language: 'py', code: '', ...more })));
      t.ok(errors!.every(({ message }) => message === 'is not allowed by this deployment'));
      return errors!.map(({ path }) => path);
    };
    t.same(rejected({ checker: { ...program, files } }), ['checker.files']);
    t.same(rejected({ files, interactor: { ...program, files } }), ['files', 'interactor.files']);
    t.same(rejected({ tests: [{ expected_output_base64: '' }, { expected_output: '' }] }), [
      'tests[0].expected_output_base64',
      'tests[1].expected_output',
    ]);
    const without = { language: 'py', code: '', tests: [{ stdin: '' }], checker: program };
    t.ok(narrow(Buffer.from(JSON.stringify(without))).submission);
    const nulls = { ...without, files: null, checker: { ...program, files: null } };
    t.ok(narrow(Buffer.from(JSON.stringify(nulls))).submission, 'null is as if it was not there');
  },
);

t.test('a list that is too long has one error, and its items have none', async (t) => {
  const { errors } = parseText(`{"language":"py","code":"","args":[${'1,'.repeat(10_000)}1]}`);
  t.strictSame(errors, [{ path: 'args', message: 'has more than 64 items' }]);
  const within = parseText(`{"language":"py","code":"","x":{"y":[[${'1,'.repeat(256)}1]]}}`);
  t.match(within.errors![0], { path: 'x.y[0]', message: 'has more than 256 items' });
  const others = { language: 'cobol', code: 1, webhok_url: 'x', tests: Array(257).fill(1) };
  t.same(fault({ ...others, args: Array(65).fill('a') }), [
    ...['args', 'code', 'language', 'tests', 'webhok_url'],
  ]);
  // Of the second, not even the values are read.
  for (const levels of [40_000, 100_000]) {
    const deep = parseText(
      `{"language":"py","code":"","x":${'['.repeat(levels)}${']'.repeat(levels)}}`,
    );
    t.ok(deep.errors!.some(({ message }) => message.startsWith('the body nests deeper')));
  }
  const short = parsed({ language: 'py', code: '', args: Array.from({ length: 64 }, () => 'a') });
  t.equal(short.args.length, 64);
});

t.test('a judged submission has a payload, and what the log says of it', async (t) => {
  const body = {
    language: 'py',
    code: '',
    tests: [
      { stdin: 'é', expected_output_base64: 'AP8=', limits: { cpu_time: 0.5 } },
      { name: 'b', stdin_base64: 'AP8=', args: ['x'] },
    ],
    checker: { language: 'c++', code: 'int main() {}', protocol: 'testlib' },
    files: [{ path: 'a/b', content_base64: 'AP8=' }],
    stdout_file: 'out',
  };
  const { judging, stdin } = parsed(body);
  t.match(judging, { tests: 2, test_set: null, stop: 'first' });
  t.equal(stdin.length, 0);
  const request = unpackRequest(judging!.packed);
  t.strictSame(request.tests, [
    {
      name: null,
      stdin: Buffer.from('é'),
      expected_output: Buffer.from([0, 255]),
      args: null,
      limits: { cpu_time_ms: 500 },
    },
    { name: 'b', stdin: Buffer.from([0, 255]), expected_output: null, args: ['x'], limits: {} },
  ]);
  t.strictSame(request.checker, {
    language: 'cpp',
    source: 'main.cpp',
    files: [{ path: 'main.cpp', bytes: Buffer.from('int main() {}') }],
    protocol: 'testlib',
  });
  t.strictSame(request.files, [{ path: 'a/b', bytes: Buffer.from([0, 255]) }]);
  t.equal(request.stdout_file, 'out');
});

t.test(
  'a comparison is stored as the log has it, and goes to the judging where it must',
  async (t) => {
    const base = { language: 'py', code: '' };
    const tokens = { by: 'tokens', case_sensitive: true, absolute: null, relative: 1 };
    const rows: [more: object, stored: unknown, judging: unknown][] = [
      [{}, 'lenient', null],
      [{ compare: 'lines' }, 'lenient', null],
      [{ compare: 'lenient' }, 'lenient', null],
      [{ compare: 'exact' }, 'exact', null],
      [{ compare: { by: 'tokens', relative: 1 } }, tokens, { compare: tokens }],
      [{ test_set: SET_ID }, 'lenient', { compare: null, test_set: SET_ID, stop: 'first' }],
      [{ test_set: SET_ID, compare: 'lenient' }, 'lenient', { compare: 'lines' }],
      [{ test_set: SET_ID.toUpperCase(), compare: 'exact' }, 'exact', { test_set: SET_ID }],
    ];
    for (const [more, stored, judging] of rows) {
      const submission = parsed({ ...base, ...more });
      t.strictSame(submission.compare, stored);
      if (judging === null) t.equal(submission.judging, null);
      else t.match(unpackRequest(submission.judging!.packed), judging);
    }
  },
);

t.test('every mistake in a judged submission is named, and deep ones are, too', async (t) => {
  const body = {
    language: 'py',
    code: '',
    stdin: '',
    tests: [{}, { stdin: 5, output: 'x', limits: { cpu: 1 } }],
    checker: { language: 'ruby', code: '', protocol: 'icpc', x: 1 },
    files: ['a', 'b', 'a'].map((path) => ({ path, content: '' })),
    compare: 'exact',
    limits: { cpu: 1 },
    x: 1,
  };
  const { errors } = parseText(JSON.stringify(body));
  t.same(errors!.map(({ path }) => path).sort(), [
    'checker.language',
    'checker.x',
    'compare',
    'files[2].path',
    'limits.cpu',
    'stdin',
    'tests[1].limits.cpu',
    'tests[1].output',
    'tests[1].stdin',
    'x',
  ]);
  for (const { message } of errors!) t.ok(message.length > 5);
});

t.test('a request of as many values as the schema allows is taken', async (t) => {
  const file = (_: unknown, n: number) => ({ path: `f${n}`, content: '', content_base64: null });
  const files = Array.from({ length: 64 }, file);
  const args = Array.from({ length: 64 }, () => '');
  const limits = Object.fromEntries(Object.keys(RULES.bounds).map((name) => [name, 1]));
  const test = { name: 'a', stdin: '', expected_output: '', args, limits };
  const nulls = { stdin_base64: null, expected_output_base64: null };
  const body = {
    language: 'py',
    code: '',
    args,
    limits,
    files,
    tests: Array.from({ length: 256 }, () => ({ ...test, ...nulls })),
    checker: { language: 'py', code: '', protocol: 'icpc', files },
    outputs: null,
    interactor: null,
  };
  const { tests } = unpackRequest(parsed(body).judging!.packed);
  t.equal(tests!.length, 256);
});

t.test(
  'lists that are each as long as they may be have no more mistakes than are shown',
  async (t) => {
    const tests = Array.from({ length: 256 }, () => ({
      args: Array.from({ length: 64 }, () => 1),
    }));
    const { errors } = parseText(JSON.stringify({ language: 'py', code: '', tests }));
    t.equal(errors!.length, 100);
    const long = [{ args: Array.from({ length: 65 }, () => 1) }];
    t.strictSame(parseText(JSON.stringify({ language: 'py', code: '', tests: long })).errors, [
      { path: 'tests[0].args', message: 'has more than 64 items' },
    ]);
  },
);
