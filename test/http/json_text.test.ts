import t from 'tap';
import { DEPTH_LIMIT, ERRORS_SHOWN, join, parseJson } from '../../src/http/wire/json_text.ts';

const read = (text: string | Uint8Array) => parseJson(Buffer.from(text));
const paths = (text: string) => read(text).errors.map(({ path }) => path);

t.test('what JSON.parse reads is read, and has no errors', async (t) => {
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

t.test('a name that is given twice is named with its path', async (t) => {
  t.same(paths('{"a":1,"a":2}'), ['a']);
  t.same(paths('{"a":1,"\\u0061":2}'), ['a'], 'however it is written');
  t.same(paths('{"a":{"b":1,"b":2},"c":[{},{"d":1,"d":1}]}'), ['a.b', 'c[1].d']);
  t.same(paths('{"a":"x\\"","a":1}'), ['a'], 'behind an escaped quote');
  t.same(paths('{"__proto__":1,"__proto__":2}'), ['__proto__']);
});

t.test('nesting has an end', async (t) => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  t.same(paths(nested(DEPTH_LIMIT)), []);
  t.match(read(nested(DEPTH_LIMIT + 1)).errors[0]!.message, /nests deeper/);
  t.match(read(nested(1_000_000)).errors[0]!.message, /nests deeper/, 'a million levels');
});

t.test('what is not JSON, or not UTF-8', async (t) => {
  for (const text of ['', '{', '\ufeff{}', "{'a':1}", '{"a":1,}', 'NaN', '{"a":\u0001}']) {
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

t.test('errors are counted no further than they are shown', async (t) => {
  const pairs = Array.from({ length: 1_000 }, (_, n) => `"k${n}":1,"k${n}":1`);
  t.equal(paths(`{${pairs.join()}}`).length, ERRORS_SHOWN);
  const slashes = `{"a":"${'\\\\'.repeat(500_000)}","b":"${'\\"'.repeat(500_000)}"}`;
  const began = performance.now();
  t.same(paths(slashes), []);
  t.ok(performance.now() - began < 2_000, 'and a body of backslashes is no trap');
});

t.test('a name of the caller is shown cut, and never as half a character', async (t) => {
  t.equal(join('', 'x'.repeat(65)), `${'x'.repeat(64)}…`);
  t.equal(join('a', '\ud800'), 'a.\ufffd');
});
