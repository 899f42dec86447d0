/**
 * The files that a compiler's box leaves are untrusted. Each row is a work directory that a hostile
 * compile leaves for saving, and what the launcher may save of it in the store.
 */
import { lstat, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { limitsFor } from '../../src/domain/limits.ts';
import { openSandbox } from '../../src/executor/sandbox.ts';
import { NO_NEEDS } from '../../src/languages/common/language.ts';
import { placeInStore, preparePrograms } from './programs.ts';
import { LAUNCHER } from './suite.ts';

type Row = {
  program: string;
  args?: string[];
  paths?: string[];
  /** path in the artefact -> content; null: nothing may be saved */
  saved: Record<string, string | RegExp> | null;
};

const rows: readonly Row[] = [
  { program: 'leave_plain', saved: { out: 'plain' } },
  { program: 'leave_directory', saved: { 'out/inner/file': 'plain' } },
  { program: 'leave_symlink', saved: null },
  { program: 'leave_symlink', args: ['/load/hostile'], saved: null },
  { program: 'leave_symlinked_parent', paths: ['dir/passwd'], saved: null },
  { program: 'leave_symlinked_parent', args: ['/'], paths: ['dir'], saved: null },
  { program: 'leave_hard_link', saved: null },
  { program: 'leave_fifo', saved: null },
  { program: 'leave_socket', saved: null },
  { program: 'leave_nothing', saved: null },
  { program: 'leave_suid', saved: { out: 'plain' } },
  { program: 'leave_large', args: ['65537'], saved: null },
  { program: 'leave_large', args: ['65536'], saved: { out: 'x'.repeat(65536) } },
  { program: 'leave_sparse', saved: null },
  { program: 'leave_many', saved: null },
  { program: 'leave_deep', saved: null },
  {
    program: 'leave_mixed',
    saved: { 'out/good': 'plain', 'out/new\nline': 'x', 'out/-rf': 'x', 'out/ ': 'x' },
  },
];
/** A race may lead to nothing being saved, or to the honest file. */
const races: readonly Row[] = [
  { program: 'leave_swapping', saved: { out: /^(plain|)$/ } },
  { program: 'leave_open', saved: { out: /^(plain|evil)n?$/ } },
];

const programs = await preparePrograms({ java: null });
const store_dir = await mkdtemp(join(tmpdir(), 'artefacts-'));
await placeInStore(programs, store_dir);
const sandbox = await openSandbox({
  launcher: LAUNCHER,
  slots: 1,
  store_dir,
  profiles: { cpp: { mounts: [] } },
});
t.teardown(async () => {
  await sandbox.close();
  await rm(store_dir, { recursive: true, force: true });
});

let number = 0;
async function save({ program, args = [], paths = ['out'] }: Row) {
  const key = `saved-${number++}`;
  const report = await sandbox.run({
    argv: ['/load/hostile', program, ...args],
    env: {},
    files: [],
    stdin: new Uint8Array(),
    limits: limitsFor(NO_NEEDS),
    profile: 'cpp',
    load: [{ key: 'hostile-cpp', at: '/load' }],
    save: { key, paths, max_bytes: 65536, max_files: 64 },
  });
  return { report, key, folder: join(store_dir, key) };
}

async function contentOf(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const state = await lstat(path);
    if (state.isDirectory()) continue;
    found[path.slice(folder.length + 1)] = state.isFile()
      ? await readFile(path, 'utf8')
      : 'NO REGULAR FILE';
    if (state.mode & 0o7022) found[path] = `mode ${state.mode.toString(8)}`;
    if (state.uid !== process.getuid!()) found[path] = `owner ${state.uid}`;
    if (state.nlink !== 1) found[path] = `${state.nlink} links`;
  }
  return found;
}

for (const row of rows) {
  t.test(`${row.program} ${row.args?.join(' ').slice(0, 40) ?? ''}`, async (t) => {
    const { report, folder, key } = await save(row);
    t.equal(report.exit_code, 0, 'the program ended well', {
      said: Buffer.from(report.stdout).toString(),
    });
    t.notMatch(Buffer.from(report.stdout).toString(), /FAILED/, 'and left its files');
    if (row.saved === null) {
      t.equal(report.saved, undefined, 'nothing is saved');
      t.match(report.save_refused, /./, 'and the report says why');
      t.notOk((await readdir(store_dir)).includes(key), 'nothing is in the store');
    } else {
      t.same(await contentOf(folder), row.saved, 'only regular files, with their bytes');
      t.equal(report.saved?.files, Object.keys(row.saved).length);
    }
  });
}

for (const row of races) {
  t.test(row.program, async (t) => {
    // In most rounds a race may keep everything from being saved. Then nothing was looked at, and there are more rounds.
    let looked_at = 0;
    for (let round = 0; round < 20 || (looked_at === 0 && round < 1_000); round++) {
      const { report, folder } = await save(row);
      if (report.saved === undefined) {
        t.match(report.save_refused, /./, 'the report says why nothing is saved');
        continue;
      }
      looked_at++;
      for (const [path, content] of Object.entries(await contentOf(folder)))
        t.match(content, row.saved?.[path] ?? /^$/, path);
    }
    t.ok(looked_at > 0, `${looked_at} rounds saved something`);
  });
}

t.test(
  'names that look like options or lead out of the box are rejected, and the slot stays usable',
  async (t) => {
    const run = (change: object) =>
      sandbox.run({
        argv: ['/load/hostile', 'print_nothing'],
        env: {},
        files: [],
        stdin: new Uint8Array(),
        limits: limitsFor(NO_NEEDS),
        profile: 'cpp',
        load: [{ key: 'hostile-cpp', at: '/load' }],
        ...change,
      });
    const bytes = new Uint8Array(1);
    for (const path of [
      '../x',
      '/etc/x',
      'a/../../x',
      'a//b',
      '.',
      '..',
      './x',
      '',
      'a/',
      'x'.repeat(2000),
    ])
      await t.rejects(
        run({ files: [{ path, bytes }] }),
        { name: 'SandboxFault' },
        `file ${path.slice(0, 20)}`,
      );
    for (const key of ['../x', '/etc', '.', '..', '.hidden', 'a/b', '', 'x'.repeat(200)]) {
      await t.rejects(
        run({ load: [{ key, at: '/load' }] }),
        { name: 'SandboxFault' },
        `artefact ${key.slice(0, 20)}`,
      );
      await t.rejects(
        run({ save: { key, paths: ['out'], max_bytes: 1, max_files: 1 } }),
        { name: 'SandboxFault' },
        `save ${key.slice(0, 20)}`,
      );
    }
    for (const at of ['/', '/etc', '/usr', '/proc', '/box/../etc', 'load', '/load/../etc'])
      await t.rejects(
        run({ load: [{ key: 'hostile-cpp', at }] }),
        { name: 'SandboxFault' },
        `mounted at ${at}`,
      );
    await t.rejects(run({ profile: 'nosuch' }), { name: 'SandboxFault' }, 'profile');
    const dashed = await run({
      files: [
        { path: '-o', bytes },
        { path: '--version', bytes },
        { path: '@args', bytes },
      ],
      argv: ['/load/hostile', 'read_own', '-o', '--version', '@args'],
    });
    t.equal(
      Buffer.from(dashed.stdout).toString(),
      'OK -o\nOK --version\nOK @args\n',
      'names that look like options are names',
    );
    t.equal((await run({})).exit_code, 0, 'and the next run works');
  },
);
