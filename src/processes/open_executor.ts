/** Opens the executor of this machine: its toolchains, its launcher, its compile cache. The worker and `doctor` use it. */
import { existsSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type Config, languageSwitches } from '../config.ts';
import { policyFrom, type RunLimits } from '../domain/limits.ts';
import { openCompileCache } from '../executor/compile_cache.ts';
import { type FetchContent, openContentCache } from '../executor/content_cache.ts';
import { createExecutor } from '../executor/executor.ts';
import { isNoexec } from '../executor/mounted.ts';
import { BUILD_REMEDY, notBuilt } from '../executor/probe.ts';
import { profilesFor, sharedIn } from '../executor/profiles.ts';
import {
  openSandbox,
  type Sandbox,
  SandboxFault,
  type SandboxOptions,
} from '../executor/sandbox.ts';
import { Fault } from '../fault.ts';
import { BY_NAME } from '../languages/common/registry.ts';
import { findToolchains, switchReader, type Toolchains } from '../languages/common/toolchains.ts';
import type { Log } from '../log.ts';
import type { Executor } from '../queue/worker.ts';
import { CannotRun, launcherOf } from './process.ts';
import { slotsOf } from './slots_of.ts';

/** Two programs that talk to each other run at the same time, also on a worker for one execution at a time. */
const PAIR_SLOTS = 2;

export type ExecutorParts = {
  /** Gets the files of test sets from the database. Without it, only submissions without a set can be run. */
  fetch?: FetchContent;
  /** The launcher inherits this descriptor. */
  inherited?: number | null;
};

export async function openExecutor(
  config: Config,
  log: Log,
  { fetch = noContents, inherited = null }: ExecutorParts = {},
): Promise<Executor> {
  // Boxes mount what this process writes, and run under other users.
  process.umask(0o022);
  const toolchains = await toolchainsOf(config, log);
  const warn = (message: string, error: Error) => log.warn({ err: error }, message);
  const cache = await openCompileCache({
    folder: join(resolve(config.state_dir), 'compiled'),
    max_bytes: config.compile_cache_bytes,
    max_entries: config.compile_cache_entries,
    log: warn,
  });
  await requireExecutable(cache.artefacts_folder, toolchains);
  const contents = await openContentCache({
    folder: cache.artefacts_folder,
    max_bytes: config.content_cache_bytes,
    max_entries: config.content_cache_entries,
    others: [cache],
    fetch,
  });
  const switches = languageSwitches(config);
  const policy = policyFrom(config);
  const slots = slotsOf(config, log);
  const box_slots = Math.max(slots, PAIR_SLOTS);
  const profiles = await profilesFor(toolchains, box_slots);
  const shared = sharedIn(toolchains, profiles);
  if (shared.length > 0)
    log.info(
      { shared },
      'programs share these files: copies for each slot would take too much memory',
    );
  const sandbox = await startSandbox({
    launcher: launcherOf(config),
    slots: box_slots,
    stream_slots: standingBoxes(toolchains, switches, policy.compile),
    profiles,
    store_dir: cache.artefacts_folder,
    isolation: config.isolation,
    cpu_reserve_percent: config.cpu_reserve_percent,
    inherited,
    log: (line) => log.info({ launcher: line }, 'launcher'),
  });
  const executor = await createExecutor({
    sandbox,
    toolchains,
    cache,
    contents,
    tests_wall_ms: config.tests_wall_ms,
    policy,
    switches,
    log: warn,
  });
  return {
    toolchains: () => executor.toolchains(),
    slots,
    isolation: sandbox.isolation,
    execute: (order, signal, onProgress) => executor.execute(order, signal, onProgress),
    isReady: () => sandbox.connected,
    extendDeadline: (ms) => sandbox.extendDeadline(ms),
    async close() {
      // At the same time: closing the sandbox cuts off what the executor is still preparing.
      await Promise.all([executor.close(), sandbox.close()]);
    },
  };
}

const noContents: FetchContent = ({ sha256 }) => {
  throw new Error(`this process has no source of the content ${sha256}`);
};

/** A compiled program is executed where it is stored. On such a mount each would end at once, as if that was its own fault. */
async function requireExecutable(folder: string, toolchains: Toolchains): Promise<void> {
  const compiled = [...toolchains.values()].some(({ compiler }) => compiler !== null);
  if (compiled && (await isNoexec(await realpath(folder))))
    throw new CannotRun(
      `programs cannot be executed in ${folder}: its file system is mounted noexec`,
      'mount it without noexec, or set RUNLEDGER_STATE_DIR to a folder elsewhere',
    );
}

/** The toolchains of this machine for the enabled languages. Throws CannotRun if it has none. */
async function toolchainsOf(config: Config, log: Log): Promise<Toolchains> {
  const languages = config.languages.map((name) => BY_NAME.get(name)!);
  const switches = languageSwitches(config);
  const { toolchains, passed_over } = await findToolchains({
    languages,
    switches,
    private_folders: [resolve(config.state_dir)],
  });
  if (toolchains.size > 0) {
    for (const { name } of languages.filter((language) => !toolchains.has(language.name))) {
      const tried = passed_over.filter(({ language }) => language === name);
      const why = tried.map(({ candidate, why }) => `${candidate}: ${why}`);
      log.warn({ language: name, why }, 'does not run here: ./runledger doctor says what to do');
    }
    return toolchains;
  }
  const [first] = passed_over;
  // It may have been short of processes or memory when it was asked.
  if (first)
    throw new Fault(
      `no toolchain of ${config.languages.join(', ')} answers: ${first.candidate}: ${first.why}`,
      '`./runledger doctor --only machine` says which works now, and what to do',
    );
  const packages = languages
    .flatMap((language) => language.packages)
    .filter(({ optional }) => !optional);
  throw new CannotRun(
    `this machine has none of ${config.languages.join(', ')}`,
    `install what is missing: apt-get install ${packages.map(({ name }) => name).join(' ')}`,
  );
}

/** Boxes that resident compilers keep open; each needs a slot of its own. */
function standingBoxes(
  toolchains: Toolchains,
  switches: Record<string, boolean>,
  limits: RunLimits,
): number {
  const isOn = switchReader(switches);
  const each = [...toolchains.values()].map(
    ({ compiler }) => compiler?.standing_boxes?.(isOn, limits) ?? 0,
  );
  return each.reduce((sum, count) => sum + count, 0);
}

async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  if (!existsSync(options.launcher)) {
    throw new CannotRun(notBuilt(options.launcher), BUILD_REMEDY);
  }
  try {
    return await openSandbox(options);
  } catch (error) {
    const { message } = error as Error;
    const remedy = '`./runledger doctor` shows what this machine can isolate, and how to fix it';
    // Anything else may pass, such as a shortage of processes.
    const is_final = error instanceof SandboxFault && error.kind === 'no_isolation';
    throw new (is_final ? CannotRun : Fault)(message, remedy, { cause: error });
  }
}
