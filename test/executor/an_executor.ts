/** A real executor over a real launcher, for tests of what programs see and how they are judged. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { DEFAULT_POLICY, type LanguageName, type LimitPolicy } from '../../src/domain/limits.ts';
import { openCompileCache } from '../../src/executor/compile_cache.ts';
import { type FetchContent, openContentCache } from '../../src/executor/content_cache.ts';
import { createExecutor, type ExecutorOptions } from '../../src/executor/executor.ts';
import type { Watchers } from '../../src/executor/judged_execution.ts';
import { profilesFor } from '../../src/executor/profiles.ts';
import { openSandbox } from '../../src/executor/sandbox.ts';
import type { IsolationKind } from '../../src/executor/sandbox_options.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../../src/judging/execution.ts';
import { LANGUAGES } from '../../src/languages/common/registry.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { createCpp } from '../../src/languages/cpp/cpp.ts';
import type { HeaderSet } from '../../src/languages/cpp/headers.ts';
import { givePrepared, takePrepared } from '../support/prepared.ts';

const BUILD = join(import.meta.dirname, '../../build');

type Options = Partial<Omit<ExecutorOptions, 'sandbox' | 'cache' | 'contents'>> & {
  /** the files of test sets */
  fetch?: FetchContent;
  cache_bytes?: number;
  /** kept, where it is given */
  folder?: string;
  slots?: number;
  /** the best that the machine has, if it is not given */
  isolation?: IsolationKind;
  /** all, if they are not given; with fewer it is ready sooner */
  languages?: readonly LanguageName[];
  standing_boxes?: number;
  /** the headers that are compiled ahead */
  header_sets?: readonly HeaderSet[];
};

export type Run = Partial<Omit<ExecutionOrder, 'code' | 'stdin' | 'expected_output'>> & {
  stdin?: string | Uint8Array;
  expected_output?: string;
  signal?: AbortSignal;
} & Partial<Watchers>;

/** An outcome with its bytes as text, which is how a test wants to read them. */
export type Outcome = Omit<ExecutionOutcome, 'stdout' | 'stderr'> & {
  stdout: string;
  stderr: string;
  stdout_bytes: Uint8Array;
};

export async function anExecutor(t: Test, options: Options = {}) {
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), 'runledger-executor-')));
  const toolchains = options.toolchains ?? (await toolchainsWith(options));
  const max_bytes = options.cache_bytes ?? 2 ** 30;
  const cache = await openCompileCache({ folder, max_bytes, max_entries: 10_000 });
  const is_shared = options.folder === undefined && toolchains.has('java');
  if (is_shared) await takePrepared(cache.artefacts_folder);
  const sandbox = await openSandbox({
    launcher: join(BUILD, 'launcher'),
    ...(options.switches?.['python_zygote'] && { zygote: join(BUILD, 'zygote.so') }),
    ...(options.isolation && { isolation: options.isolation }),
    slots: options.slots ?? 2,
    stream_slots: options.standing_boxes ?? 3,
    profiles: await profilesFor(toolchains),
    store_dir: cache.artefacts_folder,
  });
  const contents =
    options.fetch &&
    (await openContentCache({
      folder: cache.artefacts_folder,
      max_bytes: 2 ** 30,
      max_entries: 10_000,
      others: [cache],
      fetch: options.fetch,
    }));
  const faults: string[] = [];
  const executor = await createExecutor({
    policy: PATIENT,
    log: (message, error) => faults.push(`${message}: ${error.message}`),
    ...options,
    ...(contents && { contents }),
    sandbox,
    toolchains,
    cache,
  });
  t.teardown(async () => {
    await executor.close();
    await sandbox.close();
    if (is_shared) await givePrepared(cache.artefacts_folder);
    if (options.folder === undefined) await rm(folder, { recursive: true, force: true });
  });
  const run = async (language: LanguageName, code: string | Uint8Array, more: Run = {}) => {
    const { signal = new AbortController().signal, onProgress, spareSlot, onRun, ...rest } = more;
    const { stdin, expected_output, ...order } = rest;
    const outcome = await executor.execute(
      {
        submission_id: 'test',
        attempt: 1,
        account_id: 'alice',
        language,
        code: Buffer.from(code as string),
        stdin: Buffer.from((stdin ?? '') as string),
        args: [],
        expected_output: expected_output === undefined ? null : Buffer.from(expected_output),
        compare: 'lenient',
        limits: {},
        judging: null,
        ...order,
      },
      signal,
      {
        ...(onProgress && { onProgress }),
        ...(spareSlot && { spareSlot }),
        ...(onRun && { onRun }),
      },
    );
    const { stdout, stderr } = outcome;
    return {
      ...outcome,
      stdout: text(stdout),
      stderr: text(stderr),
      stdout_bytes: stdout,
    } satisfies Outcome;
  };
  return { executor, sandbox, cache, toolchains, faults, run };
}

export const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

const found = new Map<string, ReturnType<typeof findWith>>();

/** A file looks for each choice once: that starts a JVM and a dozen compilers. */
function toolchainsWith(options: Options) {
  const choice = JSON.stringify([options.languages, options.header_sets]);
  const toolchains = found.get(choice) ?? findWith(options);
  found.set(choice, toolchains);
  return toolchains;
}

async function findWith({ header_sets, languages: names }: Options) {
  const languages = LANGUAGES.filter(({ name }) => names?.includes(name as LanguageName) ?? true)
    // Another set of headers is another C++.
    .map((one) => (header_sets && one.name === 'cpp' ? createCpp(header_sets) : one));
  return (await findToolchains({ languages })).toolchains;
}

/** With these, no verdict depends on how long a busy machine takes; a test that is about time sets its own limits. */
const PATIENT: LimitPolicy = {
  ...DEFAULT_POLICY,
  run: { ...DEFAULT_POLICY.run, wall_ms: 300_000 },
  compile: { ...DEFAULT_POLICY.compile, cpu_ms: 60_000, wall_ms: 300_000 },
};

/** Every speed-up off. */
export const PLAIN: Readonly<Record<string, boolean>> = {
  precompiled_headers: false,
  java_compiler: false,
  python_zygote: false,
};
