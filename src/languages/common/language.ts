/**
 * What a language is. Each language is one file in `src/languages/` (or the entry of a folder of its
 * own) that exports a `Language`; nothing outside that folder knows a language by name.
 *
 * A `Language` is what is true on every machine. Its `probe` turns an executable of this machine into
 * a `Toolchain`: the commands that compile and run a program here. `openCompiler` turns a toolchain
 * into a compiler at work, with whatever it keeps warm. A language asks for boxes through `Workshop`
 * and never sees the sandbox itself.
 */
import type { RunLimits, RuntimeNeeds } from '../../domain/limits.ts';
import type { RuntimeMemory } from '../../domain/verdict.ts';
import type { Command, Load, StandingBox, Step } from './box.ts';

export type Language = RuntimeMemory & {
  /** The canonical name: in the API, in the log, in the queue's task. The file is called after it. */
  readonly name: string;
  /** The name that people write. */
  readonly title: string;
  /** Other names that the API accepts. */
  readonly aliases: readonly string[];
  /** Endings of source files, without the dot: of `./runledger run FILE` and of a problem package's programs. */
  readonly endings: readonly string[];
  /** Where the ending of a file says more than its text does: the text to submit instead. */
  readonly fromFile?: (code: string, ending: string) => string;
  /**
   * A language with a rank is on unless RUNLEDGER_LANGUAGES says otherwise. Lists begin with these,
   * in the order of their ranks; the others follow by name.
   */
  readonly default_rank?: number;
  readonly packages: readonly DebianPackage[];
  readonly switches: readonly Switch[];
  /** A program that prints 42, for documents. It has no single quote, so a shell can quote it. */
  readonly hello: string;
  /** What the source file is called in the box. */
  readonly source: string;
  /** Of a compiled language: what a compile leaves in the work folder. No folder there can have its name. */
  readonly artefact?: string;
  /** What problem packages call it in place of its name. */
  readonly package_codes?: readonly string[];
  /** All sources are compiled together, so a program of several need not say which is the main one. */
  readonly has_no_main_source?: true;
  /** A source that begins so is in a version of the language that does not run here. */
  readonly old_version?: { readonly beginning: RegExp; readonly title: string };
  readonly needs: RuntimeNeeds;
  /** Paths to probe, the best first. Paths that don't exist are skipped. */
  candidates(search: Search): readonly string[] | Promise<readonly string[]>;
  /** Asks an executable what it is. Throws, or answers why not, where it cannot be used. */
  probe(executable: string, isOn: IsOn): Promise<Probed>;
};

export type DebianPackage = {
  name: string;
  /** Installed in place of `name`: the first of these that the release has. */
  rather?: readonly string[];
  /** The package is missing where this command is. */
  command: string;
  /** Only makes things faster. */
  optional?: boolean;
  /** What an administrator has to know about it. */
  note?: string;
};

/** A speed-up that an operator can switch off with a variable. It never changes what a program means. */
export type Switch = { readonly name: string; readonly variable: string; readonly reason: string };
export type IsOn = (name: string) => boolean;

export type Search = {
  /** Where a program of this name may be: the system's folders, then those of PATH. */
  named(program: string): readonly string[];
};

export type Probed = { found: Toolchain } | { why: string };

export type Toolchain = {
  /** As the evidence of a run names it. */
  readonly version: string;
  /** Where it is on this machine. */
  readonly at: string;
  /** The machine's files that a program's box contains. A compiler's box has the same, unless it has its own list. */
  readonly mounts: readonly Mount[];
  /** What `./runledger doctor` shows besides. */
  readonly notes?: readonly { check: string; found: string }[];
  /** The switch with which the launcher may fork runs from a warm process of the same command. */
  readonly forks_if?: string;
  /** It does not run in degraded isolation, where a program has no root and no control group of its own. */
  readonly needs_box?: boolean;
  run(program: Program): Command;
  /** Null for an interpreted language. */
  readonly compiler: Compiler | null;
};

/** What a program is made of, by paths in the work folder. */
export type Sources = {
  /** the path of the main source, which has the language's own name if it is the only file */
  main: string;
  code: Uint8Array;
  others: readonly { path: string; bytes: Uint8Array }[];
};

/** A folder, file or link of this machine, and its path in the box. */
export type Mount = {
  from: string;
  to: string;
  /** A file that programs map, or a link to one: each slot has a copy of its own. */
  own?: boolean;
};

export type Program = {
  /** Where the box sees the compiled program. */
  artefact: string;
  /** What the compiler named as the entry point. */
  entry: string;
  /** The path of the main source in the work folder: of an interpreted language, which has no artefact. */
  source: string;
  /** The program has other files in the work folder, and may import them. */
  has_files: boolean;
  args: readonly string[];
  limits: RunLimits;
  /** If its heap is full, the runtime ends it with an exit code for this case, and throws no exception. */
  fails_at_full_heap: boolean;
};

export type Compiler = {
  /** The machine's files in the compiler's box, if they are others than the program's. */
  readonly mounts?: readonly Mount[];
  /** What a compile leaves in the work folder: a file, or a folder of files. */
  readonly artefact: string;
  /** in the folder */
  readonly most_files?: number;
  /** Everything that decides what the same source becomes: part of the compile cache's key. */
  readonly recipe: string;
  /** The compiler prints the name of the entry point on stdout. */
  readonly names_entry?: boolean;
  /**
   * Finds the limit of ours that a failed compile met, where only the tools of the compiler know it: they exit with a
   * code of their own, or print a line. `said` is what they printed, one character for each byte.
   */
  limitMet?(exit_code: number | null, said: string): LimitMet | null;
  /** The most boxes that its resident compilers keep open. */
  readonly standing_boxes?: (isOn: IsOn, compile_limits: RunLimits) => number;
  open(workshop: Workshop): OpenCompiler;
};

export type OpenCompiler = {
  /**
   * The ways to compile a source, tried in order. The last one decides: its answer is the one that
   * users read. An earlier one is a speed-up, and only its success counts.
   */
  steps(sources: Sources): readonly CompileStep[] | Promise<readonly CompileStep[]>;
  /**
   * Asks a compiler that is already running. Its answer is final, so it must be the answer of the last
   * step, letter for letter. Without an answer, `steps` decides. It is asked only for a source without other files.
   */
  resident?(account_id: string, code: Uint8Array, signal: AbortSignal): Promise<ResidentReply>;
  /** Makes ahead what saves time later. Called once, while programs are already being run. */
  prepare?(): Promise<void>;
  /** Compiling waits for what `prepare` makes first, so it goes before what only saves time. */
  readonly waits_for_preparation?: boolean;
  /** Settles when what it keeps running is warm. */
  ready?(): Promise<void>;
  close?(): Promise<void>;
};

/** `by` names the way in the evidence. */
export type CompileStep = Step & { by: string };

export type ResidentReply = {
  /** null: none is free, or it ended instead of answering */
  answer: ResidentAnswer | null;
  /** the cost of this compile, also where it has no answer; null where the box could not be asked */
  cpu_us: number | null;
  wall_us: number;
};

export type ResidentAnswer = {
  compiled: boolean;
  /** They may be longer than the limit of a compile's output. The caller cuts them. */
  said: Uint8Array;
  entry: string;
  /** of the program, by their paths: of the artefact, or in it */
  files: ReadonlyMap<string, Uint8Array>;
};

export type LimitMet = {
  limit: 'memory' | 'files' | 'stack';
  /** where it is not the limit of the box */
  bytes?: number;
  /** The diagnostics end here. The rest is how the compiler reports the limit, often as a defect of its own. */
  said_until: number;
};

/** What a language may ask of the executor. */
export type Workshop = {
  isOn: IsOn;
  /** Of one compile, as the operator set them. */
  compile_limits: RunLimits;
  /** How many boxes may be open at one time. */
  standing_boxes: number;
  /** Runs a step once and keeps the file that it leaves; answers its key in the store. */
  make(step: Step & { leaves: string }): Promise<string>;
  /** Opens a box that stays, in this language's profile. */
  open(request: Command & { load: readonly Load[]; limits: RunLimits }): Promise<StandingBox>;
  /**
   * Runs `make`. If it fails, the failure is logged, the service goes on without the result, and `make` is repeated in the
   * background.
   */
  attempt(what: string, make: () => Promise<void>): Promise<void>;
  log(message: string, error: Error): void;
};

/** Of a program that is its own runtime, or whose runtime starts within any limit. */
export const NO_NEEDS: RuntimeNeeds = {
  wall_factor: 1,
  more_processes: 0,
  more_files: 0,
  least_memory_bytes: 0,
  least_stack_bytes: 0,
  least_processes: 1,
};
