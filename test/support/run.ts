/**
 * Runs tests with tap and prints a summary in plain words:
 *
 *   node test/support/run.ts [FILE or folder]...
 *   12 not run: no Java compiler on this machine
 *   3456 passed, 0 failed
 *
 * The environment variable JOBS sets the number of test files at a time. It counts assertions. A test that cannot run on
 * this machine is skipped with its reason; with CI set that is a failure, so that a machine that lost its isolation is
 * noticed. One that lacks an optional tool is named as not checked, and fails no run. A test without an assertion fails.
 * build/test.tap keeps the whole output.
 *
 * Nothing outlives this process, not even after kill -9. The kernel then kills tap (setpriv --pdeathsig). Each test file
 * ends when tap does (end_with_runner.ts), and each PostgreSQL ends with its parent (src/local/postgres.ts).
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { Parser } from 'tap-parser';
import { endHung } from './hung.ts';
import { lacking, needsOf } from './needs.ts';
import { removeLeftFolders } from './own_folders.ts';
import { PREPARED_VARIABLE } from './prepared.ts';
import { addTo, type Counts, countResults, newCounts, printFiles } from './report.ts';

const OUTPUT = 'build/test.tap';
/** A folder for each run; its name is the runner's process id. */
const PREPARED = resolve('build/prepared');
/** Test files at a time: more than there are processors, because a file waits for half of its time. */
const JOBS = Number(process.env['JOBS']) || availableParallelism() + 3;

async function run(paths: readonly string[]): Promise<number> {
  mkdirSync('build', { recursive: true });
  const missing = paths.find((path) => !existsSync(path));
  if (missing) {
    console.error(`${missing}: no such test file or folder`);
    return 2;
  }
  const files = (paths.length > 0 ? paths : ['test']).flatMap(testsBelow).sort();
  const { able, not_run } = await sortOut(files);
  const counts = newCounts();
  const code = able.length > 0 ? await runTap(able, counts) : 0;
  for (const [reason, tests] of counts.skipped) addTo(not_run, reason, tests);
  for (const [reason, tests] of not_run) console.log(`${tests} not run: ${reason}`);
  for (const [reason, tests] of counts.unchecked)
    console.log(`${tests} not checked, which fails no run: ${reason}`);
  // A run that is cut off fails, even if every assertion up to then passed.
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  if (process.env['CI']) for (const tests of not_run.values()) counts.failed += tests;
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  return counts.failed > 0 || counts.passed === 0 ? 1 : 0;
}

async function runTap(files: readonly string[], counts: Counts): Promise<number | null> {
  const prepared = makePrepared();
  removeLeftFolders();
  const tap = spawn(
    'setpriv',
    ['--pdeathsig=KILL', 'tap', '--reporter=tap', `--jobs=${JOBS}`, ...files],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        // The test files themselves and the processes that inherit it; the command line sets its own.
        NODE_COMPILE_CACHE: resolve('build/compiled-modules'),
        ...process.env,
        [PREPARED_VARIABLE]: prepared,
      },
    },
  );
  // On Ctrl-C tap ends its test files; then this process still prints the counts.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => tap.kill(signal));
  const ended = once(tap, 'exit') as Promise<[number | null]>;
  const parser = new Parser();
  countResults(parser, counts);
  printFiles(parser, console.log);
  tap.stdout.pipe(createWriteStream(OUTPUT));
  tap.stdout.pipe(parser);
  const stop = endHung(tap.pid!, {
    check_ms: 30_000,
    checks: 8,
    onHung(command, processes) {
      console.log(`${command.split(' ').at(-1)} hangs: it has rested for 4 minutes or more`);
      for (const line of processes) console.log(`  ${line}`);
    },
  });
  const [[code]] = await Promise.all([ended, once(parser, 'complete')]);
  stop();
  rmSync(prepared, { recursive: true, force: true });
  return code;
}

/** For what the test files of this run share (prepared.ts). Removes what runs left that were killed. */
function makePrepared(): string {
  const own = join(PREPARED, String(process.pid));
  mkdirSync(PREPARED, { recursive: true });
  for (const pid of readdirSync(PREPARED))
    if (pid === String(process.pid) || !existsSync(`/proc/${pid}`))
      rmSync(join(PREPARED, pid), { recursive: true, force: true });
  mkdirSync(own);
  return own;
}

/** The files that this machine can run, and for each reason the number of tests that it cannot. */
async function sortOut(files: readonly string[]) {
  const needs = new Map(files.map((file) => [file, needsOf(file)]));
  const lacks = await lacking(new Set([...needs.values()].flat()));
  const not_run = new Map<string, number>();
  const able = files.filter((file) => {
    const lack = needs.get(file)!.find((need) => lacks.has(need));
    if (lack) addTo(not_run, lacks.get(lack)!, testsIn(file));
    return !lack;
  });
  return { able, not_run };
}

const testsIn = (file: string) =>
  Math.max(1, readFileSync(file, 'utf8').match(/^\s*(?:await )?t\.test\(/gm)?.length ?? 0);

const testsBelow = (path: string) =>
  path.endsWith('.ts')
    ? [path]
    : readdirSync(path, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.test.ts'))
        .map((name) => `${path.replace(/\/$/, '')}/${name}`);

if (import.meta.main) process.exitCode = await run(process.argv.slice(2));
