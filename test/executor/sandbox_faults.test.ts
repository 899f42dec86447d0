/** Whatever dies or stops, at whatever step: nothing is left running, and the next run is right. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { type Sandbox, SandboxFault } from '../../src/executor/sandbox.ts';
import { createLog } from '../../src/log.ts';
import { openNeighbours } from '../../src/queue/neighbours.ts';
import { childrenOf } from '../support/processes.ts';
import { LAUNCHER, shell, withSandbox } from './box.ts';
import { isAlive, running, within } from './processes.ts';

/** A launcher that takes longer to come is not waited for. */
const GONE_MS = 3_000;

let last = 0;
/** A duration that no other program sleeps for: it finds this one among the machine's processes. */
const mark = () => `7${process.pid}.${++last}`;

async function runMarked(sandbox: Sandbox): Promise<{ word: string; end: Promise<unknown> }> {
  const word = mark();
  const end = sandbox
    .run(
      shell(`sleep ${word} & setsid sleep ${word} & sleep ${word}`, {
        limits: { wall_ms: 300_000 },
      }),
    )
    .catch((error: unknown) => error);
  if (!(await within(60_000, () => running(`sleep ${word}`).length === 3)))
    throw new Error('the program did not start');
  return { word, end };
}

/** A run that meets a launcher on its way out is a fault, and is tried again, as the queue does. */
async function runAgain(sandbox: Sandbox, script: string): Promise<unknown> {
  for (let tries = 0; tries < 10; tries++) {
    const how = await sandbox.run(shell(script)).catch((error: unknown) => error);
    if (!(how instanceof SandboxFault)) return how;
  }
  return null;
}

const initsOf = (launcher: number) => childrenOf(launcher).flatMap(childrenOf);
const victims: [string, (launcher: number) => number[]][] = [
  ['the launcher', (launcher) => [launcher]],
  ['every slot', (launcher) => childrenOf(launcher)],
  ['every init', initsOf],
  ['launcher and slots', (launcher) => [...childrenOf(launcher), launcher]],
  [
    'launcher, slots and inits',
    (launcher) => [...initsOf(launcher), ...childrenOf(launcher), launcher],
  ],
];

for (const [name, find] of victims) {
  t.test(`kill -9 of ${name}`, async (t) => {
    const { sandbox, close } = await withSandbox();
    t.teardown(close);
    const { word, end } = await runMarked(sandbox);
    const launcher = sandbox.isolation.pid;
    const killed = Date.now();
    for (const pid of find(launcher)) process.kill(pid, 'SIGKILL');
    t.ok(await within(60_000, () => running(`sleep ${word}`).length === 0), 'no orphan is left');
    const how = await end;
    t.match(how, SandboxFault, 'a fault, and no verdict');
    // Else it could be run again elsewhere while what the dead one left still runs here.
    if (name === 'the launcher' && Date.now() - killed < GONE_MS)
      t.not(sandbox.isolation.pid, launcher, 'it rejects when the next launcher has swept');
    for (let i = 0; i < 4; i++) t.match(await runAgain(sandbox, 'exit 9'), { exit_code: 9 });
  });
}

t.test('a launcher that hangs is replaced, and one with long runs is not', async (t) => {
  const said: string[] = [];
  const log = (line: string) => said.push(line);
  const { sandbox, close } = await withSandbox({ late_ms: 1_000, stream_slots: 1, log });
  t.teardown(close);
  const { pid } = sandbox.isolation;
  // A box that stays says nothing of when a run should end.
  const stays = await sandbox.open(shell('cat', { limits: { wall_ms: 86_400_000 } }));
  t.teardown(() => stays.destroy());
  // Each waits for the one before it.
  const slow = shell('sleep 2', { limits: { wall_ms: 60_000 } });
  const all = Array.from({ length: sandbox.isolation.slots * 3 }, () => sandbox.run(slow));
  for (const run of all) t.match(await run, { exit_code: 0 });
  t.same([sandbox.isolation.pid, said], [pid, []]);
  process.kill(pid, 'SIGSTOP');
  const hangs = sandbox.run(shell('exit 9', { limits: { wall_ms: 1_000 } }));
  t.match(await hangs.catch((error: unknown) => error), { kind: 'launcher_lost' });
  t.match(said, [/^the launcher hangs/]);
  t.match(await runAgain(sandbox, 'exit 9'), { exit_code: 9 });
});

t.test('kill -9 of a slot or the launcher at any moment of a run', async (t) => {
  const { sandbox, close } = await withSandbox();
  t.teardown(close);
  let faults = 0;
  for (let i = 0; i < 40; i++) {
    await runAgain(sandbox, 'true');
    const word = mark();
    const end = sandbox
      .run(shell(`sleep ${word}`, { limits: { wall_ms: 100 } }))
      .catch((error: unknown) => error);
    // Spread over the first three milliseconds, in which all steps of a run lie.
    for (const until = performance.now() + (i % 20) / 7; performance.now() < until; )
      await new Promise(setImmediate);
    const launcher = sandbox.isolation.pid;
    const victim = i % 4 === 3 ? launcher : childrenOf(launcher)[i % 4];
    if (victim !== undefined) process.kill(victim, 'SIGKILL');
    const how = await end;
    if (how instanceof SandboxFault) faults++;
    else t.match(how, { killed_for: 'wall' });
    if (!(await within(60_000, () => running(`sleep ${word}`).length === 0)))
      t.fail(`an orphan after kill ${i}`);
  }
  t.ok(faults >= 10, `${faults} of 40 runs were hit`);
  t.match(await runAgain(sandbox, 'exit 9'), { exit_code: 9 });
});

t.test('a launcher that may open no more files ends the run with a fault', async (t) => {
  const { sandbox, close } = await withSandbox();
  t.teardown(close);
  const word = mark();
  const save = { key: 'it', paths: ['it'], max_bytes: 100, max_files: 1 };
  const end = sandbox
    .run(shell(`sleep ${word} || echo saved > it`, { save, limits: { wall_ms: 300_000 } }))
    .catch((error: unknown) => error);
  t.ok(await within(60_000, () => running(`sleep ${word}`).length === 1));
  const { pid } = sandbox.isolation;
  const open = readdirSync(`/proc/${pid}/fd`).map(Number);
  const limited = spawnSync('prlimit', [
    '--pid',
    `${pid}`,
    `--nofile=${Math.min(...missingFrom(open))}`,
  ]);
  t.equal(limited.status, 0, `${limited.stderr}`);
  for (const one of running(`sleep ${word}`)) process.kill(one, 'SIGTERM');
  t.match(await end, SandboxFault, 'the work directory did not come to the launcher');
  t.match(await runAgain(sandbox, 'exit 9'), { exit_code: 9 });
});

/** From the lowest number on that no descriptor has. */
const missingFrom = (numbers: readonly number[]) =>
  Array.from({ length: numbers.length + 1 }, (_, n) => n).filter((n) => !numbers.includes(n));

async function startWorker(
  script: string,
  deadline_ms: number,
): Promise<{
  worker: ChildProcess;
  launcher: number;
  name: string;
  line: () => Promise<string>;
  exited: Promise<unknown>;
}> {
  const worker = spawn(
    process.execPath,
    [`${import.meta.dirname}/one_run_worker.ts`, script, `${deadline_ms}`],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const exited = once(worker, 'exit');
  const lines = createInterface({ input: worker.stdout! })[Symbol.asyncIterator]();
  const line = async () => (await lines.next()).value as string;
  const [launcher, name = ''] = (await line()).split(' ');
  return { worker, launcher: Number(launcher), name, line, exited };
}

t.test('kill -9 of the worker takes everything along', async (t) => {
  const word = mark();
  const { worker, launcher } = await startWorker(`sleep ${word} & sleep ${word}`, 0);
  t.ok(await within(60_000, () => running(`sleep ${word}`).length === 2));
  worker.kill('SIGKILL');
  t.ok(
    await within(60_000, () => running(`sleep ${word}`).length === 0 && !isAlive(launcher)),
    'both end',
  );
});

t.test('a killed worker has not ended while its launcher and its programs live', async (t) => {
  const log = createLog({ level: 'silent', process: 'test', to: 'stderr' });
  const neighbours = await openNeighbours(log);
  t.teardown(() => neighbours.close());
  const word = mark();
  const { worker, launcher, name } = await startWorker(`sleep ${word}`, 0);
  t.ok(await within(60_000, () => running(`sleep ${word}`).length === 1));
  await neighbours.meet([name]);
  t.same(neighbours.near([name]), [name]);
  // A launcher that hangs cannot end its runs.
  process.kill(launcher, 'SIGSTOP');
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  t.equal(running(`sleep ${word}`).length, 1, 'the program still runs');
  t.same(await neighbours.dead([name]), [], 'so the worker does not count as dead');
  process.kill(launcher, 'SIGCONT');
  for (let dead: string[] = []; dead.length === 0; ) dead = await neighbours.dead([name]);
  t.equal(running(`sleep ${word}`).length, 0, 'it counts as dead when nothing of it runs');
});

t.test(
  'each slot has the socket by which its worker counts as alive',
  { skip: process.getuid?.() === 0 ? false : 'only root can look at the descriptors of a slot' },
  async (t) => {
    const { worker, launcher } = await startWorker('sleep 60', 0);
    t.teardown(() => worker.kill('SIGKILL'));
    const of = (pid: number) => readlinkSync(`/proc/${pid}/fd/4`);
    const slots = childrenOf(launcher);
    t.ok(slots.length > 0);
    t.match(of(launcher), /^socket:/);
    t.same([...new Set(slots.map(of))], [of(launcher)]);
  },
);

t.test('a worker that is stopped cannot move its deadline: its runs end', async (t) => {
  const word = mark();
  const { worker, line, exited } = await startWorker(`sleep ${word}`, 10_000);
  t.ok(await within(60_000, () => running(`sleep ${word}`).length === 1));
  worker.kill('SIGSTOP');
  t.ok(await within(60_000, () => running(`sleep ${word}`).length === 0), 'while it is stopped');
  worker.kill('SIGCONT');
  t.equal(await line(), 'the deadline has passed');
  await exited;
});

t.test('what a dead launcher left is swept by the next', async (t) => {
  const { sandbox, close } = await withSandbox();
  t.teardown(close);
  let took_over = false;
  // A launcher of another test may sweep them first, or leave groups that come before them: then ours takes other ones.
  for (let tries = 0; tries < 50 && !took_over; tries += 1) {
    const { word, end } = await runMarked(sandbox);
    const { pid, groups } = sandbox.isolation;
    process.kill(pid, 'SIGKILL');
    t.match(await end, { kind: 'launcher_lost' });
    t.match(await sandbox.run(shell('exit 8')), { exit_code: 8 });
    t.equal(running(`sleep ${word}`).length, 0);
    took_over = sandbox.isolation.groups === groups;
  }
  t.ok(took_over, 'it took over the groups, which were free');
});

t.test('what waits for a launcher that cannot be started is rejected', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-launcher-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const launcher = join(folder, 'launcher');
  symlinkSync(LAUNCHER, launcher);
  const said: string[] = [];
  const { sandbox, close } = await withSandbox({
    ...{ launcher, zygote: null },
    log: (line) => said.push(line),
  });
  t.teardown(close);
  t.ok(sandbox.connected);
  rmSync(launcher);
  process.kill(sandbox.isolation.pid, 'SIGKILL');
  t.ok(await within(60_000, () => !sandbox.connected));
  const run = sandbox.run(shell('exit 9')).catch((error: unknown) => error);
  const pair = sandbox.runPair(shell(''), shell('')).catch((error: unknown) => error);
  const tried = said.length;
  const fails = (line: string) => line.startsWith('the launcher cannot be started');
  t.ok(await within(60_000, () => said.slice(tried).some(fails)));
  symlinkSync(LAUNCHER, launcher);
  const rejected = { name: 'SandboxFault', kind: 'no_room', message: /cannot be started/ };
  t.match(await run, rejected);
  t.match(await pair, rejected);
  t.ok(await within(60_000, () => sandbox.connected));
  t.match(await sandbox.run(shell('exit 9')), { exit_code: 9 }, 'the next launcher runs the next');
});

t.test('a launcher that cannot start says why', async (t) => {
  const failure = (options: Parameters<typeof withSandbox>[0]) =>
    withSandbox(options).catch((error: unknown) => error);
  t.match(await failure({ launcher: '/no/such/launcher' }), { kind: 'launcher_lost' });
  const profiles = { base: { mounts: [{ from: '/no/such/directory', to: '/usr' }] } };
  t.match(await failure({ profiles }), { message: /mount \/no\/such\/directory: No such file/ });
});
