/** Runs that are forked from a warm interpreter: as confined, as limited and as measured as the plain ones. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type RunReport, type Sandbox, SandboxFault } from '../../src/executor/sandbox.ts';
import { BASE_ENVIRONMENT } from '../../src/languages/common/box.ts';
import { childrenOf } from '../support/processes.ts';
import { LAUNCHER, MiB, python, said, shell, text, withSandbox } from './box.ts';
import { commandOf, pids, running, within } from './processes.ts';

const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0 });
t.teardown(close);

type Parts = Parameters<typeof python>[1];
const forked = (source: string, parts: Parts = {}, account = 'one') =>
  python(source, { ...parts, zygote: { account } });

const IS_WARM = 'import sys; print("decimal" in sys.modules)';

/** Runs until a run was forked: the slot warms its interpreters in its pauses. */
async function warm(box: Sandbox, account = 'one', parts: Parts = {}): Promise<boolean> {
  for (let tries = 0; tries < 200; tries++) {
    if (said(await box.run(forked(IS_WARM, parts, account))) === 'True') return true;
    await sleep(10);
  }
  return false;
}

t.test('a run is forked once an interpreter is warm, and shows nothing of it', async (t) => {
  t.ok(await warm(sandbox));
  const source = `
import os, sys
print(sys.argv, __name__, __file__, os.getpid(), os.getppid(), os.getcwd(), sorted(os.environ))
print([line for line in open("/proc/self/status") if line.startswith(("Cap", "NoNewPrivs", "Seccomp:", "Groups", "Uid"))])
print(open("/proc/self/cmdline").read(), open("/proc/self/environ").read().rstrip(chr(0)))
print(sorted(os.listdir("/")), sorted(os.listdir("/proc/self/fd")), oct(os.umask(0)), input())
print(open("/proc/self/oom_score_adj").read(), os.getsid(0), os.getpgid(0), os.getgroups())
import resource
print([resource.getrlimit(n) for n in range(16)])
1 / 0`;
  const [warmly, plain] = [
    await sandbox.run(forked(source, { stdin: 'in\n' })),
    await sandbox.run(python(source, { stdin: 'in\n' })),
  ];
  t.equal(text(warmly.stdout), text(plain.stdout));
  t.equal(text(warmly.stderr), text(plain.stderr));
  t.equal(warmly.exit_code, plain.exit_code);
});

t.test('a thread of a forked run can signal the main thread', async (t) => {
  t.ok(await warm(sandbox));
  const source = `
import signal, sys, threading
came = threading.Event()
signal.signal(signal.SIGUSR1, lambda number, frame: came.set())
main = threading.main_thread().ident
threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGUSR1)).start()
print(came.wait(60), threading.get_native_id(), "decimal" in sys.modules)`;
  const warmly = await sandbox.run(forked(source));
  t.equal(said(warmly), 'True 2 True', text(warmly.stderr));
  t.equal(said(await sandbox.run(python(source))), 'True 2 False');
});

t.test('libc knows on which processor a forked run is', async (t) => {
  t.ok(await warm(sandbox));
  // The kernel writes the processor to memory that libc has registered. Other memory is then refused: EINVAL is 22.
  const source = `
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
rseq = {"x86_64": 334, "aarch64": 293}[os.uname().machine]
memory = ctypes.create_string_buffer(128)
at = ctypes.addressof(memory) + 63 & ~63
answer = libc.syscall(rseq, ctypes.c_void_p(at), 32, 0, 1)
registered = not hasattr(libc, "__rseq_size") or (answer, ctypes.get_errno()) == (-1, 22)
print(registered, "decimal" in sys.modules)`;
  const warmly = await sandbox.run(forked(source));
  t.equal(said(warmly), 'True True', text(warmly.stderr));
});

t.test('the interpreter is in the memory of a forked run as of a plain one', async (t) => {
  await warm(sandbox);
  for (const source of ['print(1)', 'x = bytearray(20 << 20)']) {
    const warmly = await sandbox.run(
      forked(`${source}\nimport sys; print("decimal" in sys.modules)`),
    );
    const plain = await sandbox.run(python(source));
    t.match(text(warmly.stdout), 'True', 'it was forked');
    const apart = warmly.memory_peak_bytes - plain.memory_peak_bytes;
    t.ok(Math.abs(apart) < 2 * MiB, `${warmly.memory_peak_bytes} and ${plain.memory_peak_bytes}`);
    await warm(sandbox);
  }
});

/**
 * Writes to every private page that is there when it starts, what it holds. In one call: the interpreter itself changes its
 * pages between two.
 */
const TOUCH = `
import ctypes, time
for line in open("/proc/self/maps"):
  words = line.split()
  if words[1] != "rw-p" or len(words) > 5 and words[5].startswith("/"): continue
  start, end = (int(word, 16) for word in words[0].split("-"))
  if end - start < 64 << 20:
    for at in range(start, end, 4096): ctypes.memmove(at, at, 1)
`;

t.test('a page that a forked run copies counts once', async (t) => {
  t.ok(await warm(sandbox));
  // The estimate is made every 20 ms.
  const source = `${TOUCH}time.sleep(3)\n${IS_WARM}`;
  const warmly = await sandbox.run(forked(source));
  const plain = await sandbox.run(python(source));
  t.equal(said(warmly), 'True');
  const over = warmly.memory_peak_bytes - plain.memory_peak_bytes;
  // The modules that are imported in advance take 2.5 MiB, the interpreter takes 3.
  t.ok(over < 3.5 * MiB && over > -MiB, `${warmly.memory_peak_bytes} ${plain.memory_peak_bytes}`);
});

t.test('a run with a small memory limit is plain', async (t) => {
  t.ok(await warm(sandbox));
  const isForked = async (memory_bytes: number) =>
    said(await sandbox.run(forked(IS_WARM, { limits: { memory_bytes } })));
  t.equal(await isForked(64 * MiB - 1), 'False');
  t.equal(await isForked(64 * MiB), 'True');
});

t.test('the limits hold', async (t) => {
  await warm(sandbox);
  const run = (source: string, limits: NonNullable<Parts>['limits'] = {}) =>
    sandbox.run(forked(source, { limits }));
  t.match(await run('while True: pass', { cpu_ms: 100 }), { killed_for: 'cpu' });
  await warm(sandbox);
  t.match(await run('import time; time.sleep(60)', { wall_ms: 100 }), { killed_for: 'wall' });
  await warm(sandbox);
  t.match(await run('print("x" * 100000)', { stdout_bytes: 1000 }), { killed_for: 'output' });
  await warm(sandbox);
  // What is read from the disk is charged to who reads it first (v1: the zygote), and goes first when memory is short.
  const eater = await run('x = bytearray(400 << 20)', { memory_bytes: 64 * MiB });
  t.match(eater, { signal: 9, killed_for: null });
  t.ok(eater.oom_kills >= 1);
  const over = eater.memory_peak_bytes - 64 * MiB;
  t.ok(over < 4 * MiB && over > -8 * MiB, `${eater.memory_peak_bytes}`);
  await warm(sandbox);
  const forks = await run(
    'import os\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: os.read(0, 1) or os._exit(0)\n    n += 1\nexcept OSError as e: print(n, e.errno)',
    { processes: 10 },
  );
  t.equal(said(forks), '9 11');
  await warm(sandbox);
  t.match(await run('open("f", "wb").write(b"x" * 9000000)', { disk_bytes: 4 * MiB }), {
    exit_code: 1,
  });
});

/** Runs of one interpreter have one seed. */
const SEED = 'import sys; print(hash("x"), "decimal" in sys.modules)';

const ENDINGS: readonly { how: string; source: string; parts?: Parts; seen: object }[] = [
  {
    how: 'a run that the launcher ended',
    source: 'while True: pass',
    parts: { limits: { cpu_ms: 100 } },
    seen: { killed_for: 'cpu' },
  },
  {
    how: 'a run that met its memory limit',
    source: 'x = bytearray(400 << 20)',
    parts: { limits: { memory_bytes: 64 * MiB } },
    seen: { signal: 9 },
  },
  {
    how: 'a run that killed all that it could',
    source: 'import os\nfor n in range(1, 100):\n  if os.fork() == 0: os.kill(-1, 9)',
    parts: { limits: { processes: 8 } },
    seen: { killed_for: null },
  },
  {
    how: 'a run whose box could not be made, after its orders came',
    source: 'print(1)',
    parts: {
      files: [{ path: 'large', bytes: Buffer.alloc(2 * MiB) }],
      limits: { disk_bytes: MiB },
    },
    seen: { name: 'SandboxFault' },
  },
];

for (const { how, source, parts = {}, seen } of ENDINGS)
  t.test(`the same interpreter forks the run after ${how}`, async (t) => {
    const seeds: string[] = [];
    // One that has served for half a minute is replaced: then once more.
    for (let tries = 0; tries < 5 && (tries === 0 || seeds.at(-1) !== seeds.at(-2)); tries++) {
      t.ok(await warm(sandbox));
      seeds.push(said(await sandbox.run(forked(SEED))));
      t.match(await sandbox.run(forked(source, parts)).catch((error: unknown) => error), seen);
      seeds.push(said(await sandbox.run(forked(SEED))));
    }
    t.match(seeds.at(-1), / True$/);
    t.equal(seeds.at(-1), seeds.at(-2));
  });

t.test('the work directory is as large as asked for, whatever the run before had', async (t) => {
  const source = `
import re
for line in open("/proc/self/mountinfo"):
  print(re.sub(r"^\\d+ \\d+ \\S+", "", line), end="")
for n in range(100):
  open(f"{n}", "wb").write(b"x" * 1000000)`;
  for (const limits of [
    {},
    { disk_bytes: 4 * MiB },
    {},
    { inodes: 40 },
    { disk_bytes: 2 * MiB, inodes: 50 },
  ]) {
    t.ok(await warm(sandbox));
    const warmly = await sandbox.run(forked(`${source}  # ${IS_WARM}`, { limits }));
    const plain = await sandbox.run(python(`${source}  # ${IS_WARM}`, { limits }));
    t.equal(text(warmly.stdout), text(plain.stdout));
    t.equal(text(warmly.stderr), text(plain.stderr));
    t.equal(warmly.exit_code, 1);
  }
});

t.test('an account never gets the interpreter of another', async (t) => {
  const seeds = new Map<string, string>();
  for (const account of ['one', 'two', 'one', 'three']) {
    t.ok(await warm(sandbox, account));
    const [hash = '', warmth] = said(await sandbox.run(forked(SEED, {}, account))).split(' ');
    t.equal(warmth, 'True');
    t.notOk(
      [...seeds].some(([other, used]) => other !== account && used === hash),
      'a seed of its own',
    );
    seeds.set(account, hash);
  }
});

/** The seeds that the accounts see, one after the other, when every one of them has an interpreter. */
async function seedsInTurn(box: Sandbox, accounts: readonly string[]): Promise<string[]> {
  const seeds: string[] = [];
  for (const account of accounts) seeds.push(said(await box.run(forked(SEED, {}, account))));
  return seeds;
}

t.test('accounts that take turns keep their interpreters', async (t) => {
  const other = await withSandbox({ slots: 1, stream_slots: 0 });
  t.teardown(other.close);
  const turns = ['one', 'two', 'three', 'one', 'two', 'three', 'three', 'one'];
  let seeds: string[] = [];
  const ofAccount = (account: string) => new Set(seeds.filter((_, n) => turns[n] === account));
  const areKept = () => ['one', 'two', 'three'].every((account) => ofAccount(account).size === 1);
  // One that has served for half a minute is replaced: then once more.
  for (let tries = 0; tries < 5 && (tries === 0 || !areKept()); tries++) {
    for (const account of ['one', 'two', 'three']) t.ok(await warm(other.sandbox, account));
    seeds = await seedsInTurn(other.sandbox, turns);
  }
  t.ok(areKept(), `${seeds}`);
  t.ok(seeds.every((seed) => / True$/.test(seed)));
  t.equal(new Set(seeds).size, 3, 'and none has that of another');
});

t.test('a program cannot end or see the interpreter of another account', async (t) => {
  const other = await withSandbox({ slots: 1, stream_slots: 0 });
  t.teardown(other.close);
  const hostile = `
import os, sys
print([pid for pid in range(1, 100000) if os.path.exists(f"/proc/{pid}")])
sys.stdout.flush()
for n in range(1, 200):
  try:
    if os.fork() == 0: os.kill(-1, 9)
  except OSError: pass`;
  let seeds: string[] = [];
  for (let tries = 0; tries < 5 && (tries === 0 || seeds[0] !== seeds[1]); tries++) {
    for (const account of ['two', 'one']) t.ok(await warm(other.sandbox, account));
    const [before] = await seedsInTurn(other.sandbox, ['one']);
    t.ok(await warm(other.sandbox, 'two'));
    const limits = { processes: 8 };
    const hostiles = await other.sandbox.run(forked(hostile, { limits }, 'two'));
    t.match(said(hostiles), /^\[2\]/);
    seeds = [before!, ...(await seedsInTurn(other.sandbox, ['one']))];
  }
  t.match(seeds[0], / True$/);
  t.equal(seeds[0], seeds[1], 'it lives on');
});

/** How many children it may have, and whether it was forked. */
const COUNT_CHILDREN = `
import os, sys, time
n = 0
try:
  while n < 50:
    if os.fork() == 0: time.sleep(100)
    n += 1
except OSError: pass
print(n, "decimal" in sys.modules)
sys.stdout.flush(); os.kill(-1, 9)`;

t.test('a box that dies while it is given up leaves no other behind', async (t) => {
  const other = await withSandbox({ slots: 1, stream_slots: 0 });
  t.teardown(other.close);
  const slot = () => childrenOf(other.sandbox.isolation.pid)[0] ?? 0;
  const first = slot();
  /** The zygote that has a box, and the program's process that waits there. */
  const waiting = () =>
    childrenOf(slot())
      .flatMap((zygote) => childrenOf(zygote).map((init) => ({ zygote, init })))
      .flatMap(({ zygote, init }) => childrenOf(init).map((program) => ({ zygote, program })))[0];
  const count = async (account: string) =>
    said(await other.sandbox.run(forked(COUNT_CHILDREN, { limits: { processes: 8 } }, account)));
  for (let tries = 0; tries < 3; tries++) {
    for (const account of ['one', 'two', 'one']) t.ok(await warm(other.sandbox, account));
    t.ok(await within(60_000, () => waiting() !== undefined));
    const { zygote, program } = waiting()!;
    // The zygote learns only later that its box is dead. It must not take the word that was for the box as one for itself.
    process.kill(zygote, 'SIGSTOP');
    process.kill(program, 'SIGKILL');
    await sleep(50);
    const counted = count('two');
    await sleep(200);
    process.kill(zygote, 'SIGCONT');
    t.equal(await counted, '7 True');
    for (const account of ['one', 'two']) {
      t.ok(await warm(other.sandbox, account));
      t.equal(await count(account), '7 True');
    }
  }
  t.equal(slot(), first, 'the slot lives on');
});

t.test('more accounts than a slot has interpreters for are served, too', async (t) => {
  const other = await withSandbox({ slots: 1, stream_slots: 0 });
  t.teardown(other.close);
  const accounts = Array.from({ length: 12 }, (_, n) => `account${n}`);
  const slot = childrenOf(other.sandbox.isolation.pid)[0] ?? 0;
  const zygotes = () => childrenOf(slot).filter((pid) => /main\.py/.test(commandOf(pid))).length;
  t.ok(await warm(other.sandbox, accounts[0]!));
  let forks = 0;
  for (let round = 0; round < 6; round++)
    for (const account of accounts) {
      const source = `print("${account}")\n${IS_WARM}`;
      const [name, warmth] = text((await other.sandbox.run(forked(source, {}, account))).stdout)
        .trim()
        .split('\n');
      t.equal(name, account);
      if (warmth === 'True') forks += 1;
      // The current one, four for others, and a spare.
      t.ok(zygotes() <= 6, `${zygotes()} interpreters`);
    }
  t.ok(forks > 0, 'some were forked');
});

t.test('random numbers, files and processes of the run before are not there', async (t) => {
  await warm(sandbox);
  const source = `
import os, random, subprocess
found = [sorted(os.listdir(folder)) for folder in ("/box", "/tmp", "/dev/shm")]
found.append(len([p for p in os.listdir("/proc") if p.isdigit()]))
open("/box/mine", "w"); open("/tmp/mine", "w"); open("/dev/shm/mine", "w")
if os.fork() == 0:
    os.setsid(); os.execv("/usr/bin/sleep", ["sleep", "4242"])
print(random.random(), found)`;
  const runs = [];
  for (let i = 0; i < 3; i++) runs.push(said(await sandbox.run(forked(source))));
  t.equal(new Set(runs.map((run) => run.split(' ')[0])).size, 3);
  const found = runs.map((run) => run.slice(run.indexOf(' ') + 1));
  t.equal(new Set(found).size, 1, `${found}`);
  t.notMatch(found[0], /mine/);
  t.ok(await within(60_000, () => running('sleep 4242').length === 0));
});

t.test('whatever dies, the next run is right', async (t) => {
  const zygotes = () =>
    childrenOf(childrenOf(sandbox.isolation.pid)[0] ?? 0).filter((pid) =>
      /python3/.test(commandOf(pid)),
    );
  t.ok(await warm(sandbox));
  for (const pid of zygotes()) process.kill(pid, 'SIGKILL');
  // It may have had the orders before it died: then that is a fault.
  const how = await sandbox.run(forked('exit(5)')).catch((error: unknown) => error);
  t.ok(how instanceof SandboxFault || (how as RunReport).exit_code === 5);
  t.ok(await warm(sandbox), 'a new one is warmed');
  const word = `77${process.pid}`;
  const end = sandbox
    .run(forked(`import os; os.execv("/usr/bin/sleep", ["sleep", "${word}"])`))
    .catch((error: unknown) => error);
  t.ok(await within(60_000, () => running(`sleep ${word}`).length === 1));
  for (const pid of zygotes()) process.kill(pid, 'SIGKILL');
  t.match(await end, SandboxFault, 'a fault, and no verdict');
  t.ok(await within(60_000, () => running(`sleep ${word}`).length === 0));
  t.match(await sandbox.run(forked('exit(6)')), { exit_code: 6 });
});

t.test('a slot without requests keeps one interpreter, which has served nobody', async (t) => {
  const other = await withSandbox({ slots: 1, stream_slots: 0 });
  t.teardown(other.close);
  const slot = childrenOf(other.sandbox.isolation.pid)[0] ?? 0;
  const zygotes = () => childrenOf(slot).filter((pid) => /main\.py/.test(commandOf(pid)));
  t.ok(await warm(other.sandbox, 'before'));
  t.ok(await warm(other.sandbox));
  t.ok(await within(60_000, () => zygotes().length === 3), 'two that serve, and a spare');
  const [first] = zygotes();
  const isRetired = () => !zygotes().includes(first!) && zygotes().length === 1;
  t.ok(await within(90_000, isRetired), 'half a minute after its first run it serves no more');
  const said_now = said(await other.sandbox.run(forked(IS_WARM, {}, 'two')));
  t.equal(said_now, 'True', 'the spare serves the next request, whosever it is');
});

/** A first process that starts the launcher and reaps no other process, as in a container without an init. */
const NEVER_REAPS = `const { spawnSync } = require('node:child_process');
const [launcher, ...rest] = process.argv.slice(1);
process.exit(spawnSync(launcher, rest, { stdio: [0, 1, 2, 3] }).status ?? 1);`;

t.test(
  'the slot reaps what a retired interpreter leaves, whatever the first process is',
  { skip: process.getuid!() !== 0 && 'only root makes a pid namespace here' },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'runledger-first-'));
    const launcher = join(folder, 'launcher');
    const words = ['--pid', '--fork', '--mount-proc', '--kill-child', process.execPath, '-e'];
    const command = [...words, `'${NEVER_REAPS.replaceAll("'", `'\\''`)}'`, LAUNCHER].join(' ');
    await writeFile(launcher, `#!/bin/sh\nexec unshare ${command} "$@"\n`, { mode: 0o755 });
    const zygote = join(dirname(LAUNCHER), 'zygote.so');
    const inside = await withSandbox({ slots: 1, stream_slots: 0, launcher, zygote });
    t.teardown(async () => {
      await inside.close();
      await rm(folder, { recursive: true, force: true });
    });
    const command_line = `${process.execPath} -e ${NEVER_REAPS} ${LAUNCHER} `;
    const first = () => pids().filter((pid) => commandOf(pid).startsWith(command_line));
    t.equal(first().length, 1);
    const slots = () => first().flatMap(childrenOf).flatMap(childrenOf);
    const before = slots();
    // Another environment needs another interpreter, and ends those that there are.
    for (const word of ['one', 'two', 'one'])
      for (const account of ['one', 'two'])
        t.ok(await warm(inside.sandbox, account, { env: { ...BASE_ENVIRONMENT, WORD: word } }));
    t.same(slots(), before, 'the slot has found its group empty each time');
    t.equal(first().flatMap(childrenOf).length, 1, 'nobody is left to the first process');
  },
);

t.test('interpreters are warmed again after starts that failed', async (t) => {
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  const other = await withSandbox({ slots: 1, stream_slots: 0, log });
  t.teardown(other.close);
  await other.sandbox.run(forked(IS_WARM));
  const slot = childrenOf(other.sandbox.isolation.pid)[0] ?? 0;
  const starting = () => childrenOf(slot).filter((pid) => /main\.py/.test(commandOf(pid)));
  const failures = () => lines.filter((line) => line.includes('could not be started in advance'));
  const pauses = () => failures().map((line) => / in (\d+) s$/.exec(line)?.[1]);
  // Each is killed before it is warm, unless it is very quick. Then the next run finds that it is gone, and the pauses begin again.
  const ends = Date.now() + 240_000;
  for (let again = 0; !/1 2 4/.test(pauses().join(' ')) && Date.now() < ends; ) {
    const killed = starting();
    for (const pid of killed) process.kill(pid, 'SIGKILL');
    if (killed.length > 0) again = Date.now() + 6_000;
    else if (Date.now() > again) await other.sandbox.run(forked(IS_WARM));
    await sleep(1);
  }
  t.match(pauses().join(' '), /1 2 4/);
  while (!(await warm(other.sandbox)) && Date.now() < ends) await sleep(100);
  t.ok(await warm(other.sandbox), 'and then one is warm');
});

t.test('without an interpreter that can be warmed, runs are plain', async (t) => {
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  const other = await withSandbox({ slots: 1, stream_slots: 0, zygote: '/bin/true', log });
  t.teardown(other.close);
  for (let i = 0; i < 5; i++) {
    t.equal(said(await other.sandbox.run(forked(IS_WARM))), 'False');
    await sleep(20);
  }
  t.match(await other.sandbox.run(shell('exit 3')), { exit_code: 3 });
  t.same(
    lines.filter((line) => !line.includes('could not be started in advance')),
    [],
  );
});
