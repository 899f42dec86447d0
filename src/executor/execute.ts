/**
 * One execution: compile or find the program, run it in a box, judge the report. What the program
 * does is data and ends as an outcome; what goes wrong with the service throws, and is nobody's
 * verdict.
 */
import { type Language, type LimitPolicy, limitsFor, type RunLimits } from '../domain/limits.ts';
import type { BoxReport, ExecutionOrder, ExecutionOutcome } from '../domain/result.ts';
import { interrupted, judge } from '../domain/verdict.ts';
import { type CompileResult, Compiler } from './compile.ts';
import { bootId, type CompileCache } from './compile_cache.ts';
import { HEADER_SETS } from './headers.ts';
import { JavaCompilers } from './java_compiler.ts';
import { LANGUAGES, LOAD_FOLDER, WORK_FOLDER } from './languages.ts';
import { Preparation } from './prepare.ts';
import { Prepared } from './prepared.ts';
import { type Sandbox, SandboxFault } from './sandbox.ts';
import type { Toolchains } from './toolchains.ts';

export type ExecutorOptions = {
  sandbox: Sandbox;
  toolchains: Toolchains;
  cache: CompileCache;
  policy: LimitPolicy;
  /** what this deployment takes; of those, what the machine can do */
  languages?: readonly string[];
  speed?: Partial<SpeedUps>;
  header_sets?: readonly (readonly string[])[];
  log?: (message: string, error: Error) => void;
};

/** Each can be switched off; none changes what a program means. */
export type SpeedUps = {
  precompiled_headers: boolean;
  /** how many compilers may stay, each about 150 MB; 0: none */
  resident_java_compilers: number;
  python_zygote: boolean;
};

const ALL_SPEED: SpeedUps = {
  precompiled_headers: true,
  resident_java_compilers: 4,
  python_zygote: true,
};

export type Executor = {
  languages(): Language[];
  /** Throws SandboxFault where no outcome could be had. */
  execute(order: ExecutionOrder, signal: AbortSignal): Promise<ExecutionOutcome>;
  /** Settles when all that is made ahead is made. */
  prepared(): Promise<void>;
  close(): Promise<void>;
};

export async function createExecutor(options: ExecutorOptions): Promise<Executor> {
  const speed = { ...ALL_SPEED, ...options.speed };
  const { sandbox, toolchains, cache, policy, log = () => {} } = options;
  const preparation = new Preparation(sandbox, cache.artefacts_folder, await bootId());
  const header_sets = speed.precompiled_headers ? (options.header_sets ?? HEADER_SETS) : [];
  const prepared = new Prepared({ preparation, toolchains, header_sets, log });
  const java_compilers = residentCompilers(options, speed, prepared);
  const compiler = new Compiler({ sandbox, toolchains, cache, policy, prepared, java_compilers });
  const parts: Parts = { ...options, compiler, speed };
  return {
    languages: () => available(options),
    execute: (order, signal) => execute(parts, order, signal),
    async prepared() {
      await prepared.done;
      await java_compilers?.warmed();
    },
    async close() {
      await java_compilers?.close();
      await cache.settled();
    },
  };
}

type Parts = ExecutorOptions & { compiler: Compiler; speed: SpeedUps };

function residentCompilers(
  { sandbox, toolchains, log = () => {} }: ExecutorOptions,
  speed: SpeedUps,
  prepared: Prepared,
): JavaCompilers | null {
  const most = Math.min(speed.resident_java_compilers, sandbox.isolation.stream_slots);
  if (toolchains.java === null || most === 0) return null;
  return new JavaCompilers({
    sandbox,
    tools: toolchains.java,
    front: () => prepared.javaFront(),
    most,
    log,
  });
}

function available({ languages, toolchains }: ExecutorOptions): Language[] {
  const here = (Object.keys(LANGUAGES) as Language[]).filter((name) => toolchains[name] !== null);
  return languages === undefined ? here : here.filter((name) => languages.includes(name));
}

async function execute(
  parts: Parts,
  order: ExecutionOrder,
  signal: AbortSignal,
): Promise<ExecutionOutcome> {
  if (parts.toolchains[order.language] === null) {
    throw new Error(`this machine cannot run ${order.language}: see \`./runledger doctor\``);
  }
  const limits = limitsFor(order.language, order.limits, parts.policy);
  if (LANGUAGES[order.language].compile === null) {
    return outcomeOf(parts, order, limits, null, await run(parts, order, limits, null, signal));
  }
  return compileAndRun(parts, order, limits, signal, 2);
}

async function compileAndRun(
  parts: Parts,
  order: ExecutionOrder,
  limits: RunLimits,
  signal: AbortSignal,
  attempts: number,
): Promise<ExecutionOutcome> {
  const compiled = await parts.compiler.compile(order, signal);
  const { program } = compiled;
  if (program === null) return outcomeOf(parts, order, limits, compiled, null);
  try {
    const report = await run(parts, order, limits, program, signal);
    return outcomeOf(parts, order, limits, compiled, report);
  } catch (error) {
    // A cached program whose files are gone is compiled again; any other fault is the caller's to see.
    const refused = error instanceof SandboxFault && error.kind === 'refused';
    if (!refused || !compiled.facts.cached || attempts === 1) throw error;
    parts.compiler.forget(order);
  } finally {
    program.release();
  }
  return compileAndRun(parts, order, limits, signal, attempts - 1);
}

async function run(
  { sandbox, toolchains, speed }: Parts,
  order: ExecutionOrder,
  limits: RunLimits,
  program: { artefact: string; entry: string } | null,
  signal: AbortSignal,
): Promise<BoxReport> {
  const row = LANGUAGES[order.language];
  const command = commandOf(toolchains, order, limits, program?.entry ?? '');
  const report = await sandbox.run(
    {
      ...command,
      cwd: WORK_FOLDER,
      files: program === null ? [{ path: row.source, bytes: order.code }] : [],
      stdin: order.stdin,
      limits,
      profile: order.language,
      ...(program && { load: [{ key: program.artefact, at: LOAD_FOLDER }] }),
      ...(speed.python_zygote &&
        order.language === 'python' && { zygote: { account: order.account_id } }),
    },
    { signal },
  );
  if (interrupted(report)) throw new SandboxFault('refused', 'the program ended unobserved');
  return report;
}

function commandOf(
  toolchains: Toolchains,
  { language, args }: ExecutionOrder,
  limits: RunLimits,
  entry: string,
) {
  const row = LANGUAGES[language];
  const program = { artefact: `${LOAD_FOLDER}/${row.artefact}`, entry, args, limits };
  // Each row takes its own language's tools; the table's key says which those are.
  return (row.run as (tools: unknown, program: unknown) => ReturnType<typeof row.run>)(
    toolchains[language],
    program,
  );
}

function outcomeOf(
  { sandbox, toolchains }: Parts,
  order: ExecutionOrder,
  limits: RunLimits,
  compiled: CompileResult | null,
  report: BoxReport | null,
): ExecutionOutcome {
  const row = LANGUAGES[order.language];
  const judgement = judge({
    compile: compiled?.end ?? null,
    run: report,
    limits,
    expected_output: order.expected_output,
    compare: order.compare,
    out_of_memory_words: row.out_of_memory_words,
  });
  if (judgement.verdict === 'IE') throw new SandboxFault('refused', 'the report cannot be judged');
  const { kind, degraded } = sandbox.isolation;
  const version = (row.version as (tools: unknown) => string)(toolchains[order.language]);
  return {
    ...judgement,
    status: 'completed',
    cpu_time_us: report?.cpu_us ?? null,
    wall_time_us: report?.wall_us ?? null,
    memory_peak_bytes: report?.memory_peak_bytes ?? null,
    ...outputsOf(compiled, report, limits),
    compile: compiled?.facts ?? null,
    evidence: {
      isolation: kind,
      degraded,
      toolchain: version,
      limits,
      run: report && evidenceOf(report),
      compile: compiled && { by: compiled.by, killed_for: compiled.end.killed_for },
    },
  };
}

function outputsOf(compiled: CompileResult | null, report: BoxReport | null, limits: RunLimits) {
  if (report === null) {
    const said = compilerSaid(compiled);
    return {
      stdout: new Uint8Array(),
      stderr: said.subarray(0, limits.stderr_bytes),
      stdout_truncated: false,
      stderr_truncated: (compiled?.said_truncated ?? false) || said.length > limits.stderr_bytes,
    };
  }
  return {
    stdout: report.stdout,
    stderr: report.stderr,
    stdout_truncated: report.stdout_seen_bytes > report.stdout.length,
    stderr_truncated: report.stderr_seen_bytes > report.stderr.length,
  };
}

const LIMIT_WORDS = {
  cpu: 'CPU time',
  wall: 'time',
  output: 'output',
  cancelled: '',
  deadline: '',
};

/** A compiler that we ended had no last word. */
function compilerSaid(compiled: CompileResult | null): Uint8Array {
  if (compiled === null) return new Uint8Array();
  const { killed_for } = compiled.end;
  if (killed_for === null) return compiled.said;
  const why = `\nThe compiler was ended: it went over its limit of ${LIMIT_WORDS[killed_for]}.\n`;
  return Buffer.concat([compiled.said, Buffer.from(why)]);
}

function evidenceOf(report: BoxReport): Record<string, unknown> {
  const { stdout: _stdout, stderr: _stderr, ...counted } = report;
  return counted;
}
