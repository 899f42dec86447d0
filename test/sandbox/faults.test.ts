/**
 * A worker, launcher, slot or init dies while a hostile program runs. Every process of the program
 * is gone soon, and nothing is left: no process, mount, group, descriptor or file. The programs
 * are the kinds that could survive: they hide, stop, ignore every signal, or multiply.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Sandbox } from '../../src/executor/sandbox.ts';
import { commandOf, isAlive, pids, within } from '../executor/processes.ts';
import { childrenOf } from '../support/processes.ts';
import { type Side, works } from './case.ts';
import { differences, leftovers } from './leftovers.ts';
import { openBench, requestFor } from './suite.ts';

const PROGRAMS = [
  'loop_ignore',
  'stops_itself',
  'vfork_hangs',
  'spin_many',
  'spin_in_orphans',
  'fork_storm',
];
/** The last argument of every program: other tests run the same programs at the same time. */
const MARK = `of-${process.pid}`;
/** Searches all processes of the machine, because an orphan has another parent. */
const running = (program: string) =>
  pids().filter(
    (pid) => commandOf(pid).startsWith(`/load/hostile ${program} ${MARK}`) && isAlive(pid),
  );
/** Less than the programs' own limits, which would end them otherwise. */
const GONE_MS = 40_000;
const gone = (program: string) => within(GONE_MS, () => running(program).length === 0);
const started = (program: string) => within(60_000, () => running(program).length > 0);

const slotsOf = (launcher: number) => childrenOf(launcher);
const initsOf = (launcher: number) => slotsOf(launcher).flatMap(childrenOf);
const victims: Record<string, (launcher: number) => number[]> = {
  launcher: (launcher) => [launcher],
  slots: slotsOf,
  inits: initsOf,
  everything: (launcher) => [...initsOf(launcher), ...slotsOf(launcher), launcher],
};

const bench = await openBench(['cpp']);
t.teardown(() => bench.close());
const sideOf = (program: string): Side =>
  works(program, { args: [MARK], limits: { cpu_ms: 600_000, wall_ms: 600_000 } });
const requestOf = (program: string) =>
  requestFor(bench, sideOf(program), program === 'fork_storm' ? 'bombs' : 'endings', 'cpp').request;

/** Tries again while the launcher is being replaced, when runs end with a fault. */
async function runs(sandbox: Sandbox): Promise<boolean> {
  const { request } = requestFor(bench, works('sleep_some'), 'endings', 'cpp');
  for (let tries = 0; tries < 20; tries++) {
    const report = await sandbox.run(request).catch(() => null);
    if (report !== null)
      return report.exit_code === 0 && Buffer.from(report.stdout).toString() === 'OK sleep\n';
  }
  return false;
}

const SIGKILL_BIT = 1n << 8n;

/** False once SIGKILL is pending: a busy machine ends such a process later, but it executes nothing more. */
function isRunnable(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const pending = [...status.matchAll(/^S(?:ig|hd)Pnd:\s*([0-9a-f]+)/gm)];
    return !pending.some(([, mask]) => (BigInt(`0x${mask}`) & SIGKILL_BIT) !== 0n);
  } catch {
    return false;
  }
}

const counted = () => leftovers(bench.single.isolation, bench.store_dir, new Set());

/** Counts once the count no longer changes: a report comes a moment before its init is reaped. */
async function settled(): Promise<ReturnType<typeof leftovers>> {
  await Promise.all([runs(bench.single), runs(bench.single)]);
  for (let seen = counted(); ; ) {
    await wait(50);
    const now = counted();
    if (differences(seen, now).length === 0) return now;
    seen = now;
  }
}

for (const [name, find] of Object.entries(victims)) {
  t.test(`kill -9 of ${name}`, async (t) => {
    let left = await leftBy(t, find);
    // A slot that was starved when it was first counted has more later. What leaks is more each time.
    for (let more = 0; left.length > 0 && more < 2; more += 1) left = await leftBy(t, find);
    t.same(left, [], 'nothing is left');
  });
}

/** Kills them under each program, and returns what there is more of afterwards. */
async function leftBy(t: Test, find: (launcher: number) => number[]): Promise<string[]> {
  const before = await settled();
  for (const program of PROGRAMS) {
    const end = bench.single
      .run(requestOf(program))
      .catch(({ name }: Error) => ({ name, alive: running(program).filter(isRunnable).length }));
    t.ok(await started(program), `${program} runs`);
    for (const pid of find(bench.single.isolation.pid)) process.kill(pid, 'SIGKILL');
    t.ok(await gone(program), `${program} is gone`);
    const fault = { name: 'SandboxFault', alive: 0 };
    t.match(await end, fault, 'the run ends with a fault and no verdict, once the program is gone');
    t.ok(await runs(bench.single), 'the next run works');
  }
  await settled();
  await within(60_000, () => differences(before, counted()).length === 0);
  return differences(before, counted());
}

for (const program of PROGRAMS.slice(0, 5)) {
  t.test(`kill -9 of the worker of ${program}`, async (t) => {
    const { worker, launcher } = await startWorker(t, program, 0);
    t.ok(await started(program));
    worker.kill('SIGKILL');
    t.ok(await gone(program), 'the program is gone');
    t.ok(await within(60_000, () => !isAlive(launcher)), 'and so is the launcher');
  });
}

t.test('SIGSTOP of the worker: its run ends at the deadline', async (t) => {
  const { worker } = await startWorker(t, 'loop_ignore', 10_000);
  t.ok(await started('loop_ignore'));
  worker.kill('SIGSTOP');
  t.ok(await gone('loop_ignore'), 'while it is stopped');
  worker.kill('SIGKILL');
});

async function startWorker(
  t: { teardown(work: () => unknown): void },
  program: string,
  deadline_ms: number,
) {
  const file = join(import.meta.dirname, 'faults_worker.ts');
  // The worker is killed and cannot remove its files.
  const folder = await mkdtemp(join(tmpdir(), 'faults-worker-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const worker = spawn(process.execPath, [file, program, `${deadline_ms}`, MARK], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TMPDIR: folder },
  });
  const [line] = await once(createInterface({ input: worker.stdout }), 'line');
  return { worker, launcher: Number(line) };
}
