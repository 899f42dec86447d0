/**
 * The files that a run leaves are untrusted. Each row is a work folder, what is asked for, and what the report may hold of
 * it. `why` is the report's reason for the first file that is left out.
 */
import t from 'tap';
import type { RunReport } from '../../src/executor/sandbox.ts';
import { matchesPattern } from '../../src/judging/paths.ts';
import { MiB, python, said, shell, text, withSandbox } from '../executor/box.ts';
import { matchLists } from '../support/match_lists.ts';
import { ISOLATION } from './isolation.ts';

const { sandbox, close } = await withSandbox({ slots: 1, ...ISOLATION });
t.teardown(close);
const { degraded } = sandbox.isolation;

type Row = {
  name: string;
  script: string;
  patterns?: string[];
  max_bytes?: number;
  max_files?: number;
  kept: Record<string, string>;
  why?: RegExp;
};

const rows: readonly Row[] = [
  { name: 'a plain file', script: 'echo hello > out', kept: { out: 'hello\n' } },
  { name: 'an empty file', script: ': > out', kept: { out: '' } },
  { name: 'nothing', script: 'true', kept: {} },
  {
    name: 'a file in a folder',
    script: 'mkdir -p a/b; echo x > a/b/c',
    patterns: ['a/b/c', 'a/*/c'],
    kept: { 'a/b/c': 'x\n' },
  },
  {
    name: 'a star in a name',
    script: 'echo 1 > b.png; echo 2 > a.png; echo 3 > a.txt',
    patterns: ['*.png'],
    kept: { 'a.png': '2\n', 'b.png': '1\n' },
  },
  {
    name: 'a star never goes beyond a name',
    script: 'mkdir d; echo 1 > d/a.png',
    patterns: ['*.png', '*'],
    kept: {},
  },
  {
    name: 'the order is that of the patterns',
    script: 'echo 1 > a; echo 2 > b',
    patterns: ['b', '*'],
    max_files: 1,
    kept: { b: '2\n' },
    why: /^a: as many files/,
  },
  {
    name: 'names that look like options',
    script: 'echo 1 > ./-rf; echo 2 > "new\nline"; echo 3 > " "',
    patterns: ['*'],
    kept: { ' ': '3\n', '-rf': '1\n', 'new\nline': '2\n' },
  },
  { name: 'hidden names', script: 'echo 1 > .hidden', patterns: ['*'], kept: { '.hidden': '1\n' } },
  {
    name: 'exactly the limit',
    script: 'printf 12345678 > out',
    max_bytes: 8,
    kept: { out: '12345678' },
  },
  // hostile
  { name: 'a link to a file of the machine', script: 'ln -s /etc/passwd out', kept: {} },
  { name: 'a link inside the folder', script: 'echo x > real; ln -s real out', kept: {} },
  {
    name: 'a folder that is a link',
    script: 'ln -s / d; ln -s /etc e',
    patterns: ['d/etc/passwd', 'e/passwd', 'e/*', '*/passwd'],
    kept: {},
  },
  {
    name: 'a link to its own folder',
    script: 'ln -s . d; echo x > out',
    patterns: ['d/out', 'd/d/d/out'],
    kept: {},
  },
  {
    name: 'a hard link is a file like another',
    script: 'echo x > real; ln real out',
    patterns: ['*'],
    kept: { out: 'x\n', real: 'x\n' },
  },
  { name: 'a FIFO', script: 'mkfifo out', kept: {} },
  { name: 'a folder of the name', script: 'mkdir out; echo x > out/x', kept: {} },
  {
    name: 'one byte over the limit',
    script: 'printf 123456789 > out; printf 1 > small',
    patterns: ['out', 'small'],
    max_bytes: 8,
    kept: { small: '1' },
    why: /^out: it exceeds/,
  },
  { name: 'a sparse file', script: 'truncate -s 60M out', kept: {}, why: /^out: it exceeds/ },
  {
    name: 'a sparse file within the limit',
    script: 'truncate -s 100 out',
    kept: { out: '\0'.repeat(100) },
  },
  {
    name: 'a file without a right to read it',
    script: '(umask 777; echo x > out)',
    kept: { out: 'x\n' },
  },
  {
    name: 'a folder without a right to read it',
    // Where the program has the worker's user, it may change no rights.
    script: 'mkdir d; echo y > d/out; chmod 0 d || :',
    patterns: ['d/out'],
    kept: { 'd/out': 'y\n' },
  },
  {
    name: 'a name that is not UTF-8',
    script: 'printf x > "$(printf \'a\\377b\')"',
    patterns: ['*'],
    kept: {},
    why: /not UTF-8/,
  },
  {
    name: 'a path that is too long',
    script: 'n=$(printf "%0250d" 0); mkdir -p $n/$n/$n/$n; cd $n/$n/$n/$n && echo x > $n',
    patterns: ['*/*/*/*/*'],
    kept: {},
    why: /too long/,
  },
];

async function keep(row: Omit<Row, 'name' | 'kept'>, warm = false): Promise<RunReport> {
  const { script, patterns = ['out'], max_bytes = 65_536, max_files = 16 } = row;
  const keep = { patterns, max_bytes, max_files };
  if (!warm) return sandbox.run(shell(script, { keep }));
  const made = python(`import os\nos.remove('main.py')\nos.system(${JSON.stringify(script)})`, {
    keep,
  });
  return sandbox.run({ ...made, zygote: { account: 'acc' } });
}

const found = ({ kept }: RunReport) =>
  kept && Object.fromEntries(kept.map(({ path, bytes }) => [path, text(bytes)]));

for (const row of rows) {
  t.test(row.name, async (t) => {
    for (const warm of [false, true]) {
      const report = await keep(row, warm);
      t.match(report, { exit_code: 0 }, { stderr: text(report.stderr) });
      t.same(found(report), row.kept, warm ? 'forked' : 'started');
      if (row.why === undefined) t.equal(report.keep_refused, undefined);
      else t.match(report.keep_refused, row.why);
    }
  });
}

t.test('an order may refuse what is no regular file, and says which and why', async (t) => {
  const refused = (script: string, patterns = ['d/out', '*', '*/*']) =>
    sandbox.run(
      shell(script, { keep: { patterns, max_bytes: 99, max_files: 9, refuses_others: true } }),
    );
  const kinds: [string, RegExp][] = [
    ['mkdir d; echo x > d/real; ln -s real d/out', /^d\/out: it is no regular file$/],
    ['mkdir d; ln -s nothing d/out', /^d\/out: it is no regular file$/],
    ['mkdir d; mkfifo d/out', /^d\/out: it is no regular file$/],
    ['mkdir -p d/out', /^d\/out: it is no regular file$/],
    ['mkdir e; ln -s e d', /^d: it is no folder$/],
    ['echo x > d', /^d: it is no folder$/],
    ['mkfifo f', /^f: it is no regular file$/],
    ['mkdir e; ln -s /etc/passwd e/x', /^e\/x: it is no regular file$/],
  ];
  for (const [script, why] of kinds) t.match((await refused(script)).keep_refused, why, script);
  const honest = await refused('mkdir -p d e/deep/er; echo x > d/out; echo y > e/f; echo z > g');
  t.same(found(honest), { 'd/out': 'x\n', 'e/f': 'y\n', g: 'z\n' });
  t.notOk('keep_refused' in honest, 'folders on the way are none of the files');
});

t.test('without an order there is no list', async (t) => {
  const report = await sandbox.run(shell('echo x > out'));
  t.notOk('kept' in report);
  t.notOk('keep_refused' in report);
});

t.test('the files are kept however the run ends', async (t) => {
  const ends: readonly [string, object, object][] = [
    ['exit 3', {}, { exit_code: 3 }],
    ['kill -SEGV $$', {}, { signal: 11 }],
    ['sleep 60', { wall_ms: 200 }, { killed_for: 'wall' }],
    ['while :; do :; done', { cpu_ms: 100 }, degraded ? {} : { killed_for: 'cpu' }],
    ['exec cat /dev/zero', { stdout_bytes: 1_000 }, { killed_for: 'output' }],
  ];
  for (const [end, limits, expected] of ends) {
    const keep = { patterns: ['out'], max_bytes: 100, max_files: 1 };
    const report = await sandbox.run(shell(`echo x > out; ${end}`, { limits, keep }));
    t.match(report, expected, end);
    t.same(found(report), { out: 'x\n' }, end);
  }
});

t.test('what is kept does not change while it is copied, because no process is left', async (t) => {
  // A daemon that exchanges the file for a link without a pause.
  const script =
    '(trap "" HUP TERM; while :; do ln -sf /etc/passwd out; rm out; echo plain > out; done) >/dev/null 2>&1 & sleep 0.05';
  for (let round = 0; round < 20; round++) {
    const kept = found(await keep({ script }));
    t.ok(kept?.['out'] === undefined || /^(plain\n)?$/.test(kept['out']), JSON.stringify(kept));
  }
});

t.test('files are kept in the order of their bytes, however many there are', async (t) => {
  for (const count of [1, 2, 3, 4, 5, 17, 400]) {
    const script = `i=0; while [ $i -lt ${count} ]; do : > f$((i * 7919 % 1009)); i=$((i+1)); done`;
    const keep = { patterns: ['f*'], max_bytes: MiB, max_files: count };
    const { kept = [] } = await sandbox.run(shell(script, { keep }));
    const paths = kept.map(({ path }) => path);
    t.equal(paths.length, count);
    t.same(paths, paths.toSorted());
  }
});

t.test('10,000 files: the first ones are kept, and the others cost no run anything', async (t) => {
  const script = 'i=0; while [ $i -lt 10000 ]; do : > f$i; i=$((i+1)); done';
  const limits = { inodes: 20_000, cpu_ms: 30_000, wall_ms: 60_000 };
  const many = { patterns: ['f*', '*', 'f9*'], max_bytes: MiB, max_files: 16 };
  const report = await sandbox.run(shell(script, { limits, keep: many }));
  t.match(report, { exit_code: 0, keep_refused: /as many files as allowed/ });
  t.equal(report.kept?.length, 16);
  t.same(
    report.kept?.slice(0, 3).map(({ path }) => path),
    ['f0', 'f1', 'f10'],
  );
  const patterns = Array.from({ length: 16 }, (_, n) => `*${n}*`);
  const most = await sandbox.run(
    shell(script, { limits, keep: { ...many, patterns, max_files: 1 } }),
  );
  t.equal(most.kept?.length, 1, 'sixteen patterns over as many names');
});

t.test(
  'more names than are looked at: the report says so, and a name without a star needs no look',
  async (t) => {
    // Names of one file: some file systems take long to make as many files again just after they were deleted.
    const source = `import os
for name in "f0", "g": open(name, "w").close()
for n in range(60000): os.link("g", "g%d" % n)`;
    const limits = { inodes: 70_000, cpu_ms: 30_000, wall_ms: 60_000 };
    const run = (patterns: string[]) =>
      sandbox.run(python(source, { limits, keep: { patterns, max_bytes: 1, max_files: 16 } }));
    matchLists(t, await run(['x*', '*x']), { kept: [], keep_refused: /too many names/ });
    t.same(found(await run(['x*', 'f0'])), { f0: '' });
  },
);

t.test('large files, up to the order’s limit', async (t) => {
  const keep = { patterns: ['*'], max_bytes: 20 * MiB, max_files: 4 };
  const report = await sandbox.run(
    shell('head -c 20971520 /dev/zero | tr "\\0" x > out', { keep }),
  );
  t.equal(report.kept?.[0]?.bytes.length, 20 * MiB);
  t.ok(Buffer.from(report.kept![0]!.bytes).equals(Buffer.alloc(20 * MiB, 'x')));
  t.same(
    found(await sandbox.run(shell('true', { keep }))),
    {},
    'and nothing of it in the next run',
  );
});

t.test('patterns mean the same as in the rules of judging', async (t) => {
  const names = ['a', 'ab', 'abc', 'b.a', 'a.b.a', 'aa', '.a', 'a*', '*'];
  const patterns = [
    '*',
    'a*',
    '*a',
    'a*a',
    '*a*',
    'a',
    '*.*',
    'a*b*c',
    '**a',
    'a**',
    'a*c',
    '*b*a',
  ];
  const script = names.map((name) => `echo > '${name}'`).join(';');
  for (const pattern of patterns) {
    const report = await keep({ script, patterns: [pattern] });
    const expected = names.filter((name) => matchesPattern(pattern, name)).sort();
    t.same(report.kept?.map(({ path }) => path).sort(), expected, pattern);
  }
});

t.test('orders that cannot be obeyed are rejected, and the next run works', async (t) => {
  const order = (change: object) => ({
    keep: { patterns: ['out'], max_bytes: 100, max_files: 1, ...change },
  });
  for (const pattern of [
    '../x',
    '/etc/passwd',
    'a//b',
    '',
    '.',
    'a/',
    'a/../b',
    `${'x/'.repeat(30)}x`,
  ])
    await t.rejects(
      sandbox.run(shell('true', order({ patterns: [pattern] }))),
      { name: 'SandboxFault' },
      pattern,
    );
  await t.rejects(sandbox.run(shell('true', order({ patterns: [] }))), { name: 'SandboxFault' });
  await t.rejects(sandbox.run(shell('true', order({ max_bytes: 2 ** 40 }))), {
    name: 'SandboxFault',
  });
  const save = { key: 'k', paths: ['out'], max_bytes: 1, max_files: 1 };
  await t.rejects(sandbox.run(shell('true', { ...order({}), save })), { name: 'SandboxFault' });
  t.equal(said(await sandbox.run(shell('echo fine'))), 'fine');
});

t.test('the work of keeping files is in no limit of the run', async (t) => {
  const script = `a=$(printf '%0240d' 0 | tr 0 a); i=0; while [ $i -lt 4000 ]; do : > $i$a; i=$((i+1)); done`;
  // Each costs its length times that of the name, if it is tried at each place of the name.
  const patterns = Array.from(
    { length: 16 },
    (_, n) => `*${'a'.repeat(125)}${'bcdefghijklmnopq'[n]}*`,
  );
  // Degraded, the program itself takes seconds to make them.
  const limits = { inodes: 8_000, cpu_ms: degraded ? 30_000 : 600, wall_ms: 60_000 };
  const keep = { patterns, max_bytes: MiB, max_files: 16 };
  const report = await sandbox.run(shell(script, { limits, keep }));
  matchLists(t, report, { exit_code: 0, kept: [], killed_for: null });
});
