/** The launcher's groups below one of the test's own: it is crowded, or it is full, or another launcher has another one. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import t from 'tap';
import { childrenOf } from '../support/processes.ts';
import { LAUNCHER, MiB, said, shell, withSandbox } from './box.ts';
import { running, within } from './processes.ts';

const PYTHON = '/usr/bin/python3';
/** Those of v1 that a launcher uses; the first limits processes. */
const CONTROLLERS = ['pids', 'memory', 'cpuacct', 'cpu'];
const MARKS_AS_DELEGATED = 'import os, sys; os.setxattr(sys.argv[1], "trusted.delegate", b"1")';

const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0 });
const { kind, groups, degraded } = sandbox.isolation;
await close();
const skip = degraded && 'this machine has no control groups';

const folder = await mkdtemp(join(tmpdir(), 'runledger-launcher-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const { group, crowd, launcher } = launcherBelow('one');

/** A launcher that starts in a group of its own. `crowd`: where the number of its processes is limited. */
function launcherBelow(name: string) {
  const path = `test.${process.pid}.${name}`;
  const group = join(dirname(groups), path);
  const of_v1 = kind === 'v1' ? CONTROLLERS.flatMap(ownGroup).map((own) => join(own, path)) : [];
  const crowd = of_v1[0] ?? group;
  /** Where it begins; in v2 it makes its groups beside this one. */
  const entered = kind === 'v1' ? [...new Set(of_v1)] : [join(group, 'runledger.worker')];
  const launcher = join(folder, name);
  if (!degraded) {
    for (const path of entered) mkdirSync(path, { recursive: true });
    t.teardown(() => within(60_000, () => isRemoved([...entered, group])));
    // Else the launcher of root takes the top.
    if (kind === 'v2') execFileSync(PYTHON, ['-c', MARKS_AS_DELEGATED, group]);
  }
  const enter = entered.map((path) => `echo $$ > ${path}/cgroup.procs\n`).join('');
  const script = `#!/bin/sh\nset -e\n${enter}exec ${LAUNCHER} "$@"\n`;
  writeFileSync(launcher, script, { mode: 0o755 });
  return { group, crowd, launcher };
}

/** v1: this process's group, if the controller is mounted. */
function ownGroup(controller: string): string[] {
  const one = (file: string, line: string) =>
    new RegExp(line, 'm').exec(readFileSync(file, 'utf8'))?.[1];
  const mounted = one(
    '/proc/self/mountinfo',
    `^(?:\\S+ ){4}(\\S+) .* - cgroup .*\\b${controller}\\b`,
  );
  const own = one('/proc/self/cgroup', `^\\d+:(?:.*,)?${controller}(?:,.*)?:(.*)`);
  return mounted && own ? [join(mounted, own)] : [];
}

/** What was killed in a group may take a moment to end. */
function isRemoved(paths: readonly string[]): boolean {
  for (const path of paths)
    try {
      rmdirSync(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return false;
    }
  return true;
}

/**
 * The first process of a process namespace. It fills a group with so many processes that the list of their numbers is cut
 * off: each number has five digits and begins with a 2, and a process outside the group has the number 2.
 */
const FILLS_GROUP = `
import os, signal, subprocess, sys
group, launcher = sys.argv[1:]
left = group + "/runledger.63/s0"
os.makedirs(left)
two = os.fork()
if two == 0:
    signal.pause()
open("/proc/sys/kernel/ns_last_pid", "w").write("20000")
filled, fills = os.pipe()
if os.fork() == 0:
    open(left + "/cgroup.procs", "w").write("0")
    for _ in range(1500):
        if os.fork() == 0:
            signal.pause()
    os.write(fills, b"x")
    signal.pause()
os.read(filled, 1)
subprocess.run([launcher, "--probe"], stdout=subprocess.DEVNULL, check=True)
print(two, os.path.exists(left), os.waitpid(two, os.WNOHANG))
`;

// v2 ends a group's processes without a list of them.
const not_v1 = kind !== 'v1' && 'only with control groups v1';
t.test('a launcher that sweeps a crowded group ends nothing outside it', { skip: not_v1 }, (t) => {
  const inNamespace = ['--pid', '--fork', '--kill-child', '--mount-proc', PYTHON, '-c'];
  const printed = execFileSync('unshare', [...inNamespace, FILLS_GROUP, group, launcher]);
  t.equal(printed.toString(), '2 False (0, 0)\n');
  t.end();
});

const limitOf = (bytes: number) =>
  writeFileSync(join(group, kind === 'v1' ? 'memory.limit_in_bytes' : 'memory.max'), `${bytes}`);
const takes = (mib: number) => `${PYTHON} -c 'x = b"x" * (${mib} << 20)'`;

t.test(
  'who is killed for want of memory has exceeded its limit, or nothing',
  { skip },
  async (t) => {
    const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0, launcher });
    t.teardown(close);
    limitOf(128 * MiB);
    const run = (script: string, memory_bytes: number) =>
      sandbox.run(shell(script, { limits: { memory_bytes } })).catch((error: Error) => error);
    const fault = { name: 'SandboxFault', kind: 'out_of_memory', message: /out of memory/ };
    for (let round = 0; round < 2; round++) {
      t.match(await run(`exec ${takes(200)}`, 256 * MiB), fault, 'the group around it is full');
      t.match(await run(`${takes(200)}; echo`, 256 * MiB), fault, 'and only its child is killed');
      const own = await run(`exec ${takes(200)}`, 64 * MiB);
      t.match(own, { signal: 9, oom_kills: 1 }, 'its own group is full');
      t.match(await run(`exec ${takes(20)}`, 64 * MiB), { exit_code: 0, oom_kills: 0 });
    }
  },
);

t.test(
  'a machine without room for a process is waited for, and blamed on nobody',
  { skip },
  async (t) => {
    const said: string[] = [];
    const { sandbox, close } = await withSandbox({
      ...{ slots: 1, stream_slots: 0, launcher, zygote: null },
      log: (line) => said.push(line),
    });
    t.teardown(close);
    const most = (processes: number | 'max') =>
      writeFileSync(join(crowd, 'pids.max'), `${processes}`);
    t.teardown(() => most('max'));
    const { pid } = sandbox.isolation;
    const run = () => sandbox.run(shell('exit 9')).catch((error: Error) => error);
    t.match(await run(), { exit_code: 9 });
    const [slot] = childrenOf(pid);
    most(0);
    // The process of the next run may be there already.
    let how = await run();
    while (!(how instanceof Error)) how = await run();
    const no_room = { name: 'SandboxFault', kind: 'no_room', message: /temporarily unavailable/ };
    t.match(how, no_room);
    // The slot ended with it, and cannot be started either.
    t.ok(await within(60_000, () => said.some((line) => /cannot start|fork a slot/.test(line))));
    t.not(childrenOf(pid)[0], slot);
    const waits = { name: 'SandboxFault', kind: 'no_room', message: /cannot start a slot/ };
    t.match(await run(), waits, 'no request waits for a slot that cannot be started');
    most('max');
    let next = await run();
    while (next instanceof Error) next = await run();
    t.match(next, { exit_code: 9 });
    t.equal(sandbox.isolation.pid, pid, 'the launcher is the same');
  },
);

const SLEEPING = 200;
const SLEEPER = `sleep 3217.${process.pid}`;
const SLEEPERS = `i=0; while [ $i -lt ${SLEEPING} ]; do ${SLEEPER} & i=$((i+1)); done; wait`;

/** In a user namespace, all slots have the same id. */
const not_root = degraded || kind === 'v2-user' ? 'only as root with control groups' : false;

/** As in two containers: each launcher has the first instance of its base, and neither sees the other's groups. */
t.test('launchers with different groups have different ids', { skip: not_root }, async (t) => {
  const another = launcherBelow('other').launcher;
  const first = await withSandbox({ slots: 1, stream_slots: 0, launcher });
  t.teardown(first.close);
  const second = await withSandbox({ slots: 1, stream_slots: 0, launcher: another });
  t.teardown(second.close);
  const [one, other] = [first, second].map(({ sandbox: { isolation } }) => isolation.groups);
  t.same(
    [one, other].map((path) => basename(path!)),
    ['runledger.0', 'runledger.0'],
  );
  const limits = { processes: SLEEPING + 10, wall_ms: 600_000 };
  const end = new AbortController();
  const hostile = first.sandbox.run(shell(SLEEPERS, { limits }), end).catch((error) => error);
  const full = () => running(SLEEPER).length === SLEEPING;
  t.ok(await within(240_000, full), 'a slot of the first launcher is full of processes');
  const id = async ({ sandbox }: typeof first) => said(await sandbox.run(shell('id -u')));
  const honest = await id(second);
  end.abort();
  t.match(await hostile, { kind: 'cancelled' });
  t.match(honest, /^[1-9]\d+$/);
  t.not(await id(first), honest);
});

t.test(
  'a machine without room for a program is blamed on nobody',
  { skip: not_root },
  async (t) => {
    const few = join(folder, 'few');
    writeFileSync(few, `#!/bin/sh\nexec prlimit --nproc=0:0 ${LAUNCHER} "$@"\n`, { mode: 0o755 });
    const { sandbox, close } = await withSandbox({
      ...{ slots: 1, stream_slots: 0, launcher: few, zygote: null },
    });
    t.teardown(close);
    const run = () => sandbox.run(shell('exec id -u'));
    const uid = Number(said(await run()));
    const another = spawn('sleep', ['600'], { uid, stdio: 'ignore' });
    t.teardown(() => another.kill('SIGKILL'));
    await once(another, 'spawn');
    await t.rejects(run(), { name: 'SandboxFault', kind: 'no_room', message: /cannot execute/ });
  },
);
