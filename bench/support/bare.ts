/** The floor: bare commands, run by a small C program, so that their times contain nothing of Node's. */
import { execFile, execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Program } from './programs.ts';

/** Programs at a time, in comparisons of rates: of the bare command, and slots of the service that is compared with it. */
export const LANES = 2;
const python = '/usr/bin/python3';

export type Bare = {
  /** The milliseconds of each run, and the seconds of all runs together. */
  run(program: Program, lanes: number, count: number): Promise<{ ms: number[]; all_s: number }>;
  remove(): void;
};

export function createBare(): Bare {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-bare-'));
  const tool = join(folder, 'bare');
  const source = (name: string) => fileURLToPath(new URL(name, import.meta.url));
  execFileSync('cc', ['-O2', '-o', tool, source('bare.c')]);
  for (let lane = 0; lane < LANES; lane++) mkdirSync(join(folder, String(lane)));
  const bare = async (args: readonly string[], input: string): Promise<string> => {
    const env = { ...process.env, BARE_INPUT: input };
    return (await promisify(execFile)(tool, args, { cwd: folder, env })).stdout;
  };
  return {
    async run(program, lanes, count) {
      for (let lane = 0; lane < LANES; lane++) {
        copyFileSync(
          source(`../programs/${program.file}`),
          join(folder, String(lane), program.file),
        );
      }
      const input = join(folder, 'input');
      writeFileSync(input, program.stdin);
      const steps = command(program);
      const compiling = steps.lastIndexOf('--');
      if (program.compiled_before && compiling !== -1) {
        const run = steps.splice(compiling + 1);
        steps.pop();
        // Once in each lane.
        await bare([String(LANES), String(LANES), '', ...steps], '/dev/null');
        steps.splice(0, steps.length, ...run);
      }
      const args = [String(lanes), String(count), program.expected, ...steps];
      const stdout = await bare(args, input);
      const ms = stdout.trim().split('\n').map(Number);
      return { all_s: ms.pop()!, ms };
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function command({ language, file }: Program): string[] {
  const at = (name: string) => `{lane}/${name}`;
  switch (language) {
    case 'python':
      return [python, '-I', at(file)];
    case 'cpp':
      return [
        'g++',
        '-O2',
        '-std=gnu++17',
        '-o',
        at('program'),
        at(file),
        '--',
        `./${at('program')}`,
      ];
    case 'java':
      return [
        'javac',
        '-d',
        '{lane}',
        at(file),
        '--',
        'java',
        '-cp',
        '{lane}',
        file.replace('.java', ''),
      ];
  }
}
