/** What a drill is, and what it works with. `run.ts` runs them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';

/** A file NAME.drill.ts exports one as `drill`, or several by their names as `drills`. */
export type Drill = {
  /** In one line. */
  readonly shows: string;
  /** Throws NotRun where this machine cannot do it, and anything else where it fails. */
  run(stage: Stage): Promise<void>;
};

/** This machine cannot do it: that is no failure, and the reason is printed. */
export class NotRun extends Error {}

export type Stage = {
  /** A folder of this drill alone, which stays. */
  readonly folder: string;
  say(line: string): void;
  /** Does a part of the drill, and says how long it took. */
  step<T>(what: string, work: () => Promise<T>): Promise<T>;
  /** Runs a program that ends with the drill. Its output is shown. Resolves with its stdout; rejects if it fails. */
  command(program: string, args: readonly string[], options?: Options): Promise<string>;
  /** At the end, the last one first, whatever happened. */
  teardown(work: () => unknown): void;
};

export type Options = { cwd?: string; env?: NodeJS.ProcessEnv; quiet?: boolean };

export type OpenStage = Stage & { close(): Promise<void> };

export async function openStage(name: string, print: (line: string) => void): Promise<OpenStage> {
  const folder = resolve('build/drill', name);
  await mkdir(folder, { recursive: true });
  const teardowns: (() => unknown)[] = [];
  const say = (line: string) => print(`  ${line}`);
  return {
    folder,
    say,
    async step(what, work) {
      const began = performance.now();
      const done = await work();
      say(`${((performance.now() - began) / 1_000).toFixed(1)} s: ${what}`);
      return done;
    },
    command: (program, args, options = {}) => command(say, program, args, options),
    teardown: (work) => void teardowns.unshift(work),
    async close() {
      for (const work of teardowns) await work();
    },
  };
}

async function command(
  say: (line: string) => void,
  program: string,
  args: readonly string[],
  { quiet = false, ...options }: Options,
): Promise<string> {
  // setpriv: it also ends if the drill is killed.
  const child = spawn('setpriv', ['--pdeathsig=KILL', '--', program, ...args], {
    ...options,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'close') as Promise<[number | null]>;
  const output: string[] = [];
  const last: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      if (stream === child.stdout) output.push(line);
      last.push(line);
      if (last.length > 15) last.shift();
      if (!quiet) say(`| ${line}`);
    });
  const [code] = await ended;
  if (code === 0) return output.join('\n');
  throw new Error(
    `${[program, ...args].join(' ').slice(0, 200)}: status ${code}\n${last.join('\n')}`,
  );
}
