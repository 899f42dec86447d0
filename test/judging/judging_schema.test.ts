import t from 'tap';
import * as v from 'valibot';
import { ruled } from '../../src/http/api/field_rules.ts';
import {
  JUDGING_RULES,
  judgingClashes,
  judgingEntries,
} from '../../src/http/api/judging_schema.ts';

const MiB = 2 ** 20;
const RULES = {
  languages: ['python', 'cpp'],
  bounds: {
    cpu_time: { min: 0.01, max: 10 },
    wall_time: { min: 0.01, max: 20 },
    memory: { min: 1, max: 2 ** 30 },
    stack: { min: 1, max: 2 ** 30 },
    output: { min: 0, max: 2 ** 20 },
    processes: { min: 1, max: 64 },
  },
};
const schema = ruled(
  v.strictObject({
    language: v.exactOptional(v.string()),
    stdin: v.exactOptional(v.string()),
    stdin_base64: v.exactOptional(v.string()),
    expected_output: v.exactOptional(v.string()),
    ...judgingEntries(RULES),
  }),
  JUDGING_RULES,
);

const lineOf = ({ path, message }: v.BaseIssue<unknown>) => {
  const at = (path ?? []).map(({ key }) => (typeof key === 'number' ? `[${key}]` : `.${key}`));
  return `${at.join('').replace(/^\./, '')} ${message}`;
};

/** Every mistake as one line that begins with the item. */
function linesOf(body: object): string[] {
  const { issues = [] } = v.safeParse(schema, body);
  const clashes = judgingClashes(body).map(({ path, message }) => `${path} ${message}`);
  return [...issues.map(lineOf), ...clashes];
}

const py = (more: object = {}) => ({ language: 'py', ...more });
const program = (more: object = {}) => ({ language: 'py', code: '', protocol: 'icpc', ...more });
const file = (path: string, content = '') => ({ path, content });

t.test('requests at every bound are accepted', async (t) => {
  const good: object[] = [
    {},
    { files: [] },
    { files: Array.from({ length: 64 }, (_, n) => file(`f${n}`)) },
    // Only a folder would be in the way, and Python compiles nothing.
    { language: 'cpp', files: [file('main'), file('a/main/b')] },
    { files: [file('main/a')] },
    { files: [file('a/b.txt', 'x'.repeat(MiB - 3)), { path: 'a/c', content_base64: 'AP8B' }] },
    { tests: [{}] },
    { tests: Array.from({ length: 256 }, () => ({ stdin: '', expected_output: '1' })) },
    {
      tests: [
        {
          name: 'é'.repeat(50),
          stdin_base64: 'AP8=',
          expected_output_base64: '',
          args: ['a', ''],
          limits: { cpu_time: 1, memory: 5 },
        },
      ],
      args: ['x'],
      limits: {},
      stop: 'never',
    },
    { test_set: '01980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11', stop: 'first', transcript: true },
    { compare: 'lines' },
    { compare: 'lenient' },
    { compare: 'exact' },
    { compare: { by: 'tokens' } },
    { compare: { by: 'tokens', case_sensitive: false, absolute: 0, relative: 1e-9 } },
    { checker: program({ protocol: 'testlib', language: 'c++', files: [file('testlib.h')] }) },
    { interactor: program(), transcript: false },
    { interactor: program(), transcript: false, outputs: ['*'] },
    { stdin_file: 'in.txt', stdout_file: 'out/a.txt', files: [file('b')] },
    { outputs: ['*.png', 'out/*.csv', 'x'.repeat(255)] },
    { language: 'cpp', files: [file('main.py')] },
    { checker: program({ files: [file('a')] }), files: [file('a')] },
  ];
  for (const body of good) {
    const { args: _, limits: __, ...fields } = py(body) as Record<string, unknown>;
    t.strictSame(linesOf(fields), [], JSON.stringify(body).slice(0, 80));
  }
});

t.test('every mistake is a line that names the item', async (t) => {
  const rows: [body: object, ...lines: string[]][] = [
    [{ files: {} }, 'files must be a list of files'],
    [
      { files: Array.from({ length: 65 }, (_, n) => file(`f${n}`)) },
      'files has more than 64 items',
    ],
    [
      { files: [file('a', 'x'.repeat(MiB)), file('b', 'x')] },
      'files is more than 1048576 bytes in all',
    ],
    [
      { files: [file('a', 'x'.repeat(MiB + 1))] },
      'files[0].content is 1048577 bytes of UTF-8;',
      'files is more than',
    ],
    [
      { files: [file('a', 'x'.repeat(MiB - 3)), { path: 'b', content_base64: 'AP8BAA==' }] },
      'files is more than 1048576 bytes in all',
    ],
    [
      { files: [file('../a'), file('../a')] },
      'files[0].path has the name',
      'files[1].path has the name',
    ],
    [{ files: [file('a'), { path: 'b' }] }, 'files[1].content is required, or content_base64'],
    [
      { files: [{ ...file('a'), content_base64: '' }] },
      'files[0].content_base64 is given together with content',
    ],
    [{ files: [{ path: 'a', content_base64: 'x' }] }, 'files[0].content_base64 must be base64'],
    [{ files: [{ content: '' }] }, 'files[0].path is required'],
    [
      { files: [{ ...file('a'), mode: 1 }] },
      'files[0].mode is not a field of this object; the fields are',
    ],
    [{ files: ['a'] }, 'files[0] must be an object of path, content, content_base64'],
    [{ files: [file('../a')] }, 'files[0].path has the name ..,'],
    [{ files: [file('a'), file('')] }, 'files[1].path is empty'],
    [{ files: [file('a'), file('a')] }, 'files[1].path is the same file as files[0].path'],
    [
      { files: [file(''), file('a'), file('a')] },
      'files[0].path is empty',
      'files[2].path is the same file as files[1].path',
    ],
    [{ files: [file('main.py')] }, 'files[0].path is the same file as the source file'],
    [{ files: [file('a/b'), file('a')] }, 'files[1].path is also a folder of files[0].path'],
    [{ files: [file('a'), file('a/b')] }, 'files[1].path is within "a", which is files[0].path'],
    [
      { language: 'cpp', files: [file('main/a.h')] },
      'files[0].path is within "main", which is the compiled program',
    ],
    [
      { checker: program({ language: 'cpp', files: [file('x'), file('main/b/a.h')] }) },
      'checker.files[1].path is within "main", which is the compiled program',
    ],
    [{ tests: [] }, 'tests has no items'],
    [{ tests: {} }, 'tests must be a list of tests'],
    [{ tests: Array.from({ length: 257 }, () => ({})) }, 'tests has more than 256 items'],
    [{ tests: [{}, []] }, 'tests[1] must be an object'],
    [{ tests: [{}, {}, {}, { args: 'x' }] }, 'tests[3].args must be a list of strings'],
    [{ tests: [{ args: ['a', '\0'] }] }, 'tests[0].args[1] has a NUL'],
    [
      { tests: [{ args: Array.from({ length: 65 }, () => '') }] },
      'tests[0].args has more than 64 items',
    ],
    [{ tests: [{ name: '' }] }, 'tests[0].name must be 1 to 100 bytes of UTF-8'],
    [{ tests: [{ name: 'x'.repeat(101) }] }, 'tests[0].name must be 1 to 100 bytes of UTF-8'],
    [{ tests: [{ name: 'a\nb' }] }, 'tests[0].name has a control character'],
    [{ tests: [{ name: '\ud800' }] }, 'tests[0].name has half of a surrogate pair'],
    [{ tests: [{ stdin: 'x'.repeat(65_537) }] }, 'tests[0].stdin is 65537 bytes of UTF-8'],
    [
      { tests: [{ stdin: '', stdin_base64: '' }] },
      'tests[0].stdin_base64 is given together with stdin',
    ],
    [
      { tests: [{}, { expected_output: '', expected_output_base64: '' }] },
      'tests[1].expected_output_base64 is given together with expected_output',
    ],
    [
      { tests: [{ limits: { cpu_time: 99 } }] },
      'tests[0].limits.cpu_time must be at most 10 seconds',
    ],
    [{ tests: [{ limits: [] }] }, 'tests[0].limits must be an object'],
    [{ tests: [{ output: '' }] }, 'tests[0].output is not a field'],
    [{ tests: [{}], stdin: '' }, 'stdin is given together with tests'],
    [{ tests: [{}], expected_output: '' }, 'expected_output is given together with tests'],
    [{ test_set: 'x' }, 'test_set must be the id of a test set'],
    [
      { test_set: '01980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11', tests: [{}] },
      'test_set is given together with tests',
    ],
    [
      { test_set: '01980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11', stdin_base64: '' },
      'stdin_base64 is given together with test_set',
    ],
    [{ tests: [{}], stop: 'now' }, 'stop must be first or never'],
    [{ stop: 'first' }, 'stop is only for tests or test_set'],
    [{ compare: 'loose' }, 'compare must be lines, exact or an object with by: tokens'],
    [{ compare: 7 }, 'compare must be lines, exact or an object'],
    [{ compare: {} }, 'compare must be lines, exact or an object'],
    [{ compare: { by: 'lines' } }, 'compare must be lines, exact or an object'],
    [{ compare: { by: 'tokens', absolute: 'x' } }, 'compare must be lines, exact or an object'],
    [{ compare: { by: 'tokens', absolute: -1 } }, 'compare.absolute must be a number from 0'],
    [
      { compare: { by: 'tokens', relative: Number.POSITIVE_INFINITY } },
      'compare.relative must be a number from 0',
    ],
    [{ compare: { by: 'tokens', tolerance: 1 } }, 'compare must be lines, exact or an object'],
    [
      { checker: [] },
      'checker.language is required',
      'checker.code is required',
      'checker.protocol is required',
      'checker must be an object',
    ],
    [{ checker: { language: 'py', code: '' } }, 'checker.protocol is required'],
    [{ checker: program({ language: 'ruby' }) }, 'checker.language must be one of python, py, cpp'],
    [{ checker: program({ protocol: 'kattis' }) }, 'checker.protocol must be icpc or testlib'],
    [{ checker: program({ code: 'x'.repeat(65_537) }) }, 'checker.code is 65537 bytes'],
    [
      { checker: program({ files: [file('x'), file('main.py')] }) },
      'checker.files[1].path is the same file as the source file',
    ],
    [
      { checker: program({ files: [[]] }) },
      'checker.files[0].path',
      'checker.files[0].content is required',
      'checker.files[0] must be an object',
    ],
    [{ interactor: program({ files: [file('/x')] }) }, 'interactor.files[0].path begins with /'],
    [{ interactor: program(), checker: program() }, 'interactor is given together with checker'],
    [{ compare: 'exact', checker: program() }, 'compare is given together with checker'],
    [{ compare: 'exact', interactor: program() }, 'compare is given together with interactor'],
    [{ stdin_file: 'a/' }, 'stdin_file ends with /'],
    [{ stdin_file: 'main.py' }, 'stdin_file is the same file as the source file'],
    [{ stdin_file: 'a', stdout_file: 'a' }, 'stdout_file is the same file as stdin_file'],
    [{ stdout_file: 'out/*.txt' }, 'stdout_file has a *: it must name one file'],
    [{ stdout_file: 'a', files: [file('a')] }, 'stdout_file is the same file as files[0].path'],
    [{ stdin_file: 'a', interactor: program() }, 'stdin_file is given together with interactor'],
    [{ stdout_file: 'a', interactor: program() }, 'stdout_file is given together with interactor'],
    [{ outputs: ['*', '**'] }, 'outputs[1] has **'],
    [{ outputs: ['../*'] }, 'outputs[0] has the name ..,'],
    [{ outputs: Array.from({ length: 17 }, () => '*') }, 'outputs has more than 16 items'],
    [{ outputs: ['*'], tests: [{}] }, 'outputs is given together with tests'],
    [{ transcript: true }, 'transcript is only for interactor or test_set'],
    [{ transcript: 1, interactor: program() }, 'transcript must be true or false'],
    [
      { transcript: true, interactor: program(), outputs: ['*'] },
      'transcript is given together with outputs: a run keeps one of them',
    ],
  ];
  for (const [body, ...wanted] of rows) {
    const lines = linesOf(py(body));
    const title = JSON.stringify(body).slice(0, 80);
    for (const line of wanted) {
      t.ok(
        lines.some((each) => each.startsWith(line)),
        `${line}: ${title}: ${lines}`,
      );
    }
    t.equal(lines.length, wanted.length, `${lines}`);
    for (const line of lines) t.notMatch(line, /\n/);
  }
});

t.test('a body of any shape is read without an exception', async (t) => {
  const shapes = [null, 7, 'x', [], {}, [[]], [null], [{}], [{ files: 7 }], { files: [null] }];
  for (const name of Object.keys(judgingEntries(RULES))) {
    for (const shape of shapes) {
      const body = py({ [name]: shape });
      t.ok(Array.isArray(linesOf(body)), `${name} ${JSON.stringify(shape)}`);
    }
  }
  for (const body of [null, 7, [], 'x']) t.strictSame(judgingClashes(body), []);
});
