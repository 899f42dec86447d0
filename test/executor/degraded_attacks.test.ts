/**
 * Degraded isolation, attacked: a program tries everything that a user may do to processes and files of his own, to those
 * of the worker's user. As root both kinds are tested: programs with another user id than the worker's, and programs
 * with the worker's own. An ordinary user has only the second kind.
 */
import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { constants, getPriority } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import type { Sandbox } from '../../src/executor/sandbox.ts';
import { LAUNCHER, MiB, python, ROOT, request, said, shell, text, withSandbox } from './box.ts';
import { commandOf, isAlive, killSlots, pids, running, within } from './processes.ts';

const ATTACK = readFileSync(join(import.meta.dirname, 'same_user.py'), 'utf8');
/** The kernel counts the processes of a user, so no other test has this one. */
const ORDINARY = 4_242;
const SECRET = 'a secret of the worker';
/** No limit for what a busy machine needs. */
const PATIENT = { wall_ms: 300_000, cpu_ms: 60_000 };
/**
 * Calls that may succeed without an effect: the kernel decides for each process that a signal would reach, and the filter
 * answers what would place a process on a processor, and what changes an open file.
 */
const MAY_SUCCEED = [
  'signal by a pipe',
  'signal everything',
  'change a scheduler',
  'pin to a processor',
  'change a mode by descriptor',
  'change an owner by descriptor',
  'change times by descriptor',
];
/** With another user id, this reaches only the program's own processes and files. */
const OWN_USER = [
  'lower all priorities',
  'empty an own file in the first way',
  'empty an own file in the second way',
];

const isRoot = process.getuid!() === 0;
const kinds = isRoot ? ['another', 'own'] : ['own'];

/** The worker's user runs commands: root with the rights that a container gives, or an ordinary user. */
function asUser(kind: string): string[] {
  const id =
    kind === 'own' && isRoot
      ? [`--reuid=${ORDINARY}`, `--regid=${ORDINARY}`, '--clear-groups']
      : isRoot
        ? ['--bounding-set=-sys_ptrace,-sys_resource', '--inh-caps=-sys_ptrace,-sys_resource']
        : [];
  return ['setpriv', '--pdeathsig=KILL', ...id, '--'];
}

for (const kind of kinds)
  t.test(`programs with ${kind === 'own' ? "the worker's" : 'another'} user id`, async (t) => {
    const folder = await aFolder(t, kind);
    const launcher = join(folder, 'launcher');
    const tool = join(folder, 'tool');
    writeFileSync(launcher, `#!/bin/sh\nexec ${asUser(kind).join(' ')} ${LAUNCHER} "$@"\n`, {
      mode: 0o755,
    });
    const { sandbox, close } = await withSandbox({
      launcher,
      slots: 2,
      stream_slots: 0,
      isolation: 'rlimits',
      store_dir: join(folder, 'store'),
      profiles: { base: { ...ROOT, mounts: [...ROOT.mounts, { from: tool, to: tool }] } },
    });
    t.teardown(close);

    t.test('nothing of the worker, its user, or another run can be read or changed', (t) =>
      attacked(t, kind, folder, sandbox),
    );

    t.test('an honest program does the same to itself', async (t) => {
      const report = await sandbox.run(python(HONEST));
      t.equal(text(report.stderr), '');
      t.same(said(report).split('\n'), [
        'handled',
        '64',
        '19',
        'True',
        'SIGABRT',
        'SIGKILL',
        'written',
        '0 True',
      ]);
      t.match(report, { exit_code: 7 });
    });

    if (kind === 'another')
      t.test("a file of the worker's that the run could link is not kept", async (t) => {
        const keep = { patterns: ['out', 'own'], max_bytes: MiB, max_files: 9 };
        const script = 'echo own > own; ln own twice; until [ -e out ]; do sleep 0.02; done';
        const run = sandbox.run(shell(script, { limits: PATIENT, keep }));
        t.ok(await within(60_000, () => fileOfRun(sandbox, 'twice') !== undefined));
        const box = dirname(fileOfRun(sandbox, 'twice')!);
        linkSync(join(folder, 'data/secret'), join(box, 'out'));
        t.match(await run, {
          exit_code: 0,
          kept: [{ path: 'own' }],
          keep_refused: 'out: it belongs to another user',
        });
      });

    t.test('a run that takes all pipe pages of the user does not slow others down', async (t) => {
      const end = new AbortController();
      const limits = { wall_ms: 600_000 };
      const hostile = sandbox.run(python(HOLDS_PIPES, { limits }), { signal: end.signal });
      t.ok(await within(60_000, () => fileOfRun(sandbox, 'held') !== undefined));
      const report = await sandbox.run(
        python(PRINTS, { limits: { ...PATIENT, stdout_bytes: PRINTED } }),
      );
      end.abort();
      await t.rejects(hostile, 'it was cancelled');
      t.match(report, { exit_code: 0, stdout_seen_bytes: PRINTED });
      const [size, fastest_us, rest] = text(report.stderr).split('\n');
      t.match([size, rest], [kind === 'own' ? '8192' : '65536', '']);
      // The slot does not pause between pipes full. With a pause of 1 ms after each, no block could take less than twice this
      // time, and the fastest of many blocks takes much less on a busy machine, too.
      t.ok(Number(fastest_us) < (BLOCK / 8_192 / 2) * 1_000, `${fastest_us}`);
    });

    t.test('a fork bomb is bounded, and nothing is left of it', async (t) => {
      const report = await sandbox.run(python(BOMB, { limits: { processes: 32 } }));
      t.ok(Number(said(report)) < 100, `${said(report)} processes`);
      t.equal(said(await sandbox.run(shell('echo next'))), 'next');
    });

    for (const kind of ['chain', 'hops'] as const)
      t.test(`processes that go on in a ${kind} are ended with the run`, async (t) => {
        const { request, none } = goingOn(tool, kind, 'ends');
        const report = await sandbox.run(request);
        t.equal(said(report), 'begun');
        t.ok(none());
      });

    t.test('what a run leaves may end slowly', { skip: noTracer }, (t) => endsSlowly(t, sandbox));

    t.test('nothing of a run is left when its slot dies, or its service ends', async (t) => {
      const word = `77${process.pid}`;
      const left = () => running(`sleep ${word}`).length;
      const slotsDie = () => killSlots(sandbox.isolation.pid);
      for (const end of [slotsDie, close]) {
        for (const kind of ['chain', 'hops'] as const) {
          const others = goingOn(tool, kind, 'stays');
          const lost = [shell(`setsid sleep ${word} & sleep ${word}`), others.request].map((run) =>
            sandbox.run(run).catch(() => 'lost'),
          );
          const begun = within(60_000, () => left() === 2 && others.left() > 1);
          t.equal(await Promise.race([begun, ...lost]), true, `both run before ${end.name}`);
          await (kind === 'chain' ? slotsDie() : end());
          t.same(await Promise.all(lost), ['lost', 'lost']);
          t.ok(await within(60_000, () => left() === 0 && others.none()), end.name);
        }
      }
    });
  });

/** Only root may trace a program that dropped its privileges. */
const noTracer = !isRoot && 'only root traces a program here';

async function endsSlowly(t: Test, sandbox: Sandbox) {
  const word = `76${process.pid}`;
  const script = `sleep ${word} & until [ -e end ]; do sleep 0.02; done`;
  const run = sandbox.run(shell(script, { limits: PATIENT }));
  t.ok(await within(60_000, () => running(`sleep ${word}`).length === 1));
  // A process that has a tracer is not gone before its tracer is.
  const left = running(`sleep ${word}`)[0]!;
  const tracer = spawn('python3', ['-c', TRACES, `${left}`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(tracer.stdout, 'data');
  // Either slot may have the run: the other can still be busy with what the test before it left.
  writeFileSync(`/proc/${left}/cwd/end`, '');
  t.match(await run, { exit_code: 0, killed_for: null });
  t.equal(running(`sleep ${word}`).length, 0);
}

/** PTRACE_SEIZE, for longer than any number of attempts without a pause would take. */
const TRACES = `
import ctypes, sys, time
assert ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None) == 0
print("traces", flush=True)
time.sleep(3)`;

async function attacked(t: Test, kind: string, folder: string, sandbox: Sandbox) {
  const victim = spawn(asUser(kind)[0]!, [...asUser(kind).slice(1), 'sleep', '1000'], {
    env: { SECRET },
  });
  await once(victim, 'spawn');
  t.teardown(() => victim.kill('SIGKILL'));
  const pid = victim.pid!;
  t.ok(await within(60_000, () => readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'sleep'));
  const segment = aSegment(t, kind);
  const secret = join(folder, 'data/secret');
  const tool = join(folder, 'tool/tool');
  const before = [stateOf(pid, secret), stateOfFile(tool)];

  const end = new AbortController();
  const other = sandbox.run(python(THEIRS, { limits: { wall_ms: 600_000 } }), {
    signal: end.signal,
  });
  const theirs = () => fileOfRun(sandbox, 'theirs');
  t.ok(await within(60_000, () => theirs() !== undefined), 'another run has a file');
  const stdin = [pid, secret, join(folder, 'data'), segment, theirs(), tool].join('\n');
  const report = await sandbox.run(python(ATTACK, { stdin }));
  t.equal(text(report.stderr), '');
  const lines = said(report).split('\n');
  t.ok(lines.length > 30, `${lines.length} attempts`);
  const mayPass = kind === 'own' ? MAY_SUCCEED : [...MAY_SUCCEED, ...OWN_USER];
  for (const line of lines) {
    const [name = '', got] = line.split(': ');
    if (!mayPass.includes(name)) t.equal(got, 'DENIED', name);
  }
  t.ok(isAlive(pid), 'the victim is alive');
  t.same([stateOf(pid, secret), stateOfFile(tool)], before, 'and nothing of it has changed');
  t.ok(segments().includes(segment), 'the segment is there');
  end.abort();
  await t.rejects(other, 'it was cancelled');
}

function fileOfRun(sandbox: Sandbox, name: string): string | undefined {
  const { groups } = sandbox.isolation;
  const paths = readdirSync(groups).map((slot) => join(groups, slot, 'box', name));
  return paths.find((path) => existsSync(path));
}

async function aFolder(t: Test, kind: string): Promise<string> {
  // Not in /tmp, which a run has of its own.
  const folder = await mkdtemp('/var/tmp/runledger-degraded-');
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  for (const name of ['', 'data', 'store', 'tool'])
    mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, 'data/secret'), SECRET, { mode: 0o600 });
  writeFileSync(join(folder, 'tool/tool'), 'of a toolchain', { mode: 0o644 });
  const compile = ['-O1', '-pthread', '-xc', '-', '-o', join(folder, 'tool/goes_on')];
  execFileSync('cc', compile, { input: GOES_ON, stdio: ['pipe', 'ignore', 'inherit'] });
  if (kind === 'own' && isRoot)
    for (const name of ['', 'data', 'store', 'data/secret', 'tool', 'tool/tool'])
      chownSync(join(folder, name), ORDINARY, ORDINARY);
  chmodSync(folder, 0o755);
  return folder;
}

function stateOfFile(path: string) {
  const { mode, uid, mtimeMs, size } = statSync(path);
  return { mode, uid, mtimeMs, size, text: readFileSync(path, 'utf8') };
}

/** Everything of the victim and of its user's file that an attempt could change. */
function stateOf(pid: number, secret: string) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ');
  return {
    file: stateOfFile(secret),
    folder: statSync(join(secret, '..')).mode,
    files: readdirSync(join(secret, '..')),
    limits: readFileSync(`/proc/${pid}/limits`, 'utf8'),
    priority: getPriority(pid),
    policy: stat[40],
    processors: /^Cpus_allowed:.*$/m.exec(status)?.[0],
    normal: constants.priority.PRIORITY_NORMAL,
  };
}

const THEIRS = 'import time; open("theirs", "w").write("x"); time.sleep(600)';

/** More than fs.pipe-user-pages-soft, which is 16,384 for each user. */
const HOLDS_PIPES = `
import os, signal
ready = os.pipe()
for child in range(50):
    if os.fork() == 0:
        pipes = [os.pipe() for _ in range(28)]
        os.write(ready[1], b"x")
        signal.pause()
for child in range(50): os.read(ready[0], 1)
open("held", "w").close()
signal.pause()`;

const PRINTED = 32 * MiB;
const BLOCK = MiB / 16;
const PRINTS = `
import fcntl, os, sys, time
block = b"x" * ${BLOCK}
fastest_ns = 10 ** 12
for _ in range(${PRINTED / BLOCK}):
    left, before_ns = block, time.monotonic_ns()
    while left: left = left[os.write(1, left):]
    fastest_ns = min(fastest_ns, time.monotonic_ns() - before_ns)
print(fcntl.fcntl(1, 1032), fastest_ns // 1000, sep="\\n", file=sys.stderr)`;

const BOMB = `
import os, signal
made = 0
try:
    while made < 1000:
        if os.fork() == 0: signal.pause()
        made += 1
except OSError:
    print(made)`;

/**
 * A chain: each process has a thread that starts the next one, as soon as there is room for it. Hops: each process starts a
 * sibling of its own and ends.
 */
const GOES_ON = `
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static void chain(void);
static void *next(void *none) {
  for (;;) if (fork() == 0) chain();
}
static void chain(void) {
  for (pthread_t thread;;) if (!pthread_create(&thread, NULL, next, NULL)) pthread_join(thread, NULL);
}
static void hop(void) {
  for (;;) if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) > 0) _exit(0);
}
int main(int count, char **words) {
  for (int n = 0; n < 8; n++) if (fork() == 0) words[1][0] == 'c' ? chain() : hop();
  usleep(500000);
  puts("begun");
  fflush(stdout);
  if (words[2][0] == 's') for (;;) pause();
  _exit(0);
}`;

function goingOn(tool: string, kind: 'chain' | 'hops', end: 'ends' | 'stays') {
  const name = randomUUID();
  const argv = [join(tool, 'goes_on'), kind, end, name];
  const left = () => pids().filter((pid) => commandOf(pid).endsWith(name)).length;
  return {
    request: request(argv, { limits: { ...PATIENT, processes: 48 } }),
    left,
    // One that hops can be between two names that a look reads.
    none: () => Array.from({ length: 30 }, left).every((count) => count === 0),
  };
}

const HONEST = `
import ctypes, os, resource, signal, subprocess, sys
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
os.kill(os.getpid(), signal.SIGUSR1)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(resource.prlimit(0, resource.RLIMIT_NOFILE)[0])
os.setpriority(os.PRIO_PROCESS, 0, 19)
print(os.getpriority(os.PRIO_PROCESS, 0))
os.sched_setaffinity(0, os.sched_getaffinity(0))
print(os.path.exists(f"/proc/{os.getpid()}/status"))
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.kill(0, signal.SIGABRT)
print(signal.Signals(os.WTERMSIG(os.waitpid(child, 0)[1])).name)
slept = subprocess.Popen(["/bin/sh", "-c", "kill -9 0"], start_new_session=True)
print(signal.Signals(-slept.wait()).name)
with open("own", "w") as file:
    os.fchmod(file.fileno(), 0o600)
    os.utime(file.fileno())
    print("written", file=file)
print(open("own").read().strip())
facts = (ctypes.c_ulong * 14)()
print(ctypes.CDLL(None).sysinfo(facts), facts[4] > 0)
sys.stdout.flush()
os._exit(7)`;

/** A System V segment of the worker's user, as PostgreSQL has one. */
function aSegment(t: Test, kind: string): number {
  const make = 'import ctypes; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600))';
  const [program, ...args] = asUser(kind);
  const id = Number(
    execFileSync(program!, [...args, '/usr/bin/python3', '-c', make], { encoding: 'utf8' }),
  );
  t.teardown(() => execFileSync('ipcrm', ['-m', `${id}`]));
  return id;
}

const segments = () =>
  readFileSync('/proc/sysvipc/shm', 'utf8')
    .split('\n')
    .map((line) => Number(line.trim().split(/\s+/)[1]));
