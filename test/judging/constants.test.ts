/** Constants of a package, in its programs and its groups. */
import t from 'tap';
import { replaceConstants } from '../../src/judging/packages/constants.ts';
import { A_TEST, type Files, newer, read, readWithSubmissions, rejectAll } from './packages.ts';

const YAML = 'constants: {n: 100, half: 0.50, Word_2: "a b", none: ""}\n';

t.test('constants are replaced as the file has them', (t) => {
  const constants = new Map([
    ['n', '100'],
    ['e', 'é'],
  ]);
  const replaced = (text: string) =>
    Buffer.from(replaceConstants(Buffer.from(text), constants, 1000) ?? '').toString();
  t.equal(replaced('{{n}} {{ n }} {{m}} {n} {{{n}}} {{e}}é'), '100 {{ n }} {{m}} {n} {100} éé');
  t.equal(replaceConstants(Buffer.from('{{n}}{{n}}'), constants, 5), null, 'it would be too long');
  const binary = Buffer.from([0xff, 0x00, 0x7b]);
  t.strictSame(Buffer.from(replaceConstants(binary, constants, 1000) ?? ''), binary);
  t.end();
});

t.test('in validators, example submissions and test_group.yaml', async (t) => {
  const files: Files = newer(YAML, {
    ...A_TEST,
    'data/secret/1.in': '{{n}}\n',
    'data/secret/test_group.yaml': 'output_validator_args: ["{{Word_2}}", "{{other}}"]\n',
    'output_validator/main.py': 'exit({{n}}) # {{half}}',
    'output_validator/more.py': '{{none}}',
    'output_validator/nothing.py': '',
    'submissions/accepted/a.py': 'print({{half}})',
  });
  const { set, keeper, submissions, sources } = await readWithSubmissions(t, files);
  const validator = set.checker?.files.map(({ path, file }) => [path, keeper.text(file)]);
  t.strictSame(
    new Map(validator as [string, string][]),
    new Map([
      ['main.py', 'exit(100) # 0.50'],
      ['more.py', ''],
      ['nothing.py', ''],
    ]),
  );
  t.strictSame(set.groups.find(({ name }) => name === 'secret')?.args, ['a b', '{{other}}']);
  t.equal(keeper.text(set.tests[0]?.input), '{{n}}\n', 'data is as it is');
  const [file] = submissions[0]?.program?.files ?? [];
  t.equal(String(sources.get(file?.file.sha256 ?? '')), 'print(0.50)');
  t.strictSame((await read(t, newer('constants:\n'))).notes, []);
});

/** The settings of each are short, and stand for 60,000 bytes. */
const manyGroups = (count: number): Files =>
  Object.fromEntries(
    Array.from({ length: count }, (_, n) => [
      [`data/secret/g${n}/test_group.yaml`, 'hint: "{{n}}"\n'],
      [`data/secret/g${n}/1.in`, ''],
      [`data/secret/g${n}/1.ans`, ''],
    ]).flat(),
  );

t.test('constants that are none', async (t) => {
  const long = `constants: {n: ${'x'.repeat(60_000)}}\n`;
  await rejectAll(t, [
    ['a name', newer('constants: {2n: 1}'), /^problem\.yaml: constants\.2n: a name has only/],
    ['a list', newer('constants: {n: [1]}'), /^problem\.yaml: constants\.n: must be a string/],
    [
      'a program that grows',
      newer(long, { 'output_validator/v.py': '{{n}}'.repeat(1000) }),
      /^output_validator\/v\.py: with its constants it has more than 1048576 bytes$/,
    ],
    [
      'files of a program that grow together',
      newer(long, {
        'output_validator/v.py': '',
        ...Object.fromEntries(
          Array.from({ length: 18 }, (_, n) => [`output_validator/${n}.txt`, '{{n}}']),
        ),
      }),
      /^output_validator: a program has at most 1048576 bytes$/,
    ],
    [
      'groups that grow',
      newer(long, { 'data/secret/test_group.yaml': 'hint: "{{n}}{{n}}"\n' }),
      /^data\/secret\/test_group\.yaml: with its constants it has more than 65536 bytes$/,
    ],
    [
      'many groups that grow',
      newer(long, manyGroups(40)),
      /test_group\.yaml: with it the YAML files have more than 2097152 bytes$/,
    ],
  ]);
  const { set } = await read(t, newer(long, manyGroups(30)));
  t.equal(set.groups.filter(({ name }) => name.startsWith('secret/g')).length, 30, 'some may');
});

t.test('a file costs the constants that it names, and not all of the package', (t) => {
  let read = 0;
  const constants = new (class extends Map<string, string> {
    override get(name: string) {
      read++;
      return super.get(name);
    }
    override [Symbol.iterator](): never {
      throw new Error('all of them were read');
    }
  })();
  for (let n = 0; n < 10_000; n++) constants.set(`c${n}`, String(n));
  const text = '{{c7}}{{none}}{{c8}}'.repeat(100);
  const replaced = replaceConstants(Buffer.from(text), constants, 10_000);
  t.equal(String(replaced), '7{{none}}8'.repeat(100));
  t.equal(read, 3, 'each of them once');
  t.end();
});
