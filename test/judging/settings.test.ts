/** YAML files, hostile and wrong. */
import t from 'tap';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { YamlReader } from '../../src/judging/packages/settings.ts';
import { archiveOf, LEGACY, legacy, NEW, newer, rejectAll, rejects } from './packages.ts';

t.test('null is as if nothing stood there, and in quotes it is a text', async (t) => {
  const settings = async (text: string) => {
    async function* open() {
      yield Buffer.from(text);
    }
    const entry = { path: 'problem.yaml', size: text.length, open };
    return new YamlReader(DEFAULT_PACKAGE_BOUNDS).read(entry);
  };
  for (const nothing of ['null', 'Null', 'NULL', '~', '']) {
    const found = await settings(`a: ${nothing}\nb: "${nothing}"`);
    t.equal(found.oneOf('a', ['x']), null);
    t.equal(found.number('a', { min: 0, max: 1 }), null);
    t.equal(found.strings('a'), null);
    t.equal(found.words('a'), null);
    t.same([...found.map('a').keys()], []);
    t.equal(found.text('b'), nothing);
  }
  t.equal((await settings('a: nullable')).text('a'), 'nullable');
  t.equal((await settings('a: 1e-6')).text('a'), '1e-6', 'numbers stay as they are written');
});

t.test('YAML', async (t) => {
  const bomb = [
    'a: &a [x, x, x, x, x, x, x, x, x]',
    ...'bcdefghi'
      .split('')
      .map((key, i) => `${key}: &${key} [${Array(9).fill(`*${'abcdefghi'[i]}`).join()}]`),
  ];
  await rejectAll(t, [
    ['a bomb of aliases', legacy(bomb.join('\n')), /^problem\.yaml: .*aliases/],
    ['deep sequences', legacy(`name: ${'['.repeat(30_000)}`), /^problem\.yaml: line 1: nesting/],
    [
      'deep maps',
      legacy(Array.from({ length: 200 }, (_, i) => `${' '.repeat(i)}a:`).join('\n')),
      /^problem\.yaml: line \d+: nesting/,
    ],
    ['deep keys', legacy('? '.repeat(30_000)), /^problem\.yaml: line 1: nesting/],
    [
      'a map in itself',
      legacy('limits: &a {memory: *a}'),
      /^problem\.yaml: limits\.memory: must be a string/,
    ],
    ['a tag', legacy('name: !!python/object:os.system x'), /^problem\.yaml: .*tag/],
    ['a tag of numbers', legacy('name: !!int 3'), /^problem\.yaml: .*tag/],
    ['a key twice', legacy('name: a\nname: b'), /^problem\.yaml: line 2: dup/],
    ['a key that is a map', legacy('? {a: b}\n: 1'), /^problem\.yaml: .*key must be a string/],
    ['a merge', legacy('<<: {name: a}'), /^problem\.yaml: <<: unknown key/],
    ['a prototype', legacy('__proto__: {name: a}'), /^problem\.yaml: __proto__: unknown key/],
    ['two documents', legacy('name: a\n---\nname: b'), /^problem\.yaml: /],
    ['a list', legacy('- name'), /^problem\.yaml: it must be a map/],
    ['a text', legacy('name'), /^problem\.yaml: it must be a map/],
    ['no YAML', legacy('name: [a'), /^problem\.yaml: line 1: /],
    ['an unknown alias', legacy('name: *a'), /^problem\.yaml: line 1: .*alias/],
    [
      'not UTF-8',
      { ...LEGACY, 'problem.yaml': Uint8Array.of(0xff, 0xfe) },
      /^problem\.yaml: it is not UTF-8/,
    ],
    ['a control character', legacy('name: "a\\u0001b"'), /^problem\.yaml: name: must be one line/],
    [
      'a large file',
      legacy(`name: ${'x'.repeat(70_000)}`),
      /^problem\.yaml: it has more than 65536 bytes/,
    ],
    ['an unknown key', legacy('colour: red'), /^problem\.yaml: colour: unknown key/],
    [
      'an unknown key further down',
      legacy('limits: {memroy: 3}'),
      /^problem\.yaml: limits\.memroy: unknown key/,
    ],
    [
      'an unknown key of a group',
      { ...LEGACY, 'data/secret/testdata.yaml': 'on_accept: x' },
      /^data\/secret\/testdata\.yaml: on_accept: unknown key/,
    ],
    [
      'a key of the legacy version',
      newer('validator_flags: x'),
      /^problem\.yaml: validator_flags: unknown key/,
    ],
  ]);
  const much = Array.from({ length: 40 }, (_, i) => [
    `data/secret/${i}.yaml`,
    `hint: ${'x'.repeat(60_000)}`,
  ]);
  const tests = Array.from({ length: 40 }, (_, i) => [
    [`data/secret/${i}.in`, ''],
    [`data/secret/${i}.ans`, ''],
  ]).flat();
  await rejects(
    t,
    'many large files',
    archiveOf({ ...NEW, ...Object.fromEntries([...much, ...tests]) }),
    /yaml: with it the YAML files have more than/,
  );
});

t.test('numbers', async (t) => {
  const limits = (text: string) => legacy(`limits: {${text}}`);
  await rejectAll(t, [
    [
      'negative',
      limits('memory: -1'),
      /^problem\.yaml: limits\.memory: must be a number from 1 to/,
    ],
    ['zero', limits('memory: 0'), /limits\.memory: must be a number/],
    ['no integer', limits('memory: 1.5'), /limits\.memory: must be an integer/],
    ['beyond all numbers', limits('memory: 1e999'), /limits\.memory: must be a number/],
    ['a petabyte', limits('memory: 1e9'), /limits\.memory: must be a number/],
    ['infinite', limits('time_multiplier: .inf'), /limits\.time_multiplier: must be a number/],
    ['hexadecimal', limits('memory: 0x10'), /limits\.memory: must be a number/],
    ['no number', limits('memory: lots'), /limits\.memory: must be a number/],
    ['a list', limits('memory: [1]'), /limits\.memory: must be a string/],
    [
      'no time',
      newer('limits: {time_limit: 0}'),
      /limits\.time_limit: must be a number from 0\.001 to 3600/,
    ],
    [
      'too few passes',
      legacy('validation: custom multi-pass\nlimits: {validation_passes: 1}'),
      /limits\.validation_passes: must be a number from 2/,
    ],
    [
      'passes of one pass',
      limits('validation_passes: 2'),
      /limits\.validation_passes: is for multi-pass problems only/,
    ],
    [
      'a range upside down',
      legacy('type: scoring', { 'data/testdata.yaml': 'range: 5 1' }),
      /^data\/testdata\.yaml: range: must be two numbers/,
    ],
    [
      'a range of one',
      legacy('type: scoring', { 'data/testdata.yaml': 'range: 5' }),
      /range: must be two numbers/,
    ],
    [
      'an infinite score',
      legacy('type: scoring', { 'data/testdata.yaml': 'accept_score: inf' }),
      /accept_score: must be a number/,
    ],
    [
      'a negative tolerance',
      legacy('validator_flags: float_tolerance -1'),
      /float_tolerance "[-1e9]+": a tolerance is a decimal number/,
    ],
    [
      'an infinite tolerance',
      legacy('validator_flags: float_tolerance 1e999'),
      /float_tolerance "[-1e9]+": a tolerance is a decimal number/,
    ],
    ['no tolerance', legacy('validator_flags: float_tolerance'), /float_tolerance needs a number/],
  ]);
});
