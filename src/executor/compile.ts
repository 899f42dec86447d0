/**
 * From a source to something that runs: the cache's, or the compiler's, which works in a box under
 * its own limits. A speed-up may only ever say "compiled": whatever it refuses, or fails at, is asked
 * again of the plain compiler, whose word is the one that a user reads.
 */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LimitPolicy } from '../domain/limits.ts';
import type { CompileFacts, ExecutionOrder } from '../domain/result.ts';
import { type CompileEnd, exitCodeOf, interrupted, refused } from '../domain/verdict.ts';
import type { CompileCache, Held } from './compile_cache.ts';
import { chooseHeaders } from './headers.ts';
import type { JavaCompilers } from './java_compiler.ts';
import { LANGUAGES, LOAD_FOLDER, SECOND_LOAD_FOLDER, WORK_FOLDER } from './languages.ts';
import type { Prepared } from './prepared.ts';
import { type RunReport, type Sandbox, SandboxFault } from './sandbox.ts';
import type { Toolchains } from './toolchains.ts';

export type CompileResult = {
  end: CompileEnd;
  facts: CompileFacts;
  /** what the compiler had to say, cut at its limit */
  said: Uint8Array;
  said_truncated: boolean;
  /** null when it was refused; to be released after the run */
  program: Held | null;
  /** which way it went: for the evidence */
  by: string;
};

export type CompilerParts = {
  sandbox: Sandbox;
  toolchains: Toolchains;
  cache: CompileCache;
  policy: LimitPolicy;
  prepared: Prepared;
  java_compilers: JavaCompilers | null;
};

const MiB = 1024 * 1024;
/** The run's slot waits while it is saved. */
const ARTEFACT_BYTES = 32 * MiB;
const HEADERS_FOLDER = '.headers';

export class Compiler {
  readonly #parts: CompilerParts;

  constructor(parts: CompilerParts) {
    this.#parts = parts;
  }

  async compile(order: ExecutionOrder, signal: AbortSignal): Promise<CompileResult> {
    const key = this.#keyOf(order);
    const found = this.#parts.cache.find(key);
    if (found !== null) return fromCache(found);
    return order.language === 'java'
      ? this.#compileJava(order, key, signal)
      : this.#compileCpp(order, key, signal);
  }

  /** A program of the cache that could not be loaded. */
  forget(order: ExecutionOrder): void {
    this.#parts.cache.forget(this.#keyOf(order));
  }

  #keyOf({ account_id, language, code }: ExecutionOrder): string {
    return this.#parts.cache.keyOf({ account_id, recipe: this.recipeOf(language), code });
  }

  recipeOf(language: ExecutionOrder['language']): string {
    const { toolchains } = this.#parts;
    if (language === 'java' && toolchains.java) return LANGUAGES.java.recipe(toolchains.java);
    if (language === 'cpp' && toolchains.cpp) return LANGUAGES.cpp.recipe(toolchains.cpp);
    return '';
  }

  async #compileCpp(
    order: ExecutionOrder,
    key: string,
    signal: AbortSignal,
  ): Promise<CompileResult> {
    const { toolchains, prepared } = this.#parts;
    const tools = present(toolchains.cpp);
    const plain: Step = { ...LANGUAGES.cpp.compile!(tools, {}), load: [], files: [] };
    const choice = chooseHeaders(order.code, prepared.headerSets);
    if (choice === null) return this.#inBox(order, key, plain, 'plain', signal);
    const header = `${HEADERS_FOLDER}/${choice.first}`;
    const withHeaders: Step = {
      ...LANGUAGES.cpp.compile!(tools, { include_first: HEADERS_FOLDER }),
      load: [{ key: prepared.headers(choice.set), at: `${WORK_FOLDER}/${header}.gch` }],
      // Where the same header is included again, what was made of it no longer stands for it.
      files: [{ path: header, bytes: Buffer.from(`#include_next <${choice.first}>\n`) }],
    };
    const by = `headers ${choice.set.join(' ')}`;
    const first = await this.#inBox(order, key, withHeaders, by, signal);
    // Diagnostics name the ways by which a header came in; only a plain compile has the true ones.
    if (first.program !== null || first.end.killed_for !== null) return first;
    return added(first, await this.#inBox(order, key, plain, 'plain', signal));
  }

  async #compileJava(
    order: ExecutionOrder,
    key: string,
    signal: AbortSignal,
  ): Promise<CompileResult> {
    const { java_compilers, toolchains, prepared } = this.#parts;
    const resident = await java_compilers?.compile(order.account_id, order.code, signal);
    if (resident) return this.#fromResident(order, key, resident);
    const tools = present(toolchains.java);
    const front = await prepared.javaFront();
    const archive = prepared.javaArchive;
    const command = LANGUAGES.java.compile!(tools, {
      java_front: `${LOAD_FOLDER}/front.jar`,
      java_archive: archive === null ? undefined : `${SECOND_LOAD_FOLDER}/front.jsa`,
    });
    const load = [{ key: front, at: LOAD_FOLDER }];
    if (archive !== null) load.push({ key: archive, at: SECOND_LOAD_FOLDER });
    return this.#inBox(order, key, { ...command, load, files: [] }, 'plain', signal);
  }

  async #inBox(
    order: ExecutionOrder,
    key: string,
    step: Step,
    by: string,
    signal: AbortSignal,
  ): Promise<CompileResult> {
    const { sandbox, cache, policy } = this.#parts;
    const row = LANGUAGES[order.language];
    const artefact = cache.newArtefact();
    const report = await sandbox.run(
      {
        ...step,
        files: [{ path: row.source, bytes: order.code }, ...step.files],
        stdin: new Uint8Array(),
        limits: policy.compile,
        profile: order.language,
        save: { key: artefact, paths: [row.artefact], max_bytes: ARTEFACT_BYTES, max_files: 1 },
      },
      { signal },
    );
    if (interrupted(report)) throw new SandboxFault('refused', 'the compiler ended unobserved');
    const result = resultOf(report, by);
    if (refused(report)) return result;
    if (report.saved === undefined) return unfit(result, report.save_refused);
    const entry = row.language === 'java' ? Buffer.from(report.stdout).toString() : '';
    const kept = { artefact, entry: checkedEntry(entry), bytes: report.saved.bytes };
    return { ...result, program: cache.keep(key, order.account_id, kept) };
  }

  async #fromResident(
    order: ExecutionOrder,
    key: string,
    answer: NonNullable<Awaited<ReturnType<JavaCompilers['compile']>>>,
  ): Promise<CompileResult> {
    const { cache } = this.#parts;
    const exit_code = answer.compiled ? 0 : 1;
    const { cpu_us: cpu_time_us, wall_us: wall_time_us } = answer;
    const result: CompileResult = {
      end: { exit_code, signal: null, killed_for: null },
      // Its memory is that of all its compiles: of this one it cannot be told.
      facts: { cpu_time_us, wall_time_us, memory_peak_bytes: null, exit_code, cached: false },
      said: answer.said,
      said_truncated: answer.said_truncated,
      program: null,
      by: 'resident',
    };
    if (!answer.compiled) return result;
    const artefact = cache.newArtefact();
    await putArtefact(cache.artefacts_folder, artefact, LANGUAGES.java.artefact, answer.archive);
    const kept = { artefact, entry: checkedEntry(answer.main_class), bytes: answer.archive.length };
    return { ...result, program: cache.keep(key, order.account_id, kept) };
  }
}

type Step = {
  argv: string[];
  env: Record<string, string>;
  load: { key: string; at: string }[];
  files: { path: string; bytes: Uint8Array }[];
};

function present<T>(tools: T | null): T {
  if (tools === null) throw new Error('this machine has no compiler for that language');
  return tools;
}

function fromCache(program: Held): CompileResult {
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

/** It compiled, to something that cannot be kept: too large, or not there. */
function unfit(result: CompileResult, why = 'it left no program'): CompileResult {
  const said = Buffer.concat([
    result.said,
    Buffer.from(`what was compiled cannot be run: ${why}\n`),
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
 * It becomes an argument of the java command, before the program's own: what a compiler that was
 * taken over by its input might say must not be read as an option or as a file of arguments.
 */
function checkedEntry(entry: string): string {
  if (/^[-@]|[\s\0]/.test(entry))
    throw new Error('the compiler named a main class that is no name');
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
