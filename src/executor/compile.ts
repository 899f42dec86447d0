/**
 * Compiles a source, or finds it compiled: the cache first, then a compiler that is already running,
 * then the steps that the language names, each in a box under the limits of a compile.
 *
 * What must stay true:
 * - A speed-up may only say "compiled". What an earlier step rejects, or fails at, is compiled again by
 *   the next step; the last step is the plain compiler, and its diagnostics are those that users read.
 *   A resident compiler is no exception: its answer is final because it is the plain compiler's answer,
 *   letter for letter, and it answers null wherever that is in doubt.
 * - A step that ran into a limit ends the compile: another step would only run into it again.
 * - An interrupted compile (cancelled, past the deadline, unobserved) throws, and is never a verdict.
 * - The cost of every step counts.
 */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LimitPolicy } from '../domain/limits.ts';
import type { CompileFacts, ExecutionOrder } from '../domain/result.ts';
import { type CompileEnd, compileRejects, exitCodeOf, interrupted } from '../domain/verdict.ts';
import type {
  Compiler as CompilerOf,
  CompileStep,
  OpenCompiler,
  ResidentAnswer,
} from '../languages/common/language.ts';
import type { Installed } from '../languages/common/toolchains.ts';
import type { CacheLease, CompileCache } from './compile_cache.ts';
import { compileProfileOf } from './profiles.ts';
import { type RunReport, type Sandbox, SandboxFault } from './sandbox.ts';

export type CompileResult = {
  end: CompileEnd;
  facts: CompileFacts;
  /** the compiler's diagnostics, cut at their limit */
  said: Uint8Array;
  said_truncated: boolean;
  /** null where the source was rejected; to be released after the run */
  program: CacheLease | null;
  /** which way it went: for the evidence */
  by: string;
};

export type CompilerParts = {
  sandbox: Pick<Sandbox, 'run'>;
  cache: CompileCache;
  policy: LimitPolicy;
  /** the compilers that are open, by language */
  compilers: ReadonlyMap<string, OpenCompiler>;
};

const MiB = 1024 * 1024;
/** The run's slot waits while the artefact is saved. */
const ARTEFACT_BYTES = 32 * MiB;

export class Compiler {
  readonly #parts: CompilerParts;

  constructor(parts: CompilerParts) {
    this.#parts = parts;
  }

  async compile(
    installed: Installed,
    order: ExecutionOrder,
    signal: AbortSignal,
  ): Promise<CompileResult> {
    const key = this.#keyOf(installed, order);
    const found = this.#parts.cache.find(key);
    if (found !== null) return fromCache(found);
    const open = this.#parts.compilers.get(order.language);
    if (open === undefined) throw new Error(`no compiler is open for ${order.language}`);
    const resident = await orAborted(open.resident?.(order.account_id, order.code) ?? null, signal);
    if (resident !== null) return this.#fromResident(installed, order, key, resident);
    return this.#inBoxes(installed, order, key, await open.steps(order.code), signal);
  }

  /** Drops a cached program that could not be loaded. */
  forget(installed: Installed, order: ExecutionOrder): void {
    this.#parts.cache.forget(this.#keyOf(installed, order));
  }

  #keyOf(installed: Installed, { account_id, language, code }: ExecutionOrder): string {
    // The name is part of it, so that no two languages ever share a program.
    const recipe = `${language}\n${compilerOf(installed).recipe}`;
    return this.#parts.cache.keyOf({ account_id, recipe, code });
  }

  async #inBoxes(
    installed: Installed,
    order: ExecutionOrder,
    key: string,
    steps: readonly CompileStep[],
    signal: AbortSignal,
  ): Promise<CompileResult> {
    let before: CompileResult | null = null;
    for (const [at, step] of steps.entries()) {
      const own = await this.#inBox(installed, order, key, step, signal);
      const result: CompileResult = before === null ? own : added(before, own);
      const is_last = at === steps.length - 1;
      if (is_last || own.program !== null || own.end.killed_for !== null) return result;
      before = result;
    }
    throw new Error(`${order.language} names no way to compile`);
  }

  async #inBox(
    installed: Installed,
    order: ExecutionOrder,
    key: string,
    { by, ...step }: CompileStep,
    signal: AbortSignal,
  ): Promise<CompileResult> {
    const { sandbox, cache, policy } = this.#parts;
    const compiler = compilerOf(installed);
    const artefact = cache.newArtefact();
    const report = await sandbox.run(
      {
        ...step,
        files: [{ path: installed.language.source, bytes: order.code }, ...step.files],
        stdin: new Uint8Array(),
        limits: policy.compile,
        profile: compileProfileOf(installed),
        save: {
          key: artefact,
          paths: [compiler.artefact],
          max_bytes: ARTEFACT_BYTES,
          max_files: 1,
        },
      },
      { signal },
    );
    if (interrupted(report)) throw new SandboxFault('rejected', 'the compiler ended unobserved');
    const result = resultOf(report, by);
    if (compileRejects(report)) return result;
    if (report.saved === undefined) return unfit(result, report.save_refused);
    const entry = compiler.names_entry ? Buffer.from(report.stdout).toString() : '';
    const kept = { artefact, entry: checkedEntry(entry), bytes: report.saved.bytes };
    return { ...result, program: cache.keep(key, order.account_id, kept) };
  }

  async #fromResident(
    installed: Installed,
    order: ExecutionOrder,
    key: string,
    answer: ResidentAnswer,
  ): Promise<CompileResult> {
    const { cache } = this.#parts;
    const exit_code = answer.compiled ? 0 : 1;
    const { cpu_us: cpu_time_us, wall_us: wall_time_us } = answer;
    const result: CompileResult = {
      end: { exit_code, signal: null, killed_for: null },
      // Its box has the memory of all its compiles: the share of this one is unknown.
      facts: { cpu_time_us, wall_time_us, memory_peak_bytes: null, exit_code, cached: false },
      said: answer.said,
      said_truncated: answer.said_truncated,
      program: null,
      by: 'resident',
    };
    if (!answer.compiled) return result;
    const artefact = cache.newArtefact();
    const { artefact: file } = compilerOf(installed);
    await putArtefact(cache.artefacts_folder, artefact, file, answer.archive);
    const kept = { artefact, entry: checkedEntry(answer.entry), bytes: answer.archive.length };
    return { ...result, program: cache.keep(key, order.account_id, kept) };
  }
}

function compilerOf({ compiler, language }: Installed): CompilerOf {
  if (compiler === null) throw new Error(`${language.name} has no compiler`);
  return compiler;
}

/** Stops waiting, and leaves the work as it is: a resident compiler's queue is its own. */
function orAborted<T>(work: Promise<T> | T, signal: AbortSignal): Promise<T> | T {
  if (!(work instanceof Promise)) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () =>
      reject(new SandboxFault('cancelled', 'the run was cancelled', { cause: signal.reason }));
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function fromCache(program: CacheLease): CompileResult {
  return {
    end: { exit_code: 0, signal: null, killed_for: null },
    facts: {
      cpu_time_us: null,
      wall_time_us: null,
      memory_peak_bytes: null,
      exit_code: 0,
      cached: true,
    },
    said: new Uint8Array(),
    said_truncated: false,
    program,
    by: 'cache',
  };
}

function resultOf(report: RunReport, by: string): CompileResult {
  const { stdout, stderr, stdout_seen_bytes, stderr_seen_bytes } = report;
  const said = report.exit_code === 0 ? stderr : Buffer.concat([stdout, stderr]);
  const seen = stderr_seen_bytes + (report.exit_code === 0 ? 0 : stdout_seen_bytes);
  return {
    end: report,
    facts: {
      cpu_time_us: report.cpu_us,
      wall_time_us: report.wall_us,
      memory_peak_bytes: report.memory_peak_bytes,
      exit_code: exitCodeOf(report),
      cached: false,
    },
    said,
    said_truncated: seen > said.length,
    program: null,
    by,
  };
}

/** The compiler ended well, and its program cannot be kept: it is too large, or not there. */
function unfit(result: CompileResult, why = 'it left no program'): CompileResult {
  const said = Buffer.concat([
    result.said,
    Buffer.from(`the compiled program cannot be run: ${why}\n`),
  ]);
  return { ...result, said, end: { exit_code: 1, signal: null, killed_for: null } };
}

function added(first: CompileResult, second: CompileResult): CompileResult {
  const sum = (a: number | null, b: number | null) => (a === null || b === null ? null : a + b);
  const peak = Math.max(first.facts.memory_peak_bytes ?? 0, second.facts.memory_peak_bytes ?? 0);
  return {
    ...second,
    facts: {
      ...second.facts,
      cpu_time_us: sum(first.facts.cpu_time_us, second.facts.cpu_time_us),
      wall_time_us: sum(first.facts.wall_time_us, second.facts.wall_time_us),
      memory_peak_bytes: peak,
    },
  };
}

/**
 * The entry becomes an argument of the command that runs the program. A compiler that its input has
 * taken over may print anything, and that must not be read as an option or as a file of arguments.
 */
function checkedEntry(entry: string): string {
  if (/^[-@]|[\s\0]/.test(entry))
    throw new Error('the compiler named an entry point that is not a name');
  return entry;
}

async function putArtefact(
  folder: string,
  artefact: string,
  file: string,
  bytes: Uint8Array,
): Promise<void> {
  const half = join(folder, `.new-${artefact}`);
  await mkdir(half, { mode: 0o755 });
  await writeFile(join(half, file), bytes, { mode: 0o444 });
  await rename(half, join(folder, artefact));
}
