/**
 * Runs cases through the real launcher and judges them as the service does: by the launcher's report,
 * the pure verdict, and the programs' output. `main.ts` prints the results; tests assert on them.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LanguageName as Language, RunLimits } from '../../src/domain/limits.ts';
import { limitsFor } from '../../src/domain/limits.ts';
import type { BoxReport } from '../../src/domain/result.ts';
import { judge } from '../../src/domain/verdict.ts';
import { runnable } from '../../src/executor/executor.ts';
import { profilesFor } from '../../src/executor/profiles.ts';
import {
  type BoxRequest,
  type IsolationKind,
  openSandbox,
  type Sandbox,
} from '../../src/executor/sandbox.ts';
import { BY_NAME, LANGUAGES } from '../../src/languages/common/registry.ts';
import { findToolchains, type Toolchains } from '../../src/languages/common/toolchains.ts';
import { type Case, type Host, problemOf, type Seen, type Side, type Topic } from './case.ts';
import { openHost } from './host.ts';
import { type Programs, placeInStore, preparePrograms } from './programs.ts';
import { ROOM, SLOWNESS } from './slowness.ts';

export const LAUNCHER =
  process.env['RUNLEDGER_TEST_LAUNCHER'] ?? join(import.meta.dirname, '../../build/launcher');

/** By default the launcher chooses the best isolation that this machine offers. */
const ISOLATION = process.env['RUNLEDGER_TEST_ISOLATION'] as IsolationKind | undefined;
export const ZYGOTE = join(import.meta.dirname, '../../build/zygote.so');

export type Result = {
  test: Case;
  language: Language;
  warm: boolean;
  side: 'hostile' | 'honest';
  problem: string | null;
  seen: Seen | null;
  took_ms: number;
};

/** A case in one language. `warm`: the run is forked from a warm interpreter instead of started. */
export type Spoken = { test: Case; language: Language; warm?: boolean };

const ALL_NAMES = LANGUAGES.map(({ name }) => name as Language);

export type Bench = {
  programs: Programs;
  toolchains: Toolchains;
  host: Host;
  store_dir: string;
  /** `many` has several slots. `single` has one, which makes the order of its runs certain. */
  many: Sandbox;
  single: Sandbox;
  close: () => Promise<void>;
};

/** With fewer languages it is ready sooner, because each slot copies what their programs see. */
export async function openBench(names: readonly Language[] = ALL_NAMES): Promise<Bench> {
  const languages = names.map((name) => BY_NAME.get(name)!);
  const { toolchains } = await findToolchains({ languages });
  const programs = await preparePrograms({ java: toolchains.get('java')?.at ?? null });
  const store_dir = await mkdtemp(join(tmpdir(), 'hostile-store-'));
  await placeInStore(programs, store_dir);
  const { host, close } = await openHost(callsOf(ISOLATION));
  const profiles = await profilesFor(withoutCompilers(toolchains));
  const open = (slots: number) =>
    openSandbox({
      launcher: LAUNCHER,
      zygote: ZYGOTE,
      slots,
      stream_slots: 1,
      store_dir,
      profiles,
      ...(ISOLATION && { isolation: ISOLATION }),
    });
  const [many, single] = await Promise.all([open(2), open(1)]);
  return {
    programs,
    toolchains,
    host,
    store_dir,
    many,
    single,
    close: async () => {
      await Promise.all([many.close(), single.close(), close()]);
      await rm(store_dir, { recursive: true, force: true });
    },
  };
}

/** The suite's programs are compiled already; and in an emulated guest, looking through a compiler's folders takes a minute. */
const withoutCompilers = (toolchains: Toolchains): Toolchains =>
  new Map([...toolchains].map(([name, installed]) => [name, { ...installed, compiler: null }]));

/** The filter depends on the isolation only in that degraded runs have one of their own. */
function callsOf(isolation?: IsolationKind): string {
  const kind = isolation === 'rlimits' ? ['--isolation', isolation] : [];
  return execFileSync(LAUNCHER, [...kind, '--print-filter'], { encoding: 'utf8' });
}

export function languagesOf(bench: Bench, test: Case): Language[] {
  const able = runnable(bench.toolchains, bench.many.isolation.degraded);
  return test.languages.filter((language) => able.has(language));
}

/** Python runs both ways, because a warm interpreter is different code and can have different mistakes. */
export function spokenBy(
  bench: Bench,
  tests: readonly Case[],
  isWanted: (language: Language) => boolean,
): Spoken[] {
  const { degraded, missing } = bench.many.isolation;
  const able = tests
    .filter(({ needs_box, beside }) => !degraded || !(needs_box || beside))
    .filter(({ needs_quota }) => !needs_quota || missing === null);
  return able.flatMap((test) =>
    languagesOf(bench, test)
      .filter(isWanted)
      .flatMap((language): Spoken[] => [
        { test, language },
        ...(language === 'python' ? [{ test, language, warm: true }] : []),
      ]),
  );
}

/** Both sides of a case in one language, in the order hostile, honest. */
export async function runCase(bench: Bench, spoken: Spoken): Promise<Result[]> {
  const { before, beside } = spoken.test;
  const hostile = before
    ? await afterAnother(bench, spoken, before)
    : beside
      ? await besideAnother(bench, spoken, beside)
      : await runSide(bench, bench.many, spoken, 'hostile');
  return [hostile, await runSide(bench, bench.many, spoken, 'honest')];
}

async function afterAnother(bench: Bench, spoken: Spoken, before: Side): Promise<Result> {
  const { test, language, warm = false } = spoken;
  const { request, limits } = requestFor(bench, before, test.topic, language);
  const seen = see(await bench.single.run(request), limits, language);
  const bad = problemOf(before.expected, seen);
  if (bad !== null)
    return {
      test,
      language,
      side: 'hostile',
      problem: `the run before: ${bad}`,
      seen,
      took_ms: 0,
      warm,
    };
  return runSide(bench, bench.single, spoken, 'hostile');
}

async function besideAnother(bench: Bench, spoken: Spoken, beside: Side): Promise<Result> {
  const { test, language } = spoken;
  const { request, limits } = requestFor(bench, beside, test.topic, language);
  const other = await bench.many.open(request);
  let said = '';
  const ready = new Promise<void>((resolve) => {
    other.on('data', (bytes: Buffer) => {
      said += bytes.toString();
      if (/^OK/m.test(said)) resolve();
    });
  });
  const early = other.ended.then(() => {
    throw new Error(`the run beside ended early (${limits.wall_ms} ms): ${said}`);
  });
  await Promise.race([ready, early]);
  const result = await runSide(bench, bench.many, spoken, 'hostile');
  early.catch(() => {});
  other.kill();
  await other.ended.catch(() => {});
  const bad = said.match(/^(ESCAPED|FAILED).*/m);
  return bad ? { ...result, problem: `the run beside says: ${bad[0]}` } : result;
}

async function runSide(
  bench: Bench,
  sandbox: Sandbox,
  spoken: Spoken,
  name: 'hostile' | 'honest',
): Promise<Result> {
  const { test, language, warm = false } = spoken;
  const side = test[name];
  const begun = performance.now();
  const result = { test, language, warm, side: name };
  const took = () => ({ took_ms: performance.now() - begun });
  try {
    const { request, limits } = requestFor(bench, side, test.topic, language);
    const zygote = { zygote: { account: 'hostile' } };
    const seen = see(await sandbox.run({ ...request, ...(warm && zygote) }), limits, language);
    return { ...result, problem: problemOf(side.expected, seen), seen, ...took() };
  } catch (error) {
    return { ...result, problem: `no report: ${error}`, seen: null, ...took() };
  }
}

export function requestFor(
  bench: Pick<Bench, 'programs' | 'toolchains' | 'host'>,
  side: Side,
  topic: Topic,
  language: Language,
): { request: BoxRequest; limits: RunLimits } {
  if (!bench.programs.has(language, topic, side.program))
    throw new Error(`${language} has no program ${side.program}`);
  const args = typeof side.args === 'function' ? side.args(bench.host) : (side.args ?? []);
  const limits = { ...limitsFor(BY_NAME.get(language)!.needs), ...side.limits };
  const slower = [side.expected.verdict].flat().includes('TLE') ? SLOWNESS : ROOM;
  limits.cpu_ms *= slower;
  limits.wall_ms *= slower;
  const stdin = typeof side.stdin === 'function' ? side.stdin(bench.host) : side.stdin;
  const { argv, env, files, load } = commandFor(bench, side.program, topic, language, limits, [
    ...args,
  ]);
  return {
    request: {
      argv,
      env,
      files,
      load,
      stdin: stdin ?? new Uint8Array(),
      limits,
      profile: language,
    },
    limits,
  };
}

function commandFor(
  { programs, toolchains }: Pick<Bench, 'programs' | 'toolchains'>,
  program: string,
  topic: Topic,
  language: Language,
  limits: RunLimits,
  args: string[],
): Required<Pick<BoxRequest, 'argv' | 'env' | 'files' | 'load'>> {
  const { run, language: known } = toolchains.get(language)!;
  const script = programs.scripts[language];
  if (script !== undefined) {
    const command = run({
      artefact: '',
      entry: '',
      source: known.source,
      has_files: false,
      fails_at_full_heap: false,
      args,
      limits,
    });
    const files = [{ path: known.source, bytes: script(topic, program) }];
    return { ...command, files, load: [] };
  }
  const compiled = { artefact: COMPILED_AT[language] ?? '/load/hostile', entry: 'Hostile' };
  const files = { source: known.source, has_files: false, fails_at_full_heap: false };
  const command = run({ ...compiled, ...files, args: [program, ...args], limits });
  return { ...command, files: [], load: [{ key: `hostile-${language}`, at: '/load' }] };
}

/** Where a compiled language's programs are, if not in one executable. */
const COMPILED_AT: Readonly<Record<string, string>> = { java: '/load' };

export function see(report: BoxReport, limits: RunLimits, language: Language): Seen {
  const { verdict, signal, exit_code } = judge({
    compile: null,
    run: report,
    limits,
    isWrong: null,
    runtime: BY_NAME.get(language)!,
    degraded: ISOLATION === 'rlimits',
  });
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('utf8');
  return {
    report,
    verdict,
    signal,
    exit_code,
    stdout: text(report.stdout),
    stderr: text(report.stderr),
    limits,
  };
}

/** Runs the cases, as many at a time as there are slots, and passes each result to `each`. */
export async function runCases(
  bench: Bench,
  cases: readonly Spoken[],
  each: (result: Result) => void,
): Promise<void> {
  // Other cases would disturb one that has a run beside it or before it. These come last, one at a time.
  const isAlone = ({ test }: Spoken) => test.beside !== undefined || test.before !== undefined;
  const alone = cases.filter(isAlone);
  const others = cases.filter((spoken) => !isAlone(spoken));
  const worker = async () => {
    for (let next = others.shift(); next; next = others.shift())
      for (const result of await runCase(bench, next)) each(result);
  };
  await Promise.all([worker(), worker()]);
  for (const spoken of alone) for (const result of await runCase(bench, spoken)) each(result);
}
