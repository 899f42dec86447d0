/**
 * One execution: compile the program or find it, run it in a box, judge the report. What the program
 * does is data and ends as an outcome. What goes wrong with the service throws, and is never a
 * verdict.
 */
import { type LimitPolicy, limitsFor, type RunLimits } from '../domain/limits.ts';
import type { BoxReport, ExecutionOrder, ExecutionOutcome } from '../domain/result.ts';
import { interrupted, judge } from '../domain/verdict.ts';
import { equalOutput } from '../judging/compare.ts';
import { LOAD_FOLDER, WORK_FOLDER } from '../languages/common/box.ts';
import type { IsOn } from '../languages/common/language.ts';
import { type Installed, switchReader, type Toolchains } from '../languages/common/toolchains.ts';
import { type CompileResult, Compiler } from './compile.ts';
import { bootId, type CompileCache } from './compile_cache.ts';
import { cutDiagnostics } from './compile_limits.ts';
import { openCompilers } from './compilers.ts';
import { type Sandbox, SandboxFault } from './sandbox.ts';

export type ExecutorOptions = {
  sandbox: Sandbox;
  /** the languages that it runs */
  toolchains: Toolchains;
  cache: CompileCache;
  policy: LimitPolicy;
  /** speed-ups, by name; one that is not named is on */
  switches?: Readonly<Record<string, boolean>>;
  log?: (message: string, error: Error) => void;
};

export type Executor = {
  languages(): string[];
  /** Throws SandboxFault where no outcome could be had. */
  execute(order: ExecutionOrder, signal: AbortSignal): Promise<ExecutionOutcome>;
  /** Settles when everything that is made ahead is there, or cannot be made. */
  prepared(): Promise<void>;
  close(): Promise<void>;
};

export async function createExecutor(options: ExecutorOptions): Promise<Executor> {
  const { sandbox, cache, policy, switches = {}, log = () => {} } = options;
  const toolchains = runnable(options.toolchains, sandbox.isolation.degraded);
  const isOn = switchReader(switches);
  const { artefacts_folder } = cache;
  const boot = await bootId();
  const compilers = openCompilers({ sandbox, toolchains, artefacts_folder, boot, isOn, log });
  const compiler = new Compiler({ sandbox, cache, policy, compilers: compilers.open });
  const parts: Parts = { sandbox, toolchains, policy, compiler, isOn };
  return {
    languages: () => [...toolchains.keys()],
    execute: (order, signal) => execute(parts, order, signal),
    prepared: () => compilers.prepared(),
    async close() {
      await compilers.close();
      await cache.settled();
    },
  };
}

/** Those that this isolation can run. */
export function runnable(toolchains: Toolchains, degraded: boolean): Toolchains {
  return new Map([...toolchains].filter(([, { needs_box }]) => !(degraded && needs_box)));
}

type Parts = Pick<ExecutorOptions, 'sandbox' | 'toolchains' | 'policy'> & {
  compiler: Compiler;
  isOn: IsOn;
};

async function execute(
  parts: Parts,
  order: ExecutionOrder,
  signal: AbortSignal,
): Promise<ExecutionOutcome> {
  const installed = parts.toolchains.get(order.language);
  if (installed === undefined) {
    throw new Error(`this machine cannot run ${order.language}: see \`./runledger doctor\``);
  }
  const limits = limitsFor(installed.language.needs, order.limits, parts.policy);
  const execution: Execution = { installed, order, limits, signal };
  if (installed.compiler === null) {
    return outcomeOf(parts, execution, null, await run(parts, execution, null));
  }
  return compileAndRun(parts, execution, 2);
}

type Execution = {
  installed: Installed;
  order: ExecutionOrder;
  limits: RunLimits;
  signal: AbortSignal;
};

async function compileAndRun(
  parts: Parts,
  execution: Execution,
  attempts: number,
): Promise<ExecutionOutcome> {
  const { installed, order, signal } = execution;
  const compiled = await parts.compiler.compile(installed, order, signal);
  const { program } = compiled;
  if (program === null) return outcomeOf(parts, execution, compiled, null);
  try {
    const report = await run(parts, execution, program);
    return outcomeOf(parts, execution, compiled, report);
  } catch (error) {
    // A cached program whose files are gone is compiled again; the caller sees any other fault.
    const rejected = error instanceof SandboxFault && error.kind === 'rejected';
    if (!rejected || !compiled.facts.cached || attempts === 1) throw error;
    parts.compiler.forget(installed, order);
  } finally {
    program.release();
  }
  return compileAndRun(parts, execution, attempts - 1);
}

async function run(
  { sandbox, isOn }: Parts,
  { installed, order, limits, signal }: Execution,
  program: { artefact: string; entry: string } | null,
): Promise<BoxReport> {
  const { language, compiler, forks_if } = installed;
  const artefact = compiler === null ? '' : `${LOAD_FOLDER}/${compiler.artefact}`;
  const entry = program?.entry ?? '';
  const command = installed.run({ artefact, entry, args: order.args, limits });
  const report = await sandbox.run(
    {
      ...command,
      cwd: WORK_FOLDER,
      files: program === null ? [{ path: language.source, bytes: order.code }] : [],
      stdin: order.stdin,
      limits,
      profile: order.language,
      ...(program && { load: [{ key: program.artefact, at: LOAD_FOLDER }] }),
      ...(forks_if !== undefined && isOn(forks_if) && { zygote: { account: order.account_id } }),
    },
    { signal },
  );
  if (interrupted(report)) throw new SandboxFault('rejected', 'the program ended unobserved');
  return report;
}

function outcomeOf(
  { sandbox }: Parts,
  { installed, order, limits }: Execution,
  compiled: CompileResult | null,
  report: BoxReport | null,
): ExecutionOutcome {
  const { kind, degraded, missing } = sandbox.isolation;
  const judgement = judge({
    compile: compiled?.end ?? null,
    run: report,
    limits,
    isWrong: wrongOutput(order),
    runtime: installed.language,
    degraded,
  });
  if (judgement.verdict === 'IE') throw new SandboxFault('rejected', 'the report cannot be judged');
  return {
    ...judgement,
    status: 'completed',
    cpu_time_us: report?.cpu_us ?? null,
    wall_time_us: report?.wall_us ?? null,
    memory_peak_bytes: report?.memory_peak_bytes ?? null,
    ...outputsOf(compiled, report, limits),
    compile: compiled?.facts ?? null,
    limits,
    evidence: {
      isolation: kind,
      degraded,
      ...(missing !== null && { missing }),
      toolchain: installed.version,
      run: report && evidenceOf(report),
      compile: compiled && { by: compiled.by, killed_for: compiled.end.killed_for },
    },
  };
}

function wrongOutput({ expected_output: answer, compare }: ExecutionOrder) {
  return answer && ((stdout: Uint8Array) => !equalOutput(compare, stdout, answer));
}

function outputsOf(compiled: CompileResult | null, report: BoxReport | null, limits: RunLimits) {
  if (report === null) {
    const { bytes, truncated } = cutDiagnostics(compiled!, limits.stderr_bytes);
    return {
      stdout: new Uint8Array(),
      stderr: bytes,
      stdout_truncated: false,
      stderr_truncated: truncated,
    };
  }
  return {
    stdout: report.stdout,
    stderr: report.stderr,
    stdout_truncated: report.stdout_seen_bytes > report.stdout.length,
    stderr_truncated: report.stderr_seen_bytes > report.stderr.length,
  };
}

function evidenceOf(report: BoxReport): Record<string, unknown> {
  const { stdout: _stdout, stderr: _stderr, ...counted } = report;
  return counted;
}
