/** Degraded isolation, without control groups and namespaces: honest programs, limits, and leftovers. */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { childrenOf } from '../support/processes.ts';
import { FILTER_OF_LANDLOCK } from '../support/without_landlock.ts';
import { LAUNCHER, MiB, python, request, said, shell, text, withSandbox } from './box.ts';
import { saysWhyItCannotRun } from './no_program.ts';
import { isAlive, killSlots, running, within } from './processes.ts';

const isRoot = process.getuid!() === 0;
const not_root = !isRoot && 'only root can take Landlock away from the launcher';

/** Leaves processes that signal whatever comes after the program, as far as they may. */
const SIGNALS_WHAT_COMES = `
import os, signal, time
if os.fork() == 0:
    os.setsid()
    os.close(1)
    os.close(2)
    first = os.getpid() + 2
    os.fork()
    while True:
        for pid in range(first, first + 10):
            try: os.kill(pid, signal.SIGNAL)
            except OSError: pass
time.sleep(0.05)
print("bye")`;

/** More shared memory than its limit, and it keeps it. */
const SHARES = `
import mmap, time
memory = mmap.mmap(-1, 128 << 20)
for at in range(0, len(memory), 4096): memory[at] = 1
time.sleep(600)`;

/** Folders in folders, with names that what removes them may want, and some that their owner may not open. */
const DEEP = `
import os
for level in range(1000):
    os.mkdir("d")
    if level % 10 == 0:
        os.mkdir(f"moved.{level}")
        open("file", "w").close()
        os.symlink("/etc", "link")
    os.chdir("d")
    if level % 10 == 6: os.chmod("..", 0)
print(1000)`;

const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0, isolation: 'rlimits' });
t.teardown(close);

t.test('it is marked as degraded, with what this machine lacks', async (t) => {
  t.match(sandbox.isolation, { kind: 'rlimits', degraded: true, missing: /./ });
});

t.test('honest programs run', async (t) => {
  const report = await sandbox.run(
    python(
      'import sys\nopen("made", "w").write("x")\nprint(input(), sys.argv[0].endswith("/box/main.py"))\nsys.exit(3)',
      {
        stdin: 'hello\n',
      },
    ),
  );
  t.equal(said(report), 'hello True');
  t.match(report, { exit_code: 3, signal: null, killed_for: null });
  const save = { key: 'made', paths: ['prog'], max_bytes: MiB, max_files: 2 };
  const made = await sandbox.run(
    shell('printf "#!/bin/sh\\necho ran\\n" > prog; chmod 755 prog', { save }),
  );
  t.match(made, { saved: { files: 1 } });
  const ran = await sandbox.run(request(['/load/prog'], { load: [{ key: 'made', at: '/load' }] }));
  t.equal(said(ran), 'ran');
  await saysWhyItCannotRun(t, sandbox);
  const below = [{ key: 'made', at: '/box/a/b' }];
  t.equal(said(await sandbox.run(request(['/box/a/b/prog'], { load: below }))), 'ran');
});

t.test('the worker cannot be read or ended, nor the host', async (t) => {
  const secret = 'RUNLEDGER_TEST_SECRET';
  process.env[secret] = secret;
  const tries = [
    `/proc/${process.pid}/environ`,
    `/proc/${process.ppid}/environ`,
    '/etc/shadow',
    '/etc/passwd',
    import.meta.filename,
  ];
  const source = `
import os, signal, socket
for path in ${JSON.stringify(tries)}:
    try: print(open(path, "rb").read())
    except OSError as error: print("DENIED")
for kind in (socket.AF_INET, socket.AF_UNIX):
    try: print(socket.socket(kind))
    except OSError as error: print("DENIED")
try: os.kill(${process.pid}, signal.SIGKILL)
except OSError: print("DENIED")`;
  const report = await sandbox.run(python(source));
  t.equal(text(report.stderr), '');
  t.same(said(report).split('\n'), Array(tries.length + 3).fill('DENIED'));
});

t.test('limits of a process, and of the wall clock', async (t) => {
  const run = (source: string, limits: object) => sandbox.run(python(source, { limits }));
  const spin = await run('while True: pass', { cpu_ms: 500 });
  t.match(spin, { signal: 9 });
  t.ok(spin.cpu_us >= 500_000, `${spin.cpu_us}`);
  t.match(await run('import time; time.sleep(60)', { wall_ms: 200 }), {
    killed_for: 'wall',
    signal: 9,
  });
  const eater = await run('x = bytearray(400 << 20)', { memory_bytes: 64 * MiB });
  t.match(text(eater.stderr), /MemoryError/);
  const sharer = await run(SHARES, { memory_bytes: 64 * MiB, wall_ms: 60_000 });
  t.match(sharer, { killed_for: null, signal: 9 });
  t.ok(sharer.memory_peak_bytes > 64 * MiB, `${sharer.memory_peak_bytes}`);
  t.match(await run('open("f", "wb").write(b"x" * 9000000)', { disk_bytes: 4 * MiB }), {
    exit_code: 1,
  });
});

t.test('a run leaves nothing to the next one', async (t) => {
  const word = `79${process.pid}`;
  await sandbox.run(
    shell(`sleep ${word} & setsid sleep ${word} & echo x > mine; mkdir -p a/b; chmod 0 a`),
  );
  t.equal(running(`sleep ${word}`).length, 0);
  t.equal(said(await sandbox.run(shell('ls -A'))), '');
});

/** Without Landlock's scope for signals, which some kernels lack. */
t.test('a program cannot stop or end what ends it', { skip: not_root }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-launcher-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'filter.py'), FILTER_OF_LANDLOCK);
  const launcher = join(folder, 'launcher');
  writeFileSync(
    launcher,
    `#!/bin/sh\nexec /usr/bin/python3 ${folder}/filter.py ${LAUNCHER} "$@"\n`,
    {
      mode: 0o755,
    },
  );
  const own = { slots: 1, stream_slots: 0, isolation: 'rlimits', launcher } as const;
  const other = await withSandbox(own);
  t.teardown(other.close);
  for (const signal of ['SIGSTOP', 'SIGKILL']) {
    const source = SIGNALS_WHAT_COMES.replace('SIGNAL', signal);
    const limits = { wall_ms: 5_000, cpu_ms: 5_000 };
    for (let time = 0; time < 3; time++) {
      const report = await other.sandbox.run(python(source, { limits }));
      t.match({ ...report, said: said(report) }, { exit_code: 0, said: 'bye' }, signal);
    }
  }
  t.equal(said(await other.sandbox.run(shell('echo next'))), 'next');
});

t.test('a deep folder neither breaks its slot nor lasts', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-launcher-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const launcher = join(folder, 'launcher');
  writeFileSync(launcher, `#!/bin/sh\nulimit -n 512\nexec ${LAUNCHER} "$@"\n`, { mode: 0o755 });
  const other = await withSandbox({ slots: 1, stream_slots: 0, isolation: 'rlimits', launcher });
  const { groups, pid } = other.sandbox.isolation;
  const deep = await other.sandbox.run(
    python(DEEP, { limits: { cpu_ms: 60_000, wall_ms: 120_000 } }),
  );
  t.match({ ...deep, said: said(deep) }, { exit_code: 0, said: '1000' });
  const [slot] = childrenOf(pid);
  t.equal(said(await other.sandbox.run(shell('ls -A'))), '', 'the next run has an empty folder');
  t.same(childrenOf(pid), [slot], 'in the same slot');
  t.ok(await within(60_000, () => readdirSync(join(groups, 's0')).length === 0));
  await other.close();
  t.notOk(existsSync(groups));
});

t.test(
  'a file with the name of a control group file makes the launcher end no process',
  async (t) => {
    const word = `78${process.pid}`;
    const victim = spawn('sleep', ['1000']);
    t.teardown(() => victim.kill());
    const script = `echo ${victim.pid} > cgroup.procs; sleep ${word}`;
    const lost = sandbox.run(shell(script)).catch((error: Error) => error.name);
    t.ok(await within(60_000, () => running(`sleep ${word}`).length === 1));
    await killSlots(sandbox.isolation.pid);
    t.equal(await lost, 'SandboxFault');
    t.equal(said(await sandbox.run(shell('echo next'))), 'next');
    t.ok(isAlive(victim.pid!));
    for (const pid of running(`sleep ${word}`)) process.kill(pid, 'SIGKILL');
  },
);

t.test('its directories are removed when it closes', async (t) => {
  const other = await withSandbox({ slots: 1, stream_slots: 0, isolation: 'rlimits' });
  const { groups } = other.sandbox.isolation;
  await other.sandbox.run(shell('echo x > mine'));
  await other.close();
  t.notOk(existsSync(groups));
});

t.test('a link with the name of its directories leads it nowhere', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-foreign-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'of_others'));
  // Of those that launchers sweep, the last ones: no launcher takes them.
  const names = [63, 62, 61].map((number) => `/tmp/runledger.${number}`);
  const link = names.find((name) => !existsSync(name))!;
  symlinkSync(folder, link);
  t.teardown(() => rmSync(link));
  const other = await withSandbox({ slots: 1, stream_slots: 0, isolation: 'rlimits' });
  t.teardown(other.close);
  t.equal(said(await other.sandbox.run(shell('echo fine'))), 'fine');
  t.same(readdirSync(folder), ['of_others']);
});
