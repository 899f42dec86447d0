/**
 * One execution: compile the program or find it, run it in a box, judge the report. What the program
 * does is data and ends as an outcome. What goes wrong with the service throws, and is never a
 * verdict. An order with judging is judged_execution.ts's.
 */
import { type LimitPolicy, limitsFor } from '../domain/limits.ts';
import { judge } from '../domain/verdict.ts';
import { equalOutput } from '../judging/compare.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../judging/execution.ts';
import { switchReader, type Toolchains } from '../languages/common/toolchains.ts';
import { Compiler } from './compile.ts';
import { bootId, type CompileCache } from './compile_cache.ts';
import { openCompilers } from './compilers.ts';
import type { ContentCache } from './content_cache.ts';
import { outcomeOf } from './execution_outcome.ts';
import {
  executeJudged,
  type JudgedParts,
  TESTS_WALL_MS,
  type Watchers,
} from './judged_execution.ts';
import { Program } from './program.ts';
import { type Sandbox, SandboxFault } from './sandbox.ts';

export type ExecutorOptions = {
  sandbox: Sandbox;
  /** the languages that it runs */
  toolchains: Toolchains;
  cache: CompileCache;
  policy: LimitPolicy;
  /** the files of test sets; without it only orders that have all their bytes can be executed */
  contents?: ContentCache;
  /** the elapsed time of all tests of one execution */
  tests_wall_ms?: number;
  /** speed-ups, by name; one that is not named is on */
  switches?: Readonly<Record<string, boolean>>;
  log?: (message: string, error: Error) => void;
};

export type Executor = {
  /** the version of each language that it runs */
  toolchains(): Record<string, string>;
  /** Throws SandboxFault where no outcome could be had. `onProgress` and `spareSlot` are for an order that has tests. */
  execute(
    order: ExecutionOrder,
    signal: AbortSignal,
    watchers?: Partial<Watchers>,
  ): Promise<ExecutionOutcome>;
  /** Settles when everything that is made ahead is there, or cannot be made. */
  prepared(): Promise<void>;
  close(): Promise<void>;
};

export async function createExecutor(options: ExecutorOptions): Promise<Executor> {
  const { sandbox, cache, policy, switches = {}, log = () => {} } = options;
  const { contents = null, tests_wall_ms = TESTS_WALL_MS } = options;
  const toolchains = runnable(options.toolchains, sandbox.isolation.degraded);
  const isOn = switchReader(switches);
  const { artefacts_folder } = cache;
  const boot = await bootId();
  const rooms = contents === null ? [cache] : [cache, contents];
  const compilers = openCompilers({
    ...{ sandbox, toolchains, artefacts_folder, boot, rooms, isOn, log },
    compile_limits: policy.compile,
  });
  const compiler = new Compiler({ sandbox, cache, rooms, policy, compilers });
  const parts: JudgedParts = {
    ...{ sandbox, toolchains, compiler, isOn, policy, contents, tests_wall_ms },
  };
  return {
    toolchains: () =>
      Object.fromEntries([...toolchains].map(([name, { version }]) => [name, version])),
    execute: (order, signal, watchers) => execute(parts, order, signal, { ...NOBODY, ...watchers }),
    prepared: () => compilers.prepared(),
    async close() {
      await compilers.close();
      await cache.settled();
    },
  };
}

const NOBODY: Watchers = { onProgress: () => {}, spareSlot: () => null, onRun: () => {} };

/** Those that this isolation can run. */
export function runnable(toolchains: Toolchains, degraded: boolean): Toolchains {
  return new Map([...toolchains].filter(([, { needs_box }]) => !(degraded && needs_box)));
}

async function execute(
  parts: JudgedParts,
  order: ExecutionOrder,
  signal: AbortSignal,
  watchers: Watchers,
): Promise<ExecutionOutcome> {
  const { account_id, language, code, judging } = order;
  const main = parts.toolchains.get(language)?.language.source ?? '';
  const others = judging?.files ?? [];
  const program = new Program(parts, { account_id, language, main, code, others });
  try {
    if (judging === null) return await executePlain(parts, program, order, signal, watchers);
    return await executeJudged(parts, program, { ...order, judging }, signal, watchers);
  } finally {
    program.release();
  }
}

async function executePlain(
  { sandbox, policy }: JudgedParts,
  program: Program,
  order: ExecutionOrder,
  signal: AbortSignal,
  { onRun }: Watchers,
): Promise<ExecutionOutcome> {
  const { language } = program.installed;
  const { args, stdin, expected_output: answer, compare } = order;
  const limits = limitsFor(language.needs, order.limits, policy);
  const is_ready = await program.prepare(signal);
  const run = is_ready ? await program.run({ args, limits, stdin }, signal, onRun) : null;
  const judgement = judge({
    compile: program.compiled?.end ?? null,
    run,
    limits,
    isWrong: answer && ((stdout) => !equalOutput(compare, stdout, answer)),
    runtime: language,
    degraded: sandbox.isolation.degraded,
  });
  if (judgement.verdict === 'IE') throw new SandboxFault('rejected', 'the report cannot be judged');
  return outcomeOf(sandbox.isolation, { program, judgement, run, limits });
}
