/**
 * A program of an execution: the submitted one, a checker or an interactor. It is compiled once, or found compiled, and then
 * run as often as the execution needs. Its artefact stays on disk until `release`.
 *
 * A program from the cache whose files are gone is compiled again, once, and its run is repeated. Any other fault is the
 * caller's.
 */
import type { RunLimits } from '../domain/limits.ts';
import { interrupted } from '../domain/verdict.ts';
import { LOAD_FOLDER, type Load, WORK_FOLDER } from '../languages/common/box.ts';
import type { IsOn } from '../languages/common/language.ts';
import type { Installed, Toolchains } from '../languages/common/toolchains.ts';
import type { CompileOrder, CompileResult, Compiler } from './compile.ts';
import {
  type BoxRequest,
  type Peek,
  type RunReport,
  type Sandbox,
  SandboxFault,
  wasMissing,
} from './sandbox.ts';

export type ProgramParts = {
  sandbox: Sandbox;
  toolchains: Toolchains;
  compiler: Compiler;
  isOn: IsOn;
};

/** One run of it. */
export type ProgramRun = Pick<BoxRequest, 'stdin_key' | 'folders' | 'keep'> & {
  args: readonly string[];
  limits: RunLimits;
  stdin?: Uint8Array;
  /** besides its own files */
  files?: BoxRequest['files'];
  load?: readonly Load[];
  fails_at_full_heap?: boolean;
};

const NOTHING = new Uint8Array();

export class Program {
  readonly installed: Installed;
  readonly #parts: ProgramParts;
  readonly #order: CompileOrder;
  #compiled: CompileResult | null = null;
  /** Of the execution: a run may have one that ends it earlier. */
  #signal: AbortSignal | null = null;
  /** It was compiled again, or is: once, for all of its runs. */
  #renewal: Promise<boolean> | null = null;

  /** Throws if this machine cannot run the language. */
  constructor(parts: ProgramParts, order: CompileOrder) {
    const installed = parts.toolchains.get(order.language);
    if (installed === undefined) {
      throw new Error(`this machine cannot run ${order.language}: see \`./runledger doctor\``);
    }
    this.installed = installed;
    this.#parts = parts;
    this.#order = order;
  }

  /** Null for an interpreted language, and before `prepare`. */
  get compiled(): CompileResult | null {
    return this.#compiled;
  }

  /** The paths of all of its files. */
  get paths(): string[] {
    return [this.#order.main, ...this.#order.others.map(({ path }) => path)];
  }

  /** False: the compiler rejected it, and it cannot be run. */
  async prepare(signal: AbortSignal): Promise<boolean> {
    if (this.installed.compiler === null) return true;
    this.#signal = signal;
    this.#compiled = await this.#parts.compiler.compile(this.installed, this.#order, signal);
    return this.#compiled.program !== null;
  }

  /** `onRun` gets what shows its output while it runs. */
  async run(
    run: ProgramRun,
    signal: AbortSignal,
    onRun?: (peek: Peek) => void,
  ): Promise<RunReport> {
    const { sandbox } = this.#parts;
    const once = async () => observed(await sandbox.run(this.request(run), { signal, onRun }));
    try {
      return await once();
    } catch (error) {
      if (!(await this.renew(error))) throw error;
      return once();
    }
  }

  /** For a caller that runs it itself. */
  request({
    args,
    limits,
    files = [],
    load = [],
    stdin = NOTHING,
    fails_at_full_heap = false,
    ...more
  }: ProgramRun) {
    const { language, compiler, forks_if, run } = this.installed;
    const { main, code, others, account_id } = this.#order;
    const program = this.#compiled?.program ?? null;
    const artefact = compiler === null ? '' : `${LOAD_FOLDER}/${compiler.artefact}`;
    const entry = program?.entry ?? '';
    const has_files = others.length > 0;
    const own = compiler === null ? [{ path: main, bytes: code }, ...others] : others;
    const loads = program === null ? load : [{ key: program.artefact, at: LOAD_FOLDER }, ...load];
    const request: BoxRequest = {
      ...run({ artefact, entry, source: main, has_files, args, limits, fails_at_full_heap }),
      cwd: WORK_FOLDER,
      files: [...own, ...files],
      stdin,
      limits,
      profile: language.name,
      ...(loads.length > 0 && { load: loads }),
      ...(forks_if !== undefined &&
        this.#parts.isOn(forks_if) && { zygote: { account: account_id } }),
      ...more,
    };
    return request;
  }

  get account_id(): string {
    return this.#order.account_id;
  }

  /** Compiles it again if this error may be because its files are gone. True: its run is to be repeated, once. */
  async renew(error: unknown): Promise<boolean> {
    if (!wasMissing(error)) return false;
    if (this.#renewal === null) {
      if (!this.#compiled?.facts.cached) return false;
      this.#renewal = this.#compileAgain();
    }
    return this.#renewal;
  }

  #compileAgain(): Promise<boolean> {
    this.#parts.compiler.forget(this.installed, this.#order);
    this.release();
    return this.prepare(this.#signal!);
  }

  release(): void {
    this.#compiled?.program?.release();
  }
}

/** A run whose end nobody saw says nothing about the program. */
export function observed(report: RunReport): RunReport {
  if (interrupted(report)) throw new SandboxFault('rejected', 'the program ended unobserved');
  return report;
}
