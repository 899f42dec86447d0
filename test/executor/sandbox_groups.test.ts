/** The launcher's groups below one of the test's own (v1: of the memory and the pids hierarchy): it is crowded, or it is full. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t from 'tap';
import { LAUNCHER, MiB, shell, withSandbox } from './box.ts';
import { childrenOf, within } from './processes.ts';

const PYTHON = '/usr/bin/python3';
const MARKS_AS_DELEGATED = 'import os, sys; os.setxattr(sys.argv[1], "trusted.delegate", b"1")';

const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0 });
const { kind, groups, degraded } = sandbox.isolation;
await close();
const skip = degraded && 'this machine has no control groups';

const group = join(dirname(groups), `test.${process.pid}`);
/** Where the number of processes is limited. */
const crowd = kind === 'v1' ? join(pidsGroup(), `test.${process.pid}`) : group;
/** Where the launcher begins; in v2 it makes its groups beside this one. */
const entered = kind === 'v1' ? [group, crowd] : [join(group, 'runledger.worker')];
const folder = await mkdtemp(join(tmpdir(), 'runledger-launcher-'));
const launcher = join(folder, 'launcher');
if (!degraded) {
  for (const path of entered) mkdirSync(path, { recursive: true });
  t.teardown(() => within(60_000, isRemoved));
  // Else the launcher of root takes the top.
  if (kind === 'v2') execFileSync(PYTHON, ['-c', MARKS_AS_DELEGATED, group]);
}
t.teardown(() => rmSync(folder, { recursive: true }));
writeFileSync(
  launcher,
  `#!/bin/sh\nset -e\n${entered.map((path) => `echo $$ > ${path}/cgroup.procs\n`).join('')}exec ${LAUNCHER} "$@"\n`,
  {
    mode: 0o755,
  },
);

/** v1: this process's. */
function pidsGroup(): string {
  const one = (file: string, line: RegExp) => line.exec(readFileSync(file, 'utf8'))![1]!;
  const mounted = one('/proc/self/mountinfo', /^(?:\S+ ){4}(\S+) .* - cgroup .*\bpids\b/m);
  return join(mounted, one('/proc/self/cgroup', /:pids:(.*)/));
}

/** What was killed in a group may take a moment to end. */
function isRemoved(): boolean {
  for (const path of [...entered, group])
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
