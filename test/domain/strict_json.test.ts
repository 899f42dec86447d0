import t from 'tap';
import { BadJson, checkDepth, parseStrictly } from '../../src/domain/strict_json.ts';

t.test('it reads what JSON.parse reads', async (t) => {
  for (const text of [
    '{}',
    '[]',
    '"{\\"a\\": 1}"',
    '{"a": {"a": [{"a": 1}, {"a": 2}]}, "b": ["a", "a", "]", "\\\\"]}',
    `{"a": ["a", {"b": 1}, "a"], "b": "\\"b\\": {"}`,
    `${'['.repeat(1000)}${']'.repeat(1000)}`,
    `"${'['.repeat(5000)}"`,
  ])
    t.same(parseStrictly(text), JSON.parse(text), text.slice(0, 60));
});

t.test('a name that is given twice is an error, however it is written', async (t) => {
  for (const text of [
    '{"a": 1, "a": 1}',
    '{"a": 1, "\\u0061": 2}',
    '[{"x": {"a": [1], "b": {}, "a": 2}}]',
    '{"__proto__": 1, "__proto__": 2}',
    '{"a" : {"b": {"c": 1}, "d": 2} , "a" : {}}',
    '{"a:": ":", "b\\"": {"c": []}, "a:": ":"}',
  ])
    t.throws(() => parseStrictly(text), /twice in one object/, text);
});

t.test('deep nesting is an error before it is parsed', async (t) => {
  const deep = (levels: number) => `{"a": ${'['.repeat(levels)}${']'.repeat(levels)}}`;
  for (const text of [deep(100_000), deep(1000), '['.repeat(5000), '{"":'.repeat(5000)]) {
    t.throws(() => parseStrictly(text), /nested more than 1000 levels deep/);
    t.throws(() => checkDepth(text), /nested more than 1000 levels deep/);
  }
  t.throws(() => parseStrictly('{"a": "'), new BadJson('it is not JSON'));
  t.throws(() => parseStrictly(`"${'\\'.repeat(3001)}`), new BadJson('it is not JSON'));
});
