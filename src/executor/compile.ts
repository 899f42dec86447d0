/**
 * Compiles a source, or finds it compiled: the cache first, then an equal compile that is under way, then a compiler
 * that is already running, then the steps that the language names, each in a box under the limits of a compile.
 *
 * What must stay true:
 * - A speed-up decides only that a source compiles. If an earlier step rejects the source or fails, the next step
 *   compiles it again. The last step is the plain compiler, and users read its diagnostics. The answer of a resident
 *   compiler is final, because it equals the plain compiler's, letter for letter; where that is in doubt, there is no
 *   answer.
 * - If the launcher ends a step at a limit, the compile ends: another step would reach the same limit.
 * - An interrupted compile (cancelled, past the deadline, unobserved) throws, and is never a verdict.
 * - The cost of every step counts, that of a resident compiler that ended without an answer, too.
 * - Of equal sources of one account at the same moment, one is compiled, and the others take its result, a rejection
 *   included. They wait without a slot of the launcher, and each can be cancelled. If the one is interrupted, the next
 *   of them compiles. Each still counts as one running program on the worker, as if it compiled its own source.
 */
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { LanguageName, LimitPolicy, RunLimits } from '../domain/limits.ts';
import type { CompileFacts } from '../domain/result.ts';
import { type CompileEnd, compileRejects, exitCodeOf, interrupted } from '../domain/verdict.ts';
import type {
  Compiler as CompilerOf,
  CompileStep,
  ResidentAnswer,
  Sources,
} from '../languages/common/language.ts';
import type { Installed } from '../languages/common/toolchains.ts';
import type { CacheLease, CompileCache } from './compile_cache.ts';
import { type Diagnostics, diagnosticsOf, PROGRAM_BYTES } from './compile_limits.ts';
import type { Compilers } from './compilers.ts';
import { isDiskFull, makeRoom, type Room } from './disk_full.ts';
import { compileProfileOf } from './profiles.ts';
import { type RunReport, type Sandbox, SandboxFault, wasMissing } from './sandbox.ts';
import { orAborted } from './sandbox_fault.ts';

export type CompileResult = Diagnostics & {
  end: CompileEnd;
  facts: CompileFacts;
  /** Null if the source was rejected. The caller releases it after the run. */
  program: CacheLease | null;
  /** the way that gave the result, for the evidence */
  by: string;
};

/** What is compiled, and for which account. */
export type CompileOrder = Sources & { account_id: string; language: LanguageName };

export type CompilerParts = {
  sandbox: Pick<Sandbox, 'run'>;
  cache: CompileCache;
  /** all caches on the disk of this one, itself included */
  rooms: readonly Room[];
  policy: LimitPolicy;
  compilers: Pick<Compilers, 'open' | 'renew'>;
};

export class Compiler {
  readonly #parts: CompilerParts;
  /** By the cache's key. Never rejects: null is a compile that was interrupted. */
  readonly #under_way = new Map<string, Promise<CompileResult | null>>();

  constructor(parts: CompilerParts) {
    this.#parts = parts;
  }

  async compile(
    installed: Installed,
    order: CompileOrder,
    signal: AbortSignal,
  ): Promise<CompileResult> {
    const key = this.#keyOf(installed, order);
    for (;;) {
      const found = this.#parts.cache.find(key);
      if (found !== null) return fromCache(found);
      const equal = this.#under_way.get(key);
      if (equal === undefined) break;
      const shared = sharedFrom(await orAborted(equal, signal));
      if (shared !== null) return shared;
    }
    const compiling = this.#compile(installed, order, key, signal);
    const settled = compiling
      .catch(() => null)
      // Before those that wait for it go on: the first of them may compile next.
      .finally(() => this.#under_way.delete(key));
    this.#under_way.set(key, settled);
    return compiling;
  }

  async #compile(
    installed: Installed,
    order: CompileOrder,
    key: string,
    signal: AbortSignal,
  ): Promise<CompileResult> {
    const open = this.#parts.compilers.open.get(order.language);
    if (open === undefined) throw new Error(`no compiler is open for ${order.language}`);
    let spent = NOTHING_SPENT;
    if (open.resident !== undefined && order.others.length === 0) {
      const reply = await orAborted(open.resident(order.account_id, order.code, signal), signal);
      // Its box has the memory of all its compiles: the share of this one is unknown.
      spent = { cpu_time_us: reply.cpu_us, wall_time_us: reply.wall_us, memory_peak_bytes: null };
      if (reply.answer !== null) return this.#fromResident(order, key, reply.answer, spent);
    }
    // They may wait for the compiler's own preparation.
    const steps = await orAborted(Promise.resolve(open.steps(order)), signal);
    return this.#inBoxes(installed, order, key, steps, spent, signal);
  }

  /** Drops a cached program that could not be loaded. */
  forget(installed: Installed, order: CompileOrder): void {
    this.#parts.cache.forget(this.#keyOf(installed, order));
  }

  #keyOf(installed: Installed, order: CompileOrder): string {
    // The name is in the recipe, so that no two languages share a program.
    const recipe = `${order.language}\n${compilerOf(installed).recipe}`;
    return this.#parts.cache.keyOf({ ...order, recipe });
  }

  async #inBoxes(
    installed: Installed,
    order: CompileOrder,
    key: string,
    steps: readonly CompileStep[],
    before: Spent,
    signal: AbortSignal,
  ): Promise<CompileResult> {
    let spent = before;
    for (const [at, step] of steps.entries()) {
      const is_last = at === steps.length - 1;
      const once = () => this.#inBox(installed, order, key, step, signal);
      const own = await once().catch(async (error: unknown) => {
        if (!wasMissing(error)) throw error;
        const renewed = await this.#renew(step, signal).catch((failure: unknown) => {
          if (is_last) throw failure;
          return null;
        });
        if (renewed === false) throw error;
        return renewed && once();
      });
      // The prepared files of this step cannot be made now. The next step needs fewer of them.
      if (own === null) continue;
      spent = added(spent, own.facts);
      if (is_last || own.program !== null || own.end.killed_for !== null)
        return { ...own, facts: { ...own.facts, ...spent } };
    }
    throw new Error(`${order.language} names no way to compile`);
  }

  /** The signal ends the wait alone: other compiles may wait for the same files. */
  #renew({ load }: CompileStep, signal: AbortSignal): Promise<boolean> {
    return orAborted(this.#parts.compilers.renew(load.map(({ key }) => key)), signal);
  }

  async #inBox(
    installed: Installed,
    order: CompileOrder,
    key: string,
    { by, ...step }: CompileStep,
    signal: AbortSignal,
    is_again = false,
  ): Promise<CompileResult> {
    const { sandbox, cache, rooms, policy } = this.#parts;
    const compiler = compilerOf(installed);
    const artefact = cache.newArtefact();
    const running = sandbox.run(
      {
        ...step,
        files: [{ path: order.main, bytes: order.code }, ...order.others, ...step.files],
        stdin: new Uint8Array(),
        limits: compiler.names_entry ? withRoomForName(policy.compile) : policy.compile,
        profile: compileProfileOf(installed),
        save: {
          key: artefact,
          paths: [compiler.artefact],
          max_bytes: PROGRAM_BYTES,
          // A folder counts as one file, beside the files in it.
          max_files: 1 + (compiler.most_files ?? 0),
        },
      },
      { signal },
    );
    const report = await running.catch((error: unknown) => {
      // It may have been saved before the run was cancelled.
      cache.discard(artefact);
      throw error;
    });
    if (interrupted(report)) throw new SandboxFault('rejected', 'the compiler ended unobserved');
    const result = resultOf(report, by, diagnosticsOf(report, compiler, policy.compile));
    if (compileRejects(report)) return result;
    if (report.save_failed !== undefined) {
      if (is_again) throw new SandboxFault('no_room', report.save_failed);
      // It is tried again also where nothing was left to remove: another compile may have removed it.
      if (report.store_full) await makeRoom(rooms);
      return this.#inBox(installed, order, key, { by, ...step }, signal, true);
    }
    if (report.saved === undefined) return unfit(result, report.save_refused);
    const entry = compiler.names_entry ? Buffer.from(report.stdout).toString() : '';
    if (!isName(entry)) {
      cache.discard(artefact);
      return unfit(result, NO_NAME);
    }
    const { bytes, files } = report.saved;
    const kept = { artefact, entry, bytes };
    return { ...result, program: cache.keep(key, order.account_id, kept, files) };
  }

  async #fromResident(
    order: CompileOrder,
    key: string,
    answer: ResidentAnswer,
    spent: Spent,
  ): Promise<CompileResult> {
    const { cache, rooms, policy } = this.#parts;
    const most = policy.compile.stderr_bytes;
    const exit_code = answer.compiled ? 0 : 1;
    const result: CompileResult = {
      end: { exit_code, signal: null, killed_for: null },
      facts: { ...spent, exit_code, cached: false },
      // As the launcher cuts what the plain compiler prints.
      said: answer.said.subarray(0, most),
      said_truncated: answer.said.length > most,
      limit_line: null,
      program: null,
      by: 'resident',
    };
    if (!answer.compiled) return result;
    if (!isName(answer.entry)) return unfit(result, NO_NAME);
    const artefact = cache.newArtefact();
    const put = () => putArtefact(cache.artefacts_folder, artefact, answer.files);
    await put().catch(async (error) => {
      if (!isDiskFull(error)) throw error;
      await makeRoom(rooms);
      await put();
    });
    const bytes = answer.files.values().reduce((sum, file) => sum + file.length, 0);
    const kept = { artefact, entry: answer.entry, bytes };
    return { ...result, program: cache.keep(key, order.account_id, kept, answer.files.size) };
  }
}

function compilerOf({ compiler, language }: Installed): CompilerOf {
  if (compiler === null) throw new Error(`${language.name} has no compiler`);
  return compiler;
}

type Spent = Pick<CompileFacts, 'cpu_time_us' | 'wall_time_us' | 'memory_peak_bytes'>;

const NOTHING_SPENT: Spent = { cpu_time_us: 0, wall_time_us: 0, memory_peak_bytes: null };
/** An equal source was compiled instead, and the compile counts there. */
const SPENT_ELSEWHERE: Spent = { cpu_time_us: null, wall_time_us: null, memory_peak_bytes: null };

function fromCache(program: CacheLease): CompileResult {
  return {
    end: { exit_code: 0, signal: null, killed_for: null },
    facts: { ...SPENT_ELSEWHERE, exit_code: 0, cached: true },
    said: new Uint8Array(),
    said_truncated: false,
    limit_line: null,
    program,
    by: 'cache',
  };
}

/** The result of an equal compile, for one that waited for it. Null: there is none, or its program is gone already. */
function sharedFrom(result: CompileResult | null): CompileResult | null {
  const program = result?.program?.share() ?? null;
  if (result === null || (result.program !== null && program === null)) return null;
  const facts = { ...result.facts, ...SPENT_ELSEWHERE, cached: true };
  return { ...result, facts, program, by: 'shared' };
}

function resultOf(report: RunReport, by: string, diagnostics: Diagnostics): CompileResult {
  return {
    ...diagnostics,
    end: report,
    facts: {
      cpu_time_us: report.cpu_us,
      wall_time_us: report.wall_us,
      memory_peak_bytes: report.memory_peak_bytes,
      exit_code: exitCodeOf(report),
      cached: false,
    },
    program: null,
    by,
  };
}

/** The compiler ended well, and its program cannot be run: it is too large, not there, or has no valid entry point. */
function unfit(result: CompileResult, why = 'it left no program'): CompileResult {
  const limit_line = `The compiled program cannot be run: ${why}.\n`;
  return { ...result, limit_line, end: { exit_code: 1, signal: null, killed_for: null } };
}

function added(first: Spent, second: Spent): Spent {
  const sum = (a: number | null, b: number | null) => (a === null || b === null ? null : a + b);
  return {
    cpu_time_us: sum(first.cpu_time_us, second.cpu_time_us),
    wall_time_us: sum(first.wall_time_us, second.wall_time_us),
    memory_peak_bytes: Math.max(first.memory_peak_bytes ?? 0, second.memory_peak_bytes ?? 0),
  };
}

/** A compiler that names the entry point prints the name where others print diagnostics. */
const NAME_BYTES = 4_096;
const withRoomForName = (limits: RunLimits): RunLimits => ({
  ...limits,
  stdout_bytes: Math.max(limits.stdout_bytes, NAME_BYTES),
});

/**
 * The entry becomes an argument of the command that runs the program. A compiler that its input controls may print
 * anything, and no command may read that as an option or as the name of a file of arguments. It is a rejection and no
 * failure of the service, because only the source can have caused it.
 */
const isName = (entry: string) => !/^[-@]|[\s\0]/.test(entry);
const NO_NAME = 'the compiler named an entry point that is not a name';

async function putArtefact(
  folder: string,
  artefact: string,
  files: ReadonlyMap<string, Uint8Array>,
): Promise<void> {
  const half = join(folder, `.new-${artefact}`);
  try {
    await mkdir(half, { mode: 0o755 });
    const folders = new Set([...files.keys()].map(dirname));
    for (const path of folders) await mkdir(join(half, path), { mode: 0o755, recursive: true });
    for (const [path, bytes] of files) await writeFile(join(half, path), bytes, { mode: 0o444 });
    await rename(half, join(folder, artefact));
  } catch (error) {
    await rm(half, { recursive: true, force: true });
    throw error;
  }
}
