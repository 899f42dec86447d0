/**
 * Opens the compiler of every language that this machine has, and lets each prepare what saves time later. Preparation
 * starts with the worker and runs beside programs. Languages prepare one after the other, so that preparation takes one
 * slot at a time. If a preparation fails, the failure is logged, and compiles go without it.
 */
import type { IsOn, OpenCompiler, Workshop } from '../languages/common/language.ts';
import type { Toolchains } from '../languages/common/toolchains.ts';
import { Preparation } from './preparation.ts';
import { compileProfileOf } from './profiles.ts';
import { type Sandbox, SandboxFault } from './sandbox.ts';

export type CompilersOptions = {
  sandbox: Sandbox;
  toolchains: Toolchains;
  /** the store's folder of artefacts */
  artefacts_folder: string;
  boot: string;
  isOn: IsOn;
  log: (message: string, error: Error) => void;
};

export type Compilers = {
  /** by language */
  readonly open: ReadonlyMap<string, OpenCompiler>;
  /** Settles when all preparations are over and the resident compilers are warm. */
  prepared(): Promise<void>;
  close(): Promise<void>;
};

export function openCompilers(options: CompilersOptions): Compilers {
  const preparation = new Preparation(options.sandbox, options.artefacts_folder, options.boot);
  const open = new Map<string, OpenCompiler>();
  for (const [name, installed] of options.toolchains) {
    const workshop = workshopFor(compileProfileOf(installed), options, preparation);
    if (installed.compiler !== null) open.set(name, installed.compiler.open(workshop));
  }
  const all = [...open.values()];
  const done = prepareAll(all);
  return {
    open,
    async prepared() {
      await done;
      await Promise.all(all.map((one) => one.ready?.()));
    },
    async close() {
      await Promise.all(all.map((one) => one.close?.()));
    },
  };
}

function workshopFor(
  profile: string,
  { sandbox, isOn, log }: CompilersOptions,
  preparation: Preparation,
): Workshop {
  return {
    isOn,
    standing_boxes: sandbox.isolation.stream_slots,
    make: (step) => preparation.ensure({ ...step, profile }),
    open: (request) => sandbox.open({ ...request, files: [], stdin: new Uint8Array(), profile }),
    async attempt(what, make) {
      await make().catch((error: Error) => {
        const stops = error instanceof SandboxFault && error.kind === 'closed';
        if (!stops) log(`${what} could not be prepared`, error);
      });
    },
    log,
  };
}

async function prepareAll(all: readonly OpenCompiler[]): Promise<void> {
  const needed = (one: OpenCompiler) => (one.waits_for_preparation ? 0 : 1);
  for (const one of all.toSorted((a, b) => needed(a) - needed(b))) await one.prepare?.();
}
