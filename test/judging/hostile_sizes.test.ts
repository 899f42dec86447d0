/**
 * Each file of a package that is parsed, at its largest, with what makes a careless reader slow. A web process reads packages
 * on its main thread, so one package must not hold it up.
 */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { type DataGroup, isGroup } from '../../src/judging/packages/data_groups.ts';
import type { Entry } from '../../src/judging/packages/entry_source.ts';
import { treeOf } from '../../src/judging/packages/file_tree.ts';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { readProblemSettings } from '../../src/judging/packages/problem_settings.ts';
import { assignScores } from '../../src/judging/packages/scores.ts';
import { Settings } from '../../src/judging/packages/settings.ts';
import { findValidator } from '../../src/judging/packages/validators.ts';
import {
  archiveOf,
  emptyTests,
  type Files,
  LEGACY,
  legacy,
  NEW,
  newer,
  temporaryFolder,
} from './packages.ts';

const { yaml_bytes, program_bytes, files: most_files } = DEFAULT_PACKAGE_BOUNDS;

/** `start`, as many of `piece` as there is room for, and `end`. */
function full(start: string, piece: string, end = '', bytes = yaml_bytes): string {
  const pieces = (bytes - Buffer.byteLength(start + end)) / Buffer.byteLength(piece);
  return start + piece.repeat(pieces) + end;
}

/** Files of the same kind, as many as there is room for beside the others. */
const many = (count: number, file: (n: number) => [string, string][]): Files =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => file(n)).flat());

const INI = 'domjudge-problem.ini';
const VALUES = Array.from({ length: 6_000 }, (_, n) => `c${n}: 1`).join(', ');
const MARKS = '\u0345\u0301\u0316'.repeat(30);
const DOTS = 'a.'.repeat(100);

const HOSTILE: readonly [title: string, files: Files, problem: RegExp][] = [
  ['an ini of spaces', { ...LEGACY, [INI]: full('a=', ' ', 'x\rx') }, /^none$/],
  ['an ini of spaces in a key', { ...LEGACY, [INI]: full('a', ' ', 'b') }, /^none$/],
  ['an ini of quotes', { ...LEGACY, [INI]: full('a=', '"', "'") }, /^none$/],
  ['a time limit of digits', { ...LEGACY, '.timelimit': full('1.', '1', 'e') }, /must be a number/],
  ['flags with escapes', legacy(full('validator_flags: ', '\\a')), /is not a flag of the default/],
  ['a yaml of spaces', legacy(full('a: b', '  \n ', 'c')), /a: unknown key/],
  ['a yaml of brackets', legacy(full('a: ', '[')), /nesting/],
  ['a yaml of keys', legacy(full('a: {', 'b,', '}')), /duplicated mapping key/],
  ['a yaml of anchors', legacy(full('a: [', '&a b, ', ']')), /a: unknown key/],
  ['a number in a yaml', legacy(full('limits: {memory: 1.', '1', 'x}')), /must be a number/],
  [
    'settings of a group in legacy',
    { ...legacy('type: scoring\n'), 'data/testdata.yaml': full('grader_flags: a', ' ', 'b') },
    /"a" is not a flag/,
  ],
  [
    'a range of a group in legacy',
    { ...legacy('type: scoring\n'), 'data/testdata.yaml': full('range: ', '1 ', 'x') },
    /range: must be two numbers/,
  ],
  [
    'settings of a group',
    newer('', { 'data/secret/test_group.yaml': full('args: [', 'a,', ']') }),
    /^none$/,
  ],
  ['settings of a test', newer('', { 'data/secret/1.yaml': full('args: [', 'a,', ']') }), /^none$/],
  [
    'half a constant',
    newer('constants: {a: 1}', {
      'output_validator/v.py': full('{{', 'a', '', program_bytes - 1),
      'output_validator/v.h': '',
    }),
    /^none$/,
  ],
  [
    'halves of constants',
    newer('constants: {a: 1}', { 'output_validator/v.py': full('', '{{a', '', program_bytes) }),
    /^none$/,
  ],
  [
    'many constants, and groups that name none',
    newer(
      `constants: {${VALUES}}`,
      many(500, (n) => [[`data/secret/g${n}/test_group.yaml`, '#']]),
    ),
    /^none$/,
  ],
  [
    'many names of a group',
    {
      ...newer('type: scoring\n', emptyTests('data/secret/a/1', 'data/secret/b/1')),
      'data/secret/a/test_group.yaml': 'max_score: 1\n',
      'data/secret/b/test_group.yaml': full('max_score: 1\nrequire_pass: [', 'secret/a,', ']'),
    },
    /^none$/,
  ],
  ['names of dots', { ...LEGACY, ...many(500, (n) => [[`data/${DOTS}${n}`, '']]) }, /^none$/],
  [
    'a directory of names with marks that have another order',
    { ...LEGACY, ...many(most_files - 10, (n) => [[`data/${n}${MARKS}/${MARKS}`, '']]) },
    /^none$/,
  ],
  [
    'a directory of folders',
    { ...NEW, ...many(most_files - 10, (n) => [[`data/secret/g${n}/a/b/c/d/e/f/g/h/i/j/k`, '']]) },
    /^none$|more than \d+ bytes/,
  ],
];

/**
 * Of a process that reads them all: CPU time, so no other process changes anything, and several times what it takes. It is
 * there for what takes hours, and tests beside the readers count steps.
 */
const MOST_CPU_SECONDS = 60;

t.test('hostile files of the largest size are read, or rejected', async (t) => {
  const folder = await temporaryFolder(t);
  const paths = HOSTILE.map((_, n) => join(folder, `${n}.zip`));
  for (const [n, [, files]] of HOSTILE.entries()) await writeFile(paths[n]!, archiveOf(files));
  const limited = ['-c', `ulimit -t ${MOST_CPU_SECONDS} && exec "$@"`, 'sh', process.execPath];
  const reader = join(import.meta.dirname, 'read_archives.ts');
  const { stdout, signal } = await promisify(execFile)('sh', [...limited, reader, ...paths]).then(
    ({ stdout }) => ({ stdout, signal: null }),
    (error: { stdout: string; signal: string | null }) => error,
  );
  const problems = stdout.split('\n').filter(Boolean);
  t.equal(signal, null, `while it read ${HOSTILE[problems.length]?.[0]}`);
  for (const [n, [title, , problem]] of HOSTILE.entries()) {
    t.match(JSON.parse(problems[n] ?? '"it was not read"'), problem, title);
  }
});

const problemOf = (values: Record<string, string>) =>
  readProblemSettings(new Settings('problem.yaml', '', new Map(Object.entries(values))));

t.test('a folder of many validators and headers is rejected before they are put together', (t) => {
  const COUNT = 300;
  let steps = 0;
  const entryOf = (path: string): Entry => ({
    get path() {
      steps++;
      return path;
    },
    size: 0,
    async *open() {},
  });
  const names = Array.from({ length: COUNT }, (_, n) => [`${n}.py`, `${n}.h`]).flat();
  const folder = (...files: string[]) =>
    treeOf(['problem.yaml', ...files.map((name) => `output_validators/${name}`)].map(entryOf)).root;
  const problem = problemOf({ validation: 'custom' });
  const one = findValidator(folder(...names.slice(0, 2)), problem, () => {});
  t.strictSame(
    one?.files.map(({ path }) => path),
    ['0.py', '0.h'],
  );
  const hostile = folder(...names);
  steps = 0;
  t.throws(() => findValidator(hostile, problem, () => {}), /one output validator is supported/);
  t.ok(steps < 10 * names.length, `${steps} steps for ${names.length} files`);
  t.end();
});

t.test('a group that many others name is looked at once', (t) => {
  const COUNT = 100;
  let steps = 0;
  const groupOf = (name: string, inner: DataGroup[], require_pass: string[] = []): DataGroup => ({
    ...{ name, path: name, top: 'secret' },
    settings: {
      group: { on_reject: 'continue', aggregation: 'sum', accept_score: 1, reject_score: 0 },
      ...{ validator_args: [], program_args: [], ignore_sample: false },
      scoring: { max: null, aggregation: null, require_pass },
    },
    get items() {
      steps++;
      return inner;
    },
  });
  const groups = (of: string, required: string[] = []) =>
    Array.from({ length: COUNT }, (_, n) => groupOf(`${of}/${n}`, [], required));
  const empty = groupOf('secret/a', groups('secret/a'));
  const secret = groupOf('secret', [empty, ...groups('secret', ['secret/a'])]);
  const data = groupOf('data', [secret]);
  const problem = problemOf({ problem_format_version: '2023-07', name: 'x', type: 'scoring' });
  assignScores(data, secret, problem, false);
  t.ok(steps < 20 * COUNT, `${steps} steps for ${2 * COUNT} groups`);
  const inner = secret.items.filter(isGroup);
  t.notOk(
    inner.some(({ settings }) => settings.group.require_pass),
    'a group without tests',
  );
  t.end();
});
