/**
 * `make run` on an odd machine, as a stranger would see it: a copy of this tree, the lines that are printed, requests, and what
 * is left after the end. The drills of faults share it.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { call as direct, type Reply } from '../http/support/call.ts';
import { descendants, survivors } from '../support/processes.ts';
import { NotRun, type Stage } from './drill.ts';

export type Machine = {
  /** The words of a command that runs another one in its place, as `taskset -c 0` does. */
  readonly within?: readonly string[];
  /** Beside or in place of these; undefined removes one. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** One that was made before; without it, the one that the first start prints. */
  readonly key?: string;
  /** It has a network of its own, so requests have to come from there. */
  readonly apart?: boolean;
};

export type Trial = {
  readonly origin: string;
  readonly key: string;
  /** What was printed so far. */
  readonly lines: readonly string[];
  readonly pid: number;
  ask(asked: Asked): Promise<Reply>;
  /** Runs a command of Runledger in the same environment. Resolves also if it fails. */
  command(...words: string[]): Promise<{ status: number | null; output: string }>;
  /** Stops it in order, and looks what is left. */
  stop(): Promise<void>;
};

export type Asked = { path: string; body?: object; key?: string };

/** A copy of this tree with its packages as hard links, so that it costs no space. It goes with the drill. */
export async function copyOfTree(stage: Stage, name = 'tree'): Promise<string> {
  const copy = join(stage.folder, name);
  const remove = () => rm(copy, { recursive: true, force: true });
  await remove();
  stage.teardown(remove);
  mkdirSync(join(copy, 'build'), { recursive: true });
  execFileSync('sh', ['-e', '-c', COPY, 'sh', copy]);
  return copy;
}

/** The stamps are the copy's own, and new: nothing is installed again, and no other tree's are touched. */
const COPY = `
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp -p --parents -t "$1"
  cp -al node_modules "$1"
  cp -rp build/launcher build/sandbox build/*.so "$1/build"
  cd "$1/node_modules"
  rm -f .installed .runtime
  touch .installed .runtime`;

/** Java's compiler takes memory and seconds that these drills need not have. */
const FEW: Readonly<Record<string, string>> = { RUNLEDGER_LANGUAGES: 'python,cpp', PORT: '0' };

const environment = (machine: Machine): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  HOME: process.env['HOME'],
  LANG: 'C.UTF-8',
  ...FEW,
  ...machine.env,
});

/** Starts it, and resolves when it has printed address, key and example. Rejects with what it printed if it ends before. */
export async function startTrial(
  stage: Stage,
  tree: string,
  machine: Machine = {},
): Promise<Trial> {
  const began = performance.now();
  const run = launch(stage, tree, machine);
  const [origin, printed] = await run.introduced;
  const key = machine.key ?? printed;
  stage.say(
    `${((performance.now() - began) / 1_000).toFixed(1)} s: make run has introduced itself`,
  );
  const ask = (asked: Asked) => {
    const full = { key, ...asked };
    return machine.apart ? askFrom(run.child.pid!, origin, full) : direct(origin, full);
  };
  return {
    ...{ origin, key, ask, lines: run.lines, pid: run.child.pid! },
    async command(...words) {
      const enter = ['nsenter', `--target=${run.child.pid}`, '--net', '--mount', `--wdns=${tree}`];
      const within = process.getuid!() === 0 ? enter : [];
      const [program, ...args] = [...within, join(tree, 'runledger'), ...words];
      return finished(spawn(program!, args, { cwd: tree, env: environment(machine) }));
    },
    async stop() {
      const processes = descendants(run.child.pid!);
      await run.stop();
      const left = await survivors(processes);
      assert.deepEqual(left, [], 'processes are left after the end');
      noTrace(run.lines);
    },
  };
}

/** `make run` that is expected to refuse: resolves with its lines when it has ended. */
export async function refusal(stage: Stage, tree: string, machine: Machine): Promise<string[]> {
  const run = launch(stage, tree, machine);
  await assert.rejects(run.introduced, 'it has started');
  noTrace(run.lines);
  return run.lines;
}

function launch(stage: Stage, tree: string, machine: Machine) {
  // make passes SIGTERM on, so the service ends in order even if the drill is killed.
  const words = ['--pdeathsig=TERM', '--', ...(machine.within ?? []), 'make', 'run'];
  const child = spawn('setpriv', words, {
    cwd: tree,
    env: environment(machine),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const ended = once(child, 'close');
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await ended;
  };
  stage.teardown(stop);
  const introduced = new Promise<[string, string]>((done, failed) => {
    void ended.then(() => failed(new Error(`it ended: ${lines.slice(-5).join('; ')}`)));
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        stage.say(`| ${line.replace(/\brl_\w+/g, 'rl_…').slice(0, 200)}`);
        const value = (label: string) => lines.find((each) => each.startsWith(label))?.slice(9);
        const [address, key, example] = ['address', 'key', 'try'].map(value);
        if (address && key && example) done([address, key]);
      });
  });
  introduced.catch(() => {});
  return { child, lines, introduced, ended, stop };
}

/** A request from the network of a process. */
async function askFrom(pid: number, origin: string, asked: Asked): Promise<Reply> {
  const file = join(import.meta.dirname, 'ask.ts');
  const words = ['--target', String(pid), '--net', process.execPath, file];
  const child = spawn('nsenter', [...words, origin, JSON.stringify(asked)]);
  const { status, output } = await finished(child);
  assert.equal(status, 0, output);
  return JSON.parse(output);
}

async function finished(child: ChildProcess): Promise<{ status: number | null; output: string }> {
  const chunks: Buffer[] = [];
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  const [status] = await once(child, 'close');
  return { status, output: Buffer.concat(chunks).toString() };
}

/** A person reads these lines: a problem is one of them, and never a stack. */
export function noTrace(lines: readonly string[]): void {
  const trace = lines.find((line) => /^\s+at \S+.*:\d+|^node:internal|^Error\b/.test(line));
  assert.equal(trace, undefined, 'a stack trace');
}

type Program = { language: string; code: string; verdict: string; stdout?: string };

export const PYTHON: Program = {
  ...{ language: 'python', code: 'print(6 * 7)', verdict: 'AC', stdout: '42\n' },
};
export const CPP: Program = {
  ...{ language: 'cpp', verdict: 'AC', stdout: '42\n' },
  code: '#include <iostream>\nint main() { std::cout << 6 * 7 << std::endl; }',
};
const PROGRAMS: readonly Program[] = [
  PYTHON,
  CPP,
  { language: 'python', code: 'import sys; sys.exit(3)', verdict: 'RE' },
  { language: 'python', code: 'print("naïve ☕")', verdict: 'AC', stdout: 'naïve ☕\n' },
  { language: 'cpp', code: 'int main() { return }', verdict: 'CE' },
];

/** The programs get their verdicts. */
export async function judges(trial: Trial, programs = PROGRAMS): Promise<void> {
  for (const program of programs) await judgesOne(trial, program);
}

export async function judgesOne(trial: Trial, program: Program): Promise<void> {
  const { verdict, stdout, ...body } = program;
  const { status, json, text } = await trial.ask({ path: '/api/submit?wait=true', body });
  assert.equal(status, 200, text);
  assert.equal(json.verdict, verdict, text);
  if (stdout !== undefined) assert.equal(json.stdout, stdout, text);
}

/** What was accepted is never lost, and ends. */
export async function resultOf(trial: Trial, id: string): Promise<Reply> {
  for (;;) {
    const reply = await trial.ask({ path: `/api/result/${id}?wait=true` });
    assert.ok([200, 429, 503].includes(reply.status), reply.text);
    if (/"status":"(completed|error|cancelled)"/.test(reply.text)) return reply;
    await wait(200);
  }
}

/** The whole way: start, judge, prove, stop. */
export async function tryService(
  stage: Stage,
  machine: Machine,
  more: (trial: Trial) => Promise<void> = async () => {},
  name?: string,
): Promise<void> {
  const tree = await copyOfTree(stage, name);
  const trial = await startTrial(stage, tree, machine);
  await stage.step('verdicts', () => judges(trial));
  await more(trial);
  const { status, output } = await trial.command('verify');
  assert.equal(status, 0, output);
  noTrace(output.split('\n'));
  await stage.step('stop', () => trial.stop());
}

export function needsRoot(what: string): void {
  if (process.getuid!() !== 0) throw new NotRun(`only root can ${what}`);
}

/** A shell script before the command, in namespaces of its own. */
export const unshared = (namespaces: readonly string[], script: string): string[] => [
  ...['unshare', ...namespaces, 'sh', '-c', `${script}\nexec "$@"`, 'sh'],
];

export const MOUNTS = ['--mount', '--propagation', 'private'];

/** Where a process sees a path of its own mounts. */
export const seenBy = (trial: Trial, path: string) => `/proc/${trial.pid}/root${resolve(path)}`;
