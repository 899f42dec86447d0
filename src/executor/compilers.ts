/**
 * Opens the compiler of every language that this machine has, and lets each prepare what saves time later. Preparation
 * starts with the worker and runs beside programs. Languages prepare one after the other, so that preparation takes one
 * slot at a time. If a preparation fails, the failure is logged, compiles go without it, and other attempts follow in the
 * background, with growing pauses.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunLimits } from '../domain/limits.ts';
import type { IsOn, OpenCompiler, Workshop } from '../languages/common/language.ts';
import { FIRST_RETRY_MS, retryAfterMs, spellRetry } from '../languages/common/retry_later.ts';
import type { Installed, Toolchains } from '../languages/common/toolchains.ts';
import { Preparation, type PreparationParts } from './preparation.ts';
import { compileProfileOf } from './profiles.ts';
import { type Sandbox, SandboxFault } from './sandbox.ts';

export type CompilersOptions = PreparationParts & {
  sandbox: Sandbox;
  toolchains: Toolchains;
  isOn: IsOn;
  compile_limits: RunLimits;
  log: (message: string, error: Error) => void;
  /** the pause after the first failure of a preparation */
  retry_ms?: number;
};

export type Compilers = {
  /** by language */
  readonly open: ReadonlyMap<string, OpenCompiler>;
  /** Preparation.renew() */
  renew(keys: readonly string[]): Promise<boolean>;
  /** Settles when all preparations are over and the resident compilers are warm. */
  prepared(): Promise<void>;
  close(): Promise<void>;
};

export function openCompilers(options: CompilersOptions): Compilers {
  const preparation = new Preparation(options);
  const open = new Map<string, OpenCompiler>();
  const closing = new AbortController();
  for (const [name, installed] of options.toolchains) {
    if (installed.compiler === null) continue;
    const workshop = workshopFor(installed, options, preparation, closing.signal);
    open.set(name, installed.compiler.open(workshop));
  }
  const all = [...open.values()];
  const done = prepareAll(all);
  return {
    open,
    renew: (keys) => preparation.renew(keys),
    async prepared() {
      await done;
      await Promise.all(all.map((one) => one.ready?.()));
    },
    async close() {
      closing.abort();
      preparation.close();
      await Promise.all(all.map((one) => one.close?.()));
    },
  };
}

function workshopFor(
  installed: Installed,
  { sandbox, isOn, compile_limits, log, retry_ms = FIRST_RETRY_MS }: CompilersOptions,
  preparation: Preparation,
  closing: AbortSignal,
): Workshop {
  const profile = compileProfileOf(installed);
  const made_by = installed.compiler!.recipe;
  return {
    isOn,
    compile_limits,
    standing_boxes: sandbox.isolation.stream_slots,
    make: (step) => preparation.ensure({ ...step, profile, made_by }),
    open: (request) => sandbox.open({ ...request, files: [], stdin: new Uint8Array(), profile }),
    attempt: (what, make) => attempt({ what, make, log, retry_ms, closing }, 1),
    log,
  };
}

type Attempt = Required<Pick<CompilersOptions, 'log' | 'retry_ms'>> & {
  what: string;
  make: () => Promise<void>;
  closing: AbortSignal;
};

/** Settles after one attempt. The next ones are made in the background. */
async function attempt(one: Attempt, number: number): Promise<void> {
  const { what, make, log, retry_ms, closing } = one;
  try {
    await make();
  } catch (error) {
    const stops = error instanceof SandboxFault && error.kind === 'closed';
    if (stops || closing.aborted) return;
    const wait_ms = retryAfterMs(number, retry_ms);
    log(`${what} could not be prepared; ${spellRetry(wait_ms)}`, error as Error);
    sleep(wait_ms, undefined, { signal: closing, ref: false }).then(
      () => attempt(one, number + 1),
      () => {},
    );
  }
}

async function prepareAll(all: readonly OpenCompiler[]): Promise<void> {
  const needed = (one: OpenCompiler) => (one.waits_for_preparation ? 0 : 1);
  for (const one of all.toSorted((a, b) => needed(a) - needed(b))) await one.prepare?.();
}
