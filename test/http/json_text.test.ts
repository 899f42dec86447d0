import t from 'tap';
import {
  DEPTH_LIMIT,
  ERRORS_SHOWN,
  join,
  NAMES_LIMIT,
  parseJson,
  VALUES_LIMIT,
} from '../../src/http/wire/json_text.ts';

const read = (text: string | Uint8Array) => parseJson(Buffer.from(text));
const paths = (text: string) => read(text).errors.map(({ path }) => path);

t.test('text that JSON.parse accepts has no errors', async (t) => {
  const texts = [
    'null',
    '7',
    '"a"',
    '[]',
    '{}',
    ' { "a" : [ 1 , { "b" : "x" } ] , "c" : "{\\"c\\":1}" } ',
    '{"a":"\\\\","b":"\\\\\\"","c":"]}{["}',
    '{"":1," ":2}',
    '[{"a":1},{"a":1}]',
    '{"a":{"a":{"a":1}}}',
  ];
  for (const text of texts) {
    t.same(read(text), { value: JSON.parse(text), errors: [] }, text);
  }
});

t.test('the error of a name that is given twice has its path', async (t) => {
  t.same(paths('{"a":1,"a":2}'), ['a']);
  t.same(paths('{"a":1,"\\u0061":2}'), ['a'], 'in any spelling');
  t.same(paths('{"a":{"b":1,"b":2},"c":[{},{"d":1,"d":1}]}'), ['a.b', 'c[1].d']);
  t.same(paths('{"a":"x\\"","a":1}'), ['a'], 'after an escaped quote');
  t.same(paths('{"__proto__":1,"__proto__":2}'), ['__proto__']);
});

t.test('the names of an object are bounded, and are not all read', async (t) => {
  const named = (count: number) =>
    `{${Array.from({ length: count }, (_, n) => `"n${n}":0`).join()}}`;
  t.same(read(named(NAMES_LIMIT)).errors, []);
  const message = `has more than ${NAMES_LIMIT} names`;
  const found = { value: undefined, errors: [{ path: 'a[1]', message }], not_parsed: true };
  t.same(read(`{"a":[0,${named(NAMES_LIMIT + 1)}]}`), found);
  const deep = `{"a":${'['.repeat(DEPTH_LIMIT)}${']'.repeat(DEPTH_LIMIT)},"b":${named(NAMES_LIMIT + 1)}}`;
  t.match(read(deep), { value: undefined, not_parsed: true }, 'also behind what nests too deep');
});

t.test('the values of a text are bounded, and are not all read', async (t) => {
  const listed = (values: number) => `[${'0,'.repeat(values - 2)}0]`;
  t.same(read(listed(VALUES_LIMIT)).errors, []);
  const errors = [{ path: '', message: `has more than ${VALUES_LIMIT} values` }];
  const found = { value: undefined, errors, not_parsed: true };
  t.same(read(listed(VALUES_LIMIT + 1)), found);
  t.same(read(`[${'{},'.repeat(VALUES_LIMIT)}[]]`), found, 'of whatever kind');
  const spread = Array.from({ length: 500 }, () => listed(200));
  t.same(read(`{"a":[${spread.join()}]}`), found, 'however they are spread');
  const deep = `{"a":${'['.repeat(DEPTH_LIMIT)}${']'.repeat(DEPTH_LIMIT)},"b":${listed(VALUES_LIMIT + 1)}}`;
  t.match(read(deep), { value: undefined, not_parsed: true }, 'also behind what nests too deep');
});

t.test('text that is no JSON is walked to its end', async (t) => {
  for (const text of ['{"', '{"a', '{"a\\q":1}', '{"a":"\\"', '}]', '{"a":1', '"\\"'])
    t.match(read(text).errors, [{ message: 'the body is not valid JSON' }], text);
});

t.test('nesting is bounded', async (t) => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  t.same(paths(nested(DEPTH_LIMIT)), []);
  t.match(read(nested(DEPTH_LIMIT + 1)).errors[0]!.message, /nests deeper/);
  t.match(read(nested(1_000_000)).errors[0]!.message, /nests deeper/, 'a million levels');
});

t.test('a byte order mark is named', async (t) => {
  t.same(read('\uFEFF{}').errors, [
    { path: '', message: 'the body begins with a byte order mark: send it without' },
  ]);
});

t.test('text that is not JSON, and bytes that are not UTF-8, are errors', async (t) => {
  for (const text of ['', '{', "{'a':1}", '{"a":1,}', 'NaN', '{"a":\u0001}']) {
    t.equal(read(text).value, undefined, JSON.stringify(text));
    t.match(read(text).errors[0]!.message, /not valid JSON/);
  }
  for (const bytes of [
    [0x22, 0xff, 0x22],
    [0x22, 0xc0, 0x80, 0x22],
    [0x22, 0xed, 0xa0, 0x80, 0x22],
  ]) {
    t.match(read(Buffer.from(bytes)).errors[0]!.message, /not valid UTF-8/);
  }
});

t.test('the number of errors is bounded', async (t) => {
  const pairs = Array.from({ length: 1_000 }, (_, n) => `"k${n}":1,"k${n}":1`);
  t.equal(paths(`{${pairs.join()}}`).length, ERRORS_SHOWN);
  const slashes = `{"a":"${'\\\\'.repeat(500_000)}","b":"${'\\"'.repeat(500_000)}"}`;
  const began = performance.now();
  t.same(paths(slashes), []);
  t.ok(performance.now() - began < 20_000, 'and the time for a body of backslashes is linear');
});

t.test('a long name of the caller is cut, and never in the middle of a character', async (t) => {
  t.equal(join('', 'x'.repeat(65)), `${'x'.repeat(64)}…`);
  t.equal(join('a', '\ud800'), 'a.\ufffd');
});
