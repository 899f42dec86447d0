/**
 * Standard input is a regular file, from the request or from the store, and single files of the store are in /load2. Each
 * claim has a hostile program and an honest twin; both run in Python, started and forked.
 */
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { BoxRequest, RunReport } from '../../src/executor/sandbox.ts';
import { MiB, python, request, said, shell, text, withSandbox } from '../executor/box.ts';
import { ISOLATION } from './isolation.ts';

/** One slot, so that a run comes in the same slot after another. */
const { sandbox, store, close } = await withSandbox({ slots: 1, ...ISOLATION });
t.teardown(close);
const { degraded } = sandbox.isolation;
const SECRET = 'an answer that no submitted program may see';
const put = (name: string, bytes: string | Uint8Array) =>
  writeFileSync(join(store, name), bytes, { mode: 0o444 });
put('input', 'first line\nsecond line\n');
put('answer', SECRET);
put('large', Buffer.alloc(40 * MiB, '12345678\n'));
mkdirSync(join(store, 'folder'));
symlinkSync('answer', join(store, 'link'));
execFileSync('mkfifo', [join(store, 'fifo')]);

const PROBE = `
import os, sys
def denied(what, action):
    try:
        got = action()
    except OSError:
        print('DENIED', what)
    else:
        print('ESCAPED', what, repr(got)[:80])
`;
const LOOKS = `
import mmap, os, stat, sys
state = os.fstat(0)
text = sys.stdin.read()
os.lseek(0, 0, 0)
again = os.read(0, 1 << 26).decode()
mapped = mmap.mmap(0, 0, access=mmap.ACCESS_READ)[:].decode() if state.st_size else ''
shared = mmap.mmap(0, 0, mmap.MAP_SHARED, mmap.PROT_READ)[:].decode() if state.st_size else ''
by_path = open('/dev/stdin').read()
print(stat.S_ISREG(state.st_mode), state.st_size == len(text), len({text, again, mapped, shared, by_path}), sys.stdin.seekable())
`;

/** Both ways in which a Python program can start. The second run of an account's kind is forked, if at all. */
async function bothWays(made: BoxRequest): Promise<RunReport[]> {
  const forked = { ...made, zygote: { account: 'acc' } };
  return [await sandbox.run(made), await sandbox.run(forked), await sandbox.run(forked)];
}

t.test('an input is a file that can be measured, mapped and read again', async (t) => {
  for (const [name, input] of Object.entries({
    request: { stdin: 'first line\nsecond line\n' },
    'request, empty': { stdin: '' },
    'request, longer than a pipe': { stdin: Buffer.alloc(3 * MiB, 'abcdefg\n') },
    store: { stdin_key: 'input' },
  }))
    for (const report of await bothWays(python(LOOKS, input)))
      t.equal(said(report), 'True True 1 True', name, { stderr: text(report.stderr) });
});

t.test('an input larger than a program may use is read in full', async (t) => {
  const report = await sandbox.run(
    shell('wc -c', { stdin_key: 'large', limits: { memory_bytes: 16 * MiB } }),
  );
  t.equal(said(report), `${40 * MiB}`);
  t.ok(report.memory_peak_bytes < 16 * MiB, `its pages do not count: ${report.memory_peak_bytes}`);
});

t.test(
  'a program cannot change its input, because it is sealed or mounted read-only',
  async (t) => {
    const attack = `${PROBE}
denied('write', lambda: os.write(0, b'x'))
denied('truncate', lambda: os.ftruncate(0, 1))
denied('mode', lambda: os.fchmod(0, 0o777)) if 'store' in sys.argv else None
denied('owner', lambda: os.fchown(0, os.getuid(), os.getgid())) if 'store' in sys.argv else None
denied('times', lambda: os.utime('/proc/self/fd/0', (1, 1))) if 'store' in sys.argv else None
denied('open and write', lambda: os.write(os.open('/proc/self/fd/0', os.O_RDWR), b'x'))
denied('open to truncate', lambda: os.open('/dev/stdin', os.O_WRONLY | os.O_TRUNC))
denied('new name', lambda: os.link('/proc/self/fd/0', '/box/mine', follow_symlinks=True))
`;
    const before = lstatSync(join(store, 'input'));
    for (const input of [{ stdin: 'abc' }, { stdin_key: 'input' }]) {
      const made = python(attack, input);
      const argv = 'stdin_key' in input && !degraded ? [...made.argv, 'store'] : made.argv;
      const output = said(await sandbox.run({ ...made, argv }));
      t.notMatch(output, /ESCAPED/);
      t.equal(output.split('\n').length, argv.length === 4 ? 8 : 5, output);
    }
    const after = lstatSync(join(store, 'input'));
    t.same(
      [after.mode, after.mtimeMs, after.atimeMs],
      [before.mode, before.mtimeMs, before.atimeMs],
    );
    t.equal(readFileSync(join(store, 'input'), 'utf8'), 'first line\nsecond line\n');
    const twin = python('print(input()); open("/box/mine", "w").write("x")', {
      stdin_key: 'input',
    });
    t.equal(said(await sandbox.run(twin)), 'first line');
  },
);

t.test('only a regular file of the store can be an input', async (t) => {
  for (const key of ['folder', 'link', 'fifo', 'absent', '../input', '.hidden', '', 'a/b'])
    await t.rejects(sandbox.run(shell('cat', { stdin_key: key })), { name: 'SandboxFault' }, key);
  t.equal(said(await sandbox.run(shell('cat', { stdin_key: 'answer' }))), SECRET);
});

const CHECKER = {
  load: [
    { key: 'input', at: '/load2/input' },
    { key: 'answer', at: '/load2/answer' },
  ],
  folders: ['feedback', 'a/b'],
};

t.test('a checker reads its files, and cannot change them or add to them', async (t) => {
  const attack = `${PROBE}
folder = sys.argv[1]
for name in 'input', 'answer':
    path = folder + '/' + name
    denied('write', lambda: open(path, 'a'))
    denied('remove', lambda: os.remove(path))
    denied('rename', lambda: os.rename(path, folder + '/other'))
    denied('mode', lambda: os.chmod(path, 0o777))
denied('add', lambda: open(folder + '/new', 'w')) if os.stat(folder).st_uid != os.getuid() else print('DENIED')
`;
  const made = python(attack, CHECKER);
  const report = await sandbox.run({ ...made, argv: [...made.argv, '/load2'] });
  t.notMatch(said(report), /ESCAPED/, { stderr: text(report.stderr) });
  t.equal(said(report).split('\n').length, 9);
  t.equal(readFileSync(join(store, 'answer'), 'utf8'), SECRET);
  const twin = shell(
    'cat /load2/input /load2/answer; echo ok > feedback/judgemessage.txt; ls -d feedback a/b; cat feedback/*',
    CHECKER,
  );
  t.equal(
    said(await sandbox.run(twin)),
    `first line\nsecond line\n${SECRET}a/b\nfeedback\nok`,
    'the honest twin',
  );
});

t.test(
  'a program cannot see a checker’s files, because its box has no mount of them',
  async (t) => {
    const attack = shell(
      'ls /load2 2>/dev/null; cat /load2/answer /load/answer /store/answer 2>/dev/null;' +
        'ls -R /box /tmp; cat /proc/self/mountinfo | grep -c answer; readlink /proc/self/fd/0;' +
        'for f in /proc/self/fd/0/../answer /proc/self/fd/0/answer; do cat $f 2>/dev/null; done; true',
      { stdin_key: 'input' },
    );
    for (let round = 0; round < 2; round++) {
      const report = await sandbox.run(attack);
      t.notMatch(
        text(report.stdout),
        /an answer that no/,
        'before and after a checker in its slot',
      );
      t.match(text(report.stdout), /^0$/m, 'no mount of it');
      t.equal(said(await sandbox.run(shell('cat /load2/answer', CHECKER))), SECRET, 'the checker');
    }
  },
);

t.test('a checker cannot read what a program left in the slot before it', async (t) => {
  const leave = shell(
    'for d in /box /tmp /dev/shm; do echo secret-of-a-program > $d/left; done; mkdir -p /box/feedback; echo secret-of-a-program > /box/feedback/x',
  );
  t.match(await sandbox.run(leave), { exit_code: 0 });
  const look = shell(
    'cat /box/left /tmp/left /dev/shm/left /box/feedback/x; ls -R /box /tmp /dev/shm',
    CHECKER,
  );
  const report = await sandbox.run(look);
  t.notMatch(text(report.stdout), /secret-of-a-program|left|x$/m);
});

t.test('orders for files that cannot be obeyed are rejected, and the next run works', async (t) => {
  const load = (at: string, key = 'input') => ({ load: [{ key, at }] });
  for (const at of ['/load2/a/b', '/load2/', '/load2/../x', '/load2/.x', '/load3/x', '/load/x'])
    await t.rejects(sandbox.run(shell('true', load(at))), { name: 'SandboxFault' }, at);
  if (!degraded)
    await t.rejects(sandbox.run(shell('true', load('/load2/x', 'folder'))), {
      name: 'SandboxFault',
    });
  await t.rejects(sandbox.run(shell('true', load('/load2/x', 'absent'))), { name: 'SandboxFault' });
  const over = [...load('/load2/x').load, { key: 'folder', at: '/load2' }];
  await t.rejects(sandbox.run(shell('true', { load: over })), { name: 'SandboxFault' });
  for (const folder of ['..', '/etc', 'a//b', '', 'a/../../b'])
    await t.rejects(
      sandbox.run(shell('true', { folders: [folder] })),
      { name: 'SandboxFault' },
      folder,
    );
  t.match(await sandbox.run(request(['/bin/true'])), { exit_code: 0 });
});
