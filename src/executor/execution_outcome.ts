/** Puts the outcome of an execution together: how its program was compiled, the run that the record shows, and its judgement. */
import type { RunLimits } from '../domain/limits.ts';
import type { BoxReport } from '../domain/result.ts';
import type { Judgement } from '../domain/verdict.ts';
import { VERDICTS } from '../domain/verdicts.ts';
import type { ExecutionOutcome } from '../judging/execution.ts';
import type { CompileResult } from './compile.ts';
import { cutDiagnostics } from './compile_limits.ts';
import type { Program } from './program.ts';
import type { Isolation, RunReport } from './sandbox.ts';

type Measures = Pick<ExecutionOutcome, 'cpu_time_us' | 'wall_time_us' | 'memory_peak_bytes'>;

export type Ended = {
  program: Program;
  judgement: Judgement;
  /** null: nothing was run */
  run: RunReport | null;
  limits: RunLimits;
  /** those of the run, unless several runs count */
  measures?: Measures;
  judged?: ExecutionOutcome['judged'];
  /** the checker or interactor */
  judge?: Program | null;
};

export function outcomeOf(isolation: Isolation, ended: Ended): ExecutionOutcome {
  const { kind, degraded, missing } = isolation;
  const { program, judgement, run, limits, judge = null } = ended;
  const { compiled, installed } = program;
  return {
    ...judgement,
    status: VERDICTS[judgement.verdict].status,
    ...(ended.measures ?? measuresOf(run)),
    ...(run === null ? diagnosticsOf(compiled, limits) : outputsOf(run)),
    compile: compiled?.facts ?? null,
    limits,
    evidence: {
      isolation: kind,
      degraded,
      ...(missing !== null && { missing }),
      toolchain: installed.version,
      run: run && evidenceOf(run),
      compile: compileEvidence(compiled),
      ...(judge && {
        judge: { toolchain: judge.installed.version, compile: compileEvidence(judge.compiled) },
      }),
    },
    judged: ended.judged ?? null,
  };
}

function measuresOf(run: BoxReport | null): Measures {
  return {
    cpu_time_us: run?.cpu_us ?? null,
    wall_time_us: run?.wall_us ?? null,
    memory_peak_bytes: run?.memory_peak_bytes ?? null,
  };
}

type Outputs = Pick<
  ExecutionOutcome,
  'stdout' | 'stderr' | 'stdout_truncated' | 'stderr_truncated'
>;

function outputsOf(run: BoxReport): Outputs {
  return {
    stdout: run.stdout,
    stderr: run.stderr,
    stdout_truncated: run.stdout_seen_bytes > run.stdout.length,
    stderr_truncated: run.stderr_seen_bytes > run.stderr.length,
  };
}

/** Of a compiler that rejected the source; empty where the program was not run for another reason. */
function diagnosticsOf(compiled: CompileResult | null, limits: RunLimits): Outputs {
  const rejected = compiled !== null && compiled.program === null;
  const cut = rejected ? cutDiagnostics(compiled, limits.stderr_bytes) : null;
  return {
    stdout: new Uint8Array(),
    stderr: cut?.bytes ?? new Uint8Array(),
    stdout_truncated: false,
    stderr_truncated: cut?.truncated ?? false,
  };
}

/** Counters alone: no byte that a program wrote, and no name that it chose. */
function evidenceOf(run: RunReport): Record<string, unknown> {
  const { stdout: _stdout, stderr: _stderr, stderr_end: _end, ...rest } = run;
  const { kept: _kept, keep_refused, ...counted } = rest;
  return { ...counted, ...(keep_refused !== undefined && { keep_refused: true }) };
}

function compileEvidence(compiled: CompileResult | null) {
  return compiled && { by: compiled.by, killed_for: compiled.end.killed_for };
}
