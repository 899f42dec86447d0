/** Which isolation this machine really offers: a launcher starts one slot, says what it found, and ends. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Isolation, SandboxOptions } from './sandbox_options.ts';

/** A slot starts in milliseconds; an emulated or overloaded machine may need far longer. */
const TIMEOUT_MS = 60_000;

/** `lacks`: the launcher ended by itself, or is not there. A launcher that was killed, or timed out, says nothing of the machine. */
export type Probed = { isolation: Isolation } | { problem: string; lacks: boolean };

type Options = {
  launcher: string;
  isolation: NonNullable<SandboxOptions['isolation']>;
  /** A command that starts the launcher, as the worker will be started. */
  through?: readonly string[];
};

export function probeIsolation({ launcher, isolation, through = [] }: Options): Promise<Probed> {
  if (!existsSync(launcher)) {
    return Promise.resolve({ problem: `${notBuilt(launcher)}: ${BUILD_REMEDY}`, lacks: true });
  }
  const [program, ...args] = [...through, launcher, '--probe', '--isolation', isolation];
  return new Promise((resolve) => {
    execFile(program!, args, { timeout: TIMEOUT_MS }, (error, stdout, stderr) => {
      if (error === null) resolve({ isolation: JSON.parse(stdout) as Isolation });
      else {
        // It ends with 3 where the machine lacks something, and with 1 where a slot cannot be made.
        const problem = stderr.trim().split('\n').at(-1) || error.message;
        resolve({ problem, lacks: typeof error.code === 'number' });
      }
    });
  });
}

export const BUILD_REMEDY = 'run `make install`, which needs gcc and libc6-dev';
export const notBuilt = (launcher: string) => `the launcher is not built (${launcher})`;
