/** Runs compile-time cases through the whole executor: compiler's box, program's box, verdict. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_POLICY, type LanguageName as Language } from '../../src/domain/limits.ts';
import { openCompileCache } from '../../src/executor/compile_cache.ts';
import { createExecutor, type Executor } from '../../src/executor/executor.ts';
import { profilesFor } from '../../src/executor/profiles.ts';
import { openSandbox } from '../../src/executor/sandbox.ts';
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { takePrepared } from '../support/prepared.ts';
import type { Host } from './case.ts';
import type { CompileCase, CompileSide } from './compile_case.ts';
import { openHost } from './host.ts';
import { COMPILE_WALL_MS, ROOM, SLOWNESS } from './slowness.ts';
import { LAUNCHER } from './suite.ts';

export type CompileResult = {
  test: CompileCase;
  side: 'hostile' | 'honest';
  problem: string | null;
  outcome: ExecutionOutcome | null;
  took_ms: number;
};

/** The speed-ups of compiling and starting. Each can be switched off. */
export const SPEED_UPS = ['precompiled_headers', 'java_compiler', 'compile_cache', 'python_zygote'];

/** javac is a program that the JVM only interprets at first: emulated, it takes a minute where other things run, too. */
const COMPILE_SLOWNESS = SLOWNESS > 1 ? 2 * SLOWNESS : 1;

type Bench = { executor: Executor; host: Host; languages: Language[]; close: () => Promise<void> };

export async function openCompileBench(without: readonly string[] = []): Promise<Bench> {
  const folder = await mkdtemp(join(tmpdir(), 'hostile-compile-'));
  const { toolchains } = await findToolchains();
  const cache = await openCompileCache({
    folder,
    max_bytes: without.includes('compile_cache') ? 0 : 2 ** 30,
    max_entries: 10_000,
  });
  await takePrepared(cache.artefacts_folder);
  const { host, close } = await openHost();
  const sandbox = await openSandbox({
    launcher: LAUNCHER,
    slots: 2,
    stream_slots: 2,
    profiles: await profilesFor(toolchains),
    store_dir: cache.artefacts_folder,
  });
  const { compile } = DEFAULT_POLICY;
  const slow = {
    ...compile,
    cpu_ms: compile.cpu_ms * COMPILE_SLOWNESS,
    wall_ms: COMPILE_WALL_MS,
  };
  const executor = await createExecutor({
    sandbox,
    toolchains,
    cache,
    policy: { ...DEFAULT_POLICY, compile: slow },
    switches: Object.fromEntries(without.map((name) => [name, false])),
  });
  // So that the first case, too, uses everything that is prepared ahead of time.
  await executor.prepared();
  return {
    executor,
    host,
    languages: Object.keys(executor.toolchains()),
    close: async () => {
      await executor.close();
      await Promise.all([sandbox.close(), close()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export async function runCompileCases(
  cases: readonly CompileCase[],
  each: (result: CompileResult) => void,
  without: readonly string[] = [],
): Promise<void> {
  const bench = await openCompileBench(without);
  const waiting = cases.filter(({ language }) => bench.languages.includes(language));
  const worker = async () => {
    for (let test = waiting.shift(); test; test = waiting.shift()) {
      each(await runSide(bench, test, 'hostile'));
      each(await runSide(bench, test, 'honest'));
    }
  };
  try {
    await Promise.all([worker(), worker()]);
  } finally {
    await bench.close();
  }
}

async function runSide(
  bench: Bench,
  test: CompileCase,
  name: 'hostile' | 'honest',
): Promise<CompileResult> {
  const side = test[name];
  const begun = performance.now();
  const code = typeof side.code === 'function' ? side.code(bench.host) : side.code;
  try {
    const outcome = await bench.executor.execute(
      {
        submission_id: 'hostile',
        attempt: 1,
        // Each side has its own account, so that one case cannot affect the compiler of another.
        account_id: `${test.name} ${name}`,
        language: test.language,
        code: Buffer.from(code),
        stdin: new Uint8Array(),
        args: [],
        expected_output: null,
        compare: 'lenient',
        limits: ROOM > 1 ? { cpu_time_ms: 10_000 * ROOM, wall_time_ms: 10_000 * ROOM } : {},
        judging: null,
      },
      new AbortController().signal,
    );
    return {
      test,
      side: name,
      problem: problemOf(side, outcome, bench.host),
      outcome,
      took_ms: performance.now() - begun,
    };
  } catch (error) {
    return {
      test,
      side: name,
      problem: `no outcome: ${error}`,
      outcome: null,
      took_ms: performance.now() - begun,
    };
  }
}

function problemOf(side: CompileSide, outcome: ExecutionOutcome, host: Host): string | null {
  const verdicts = Array.isArray(side.verdict) ? side.verdict : [side.verdict];
  const said = Buffer.concat([outcome.stdout, outcome.stderr]).toString();
  const bad = said.match(/^(ESCAPED|FAILED).*$/m);
  if (said.includes(host.secret)) return 'the secret is in the output';
  if (/^root:[^:]*:\d/m.test(said)) return 'a line of a password file is in the output';
  if (process.env['PATH'] && said.includes(process.env['PATH']))
    return 'the worker’s PATH is in the output';
  if (bad && outcome.verdict !== 'CE') return `the program says: ${bad[0]}`;
  if (!verdicts.includes(outcome.verdict))
    return `verdict ${outcome.verdict}, not ${verdicts.join('/')}`;
  if (side.says && !side.says.test(said)) return `the output does not match ${side.says}`;
  return side.evidence?.(outcome) ?? null;
}
