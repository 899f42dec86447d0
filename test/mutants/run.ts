/**
 * Tests the tests: makes each change that mutants.ts lists, one at a time, and runs the test files that must notice it.
 *
 *   node test/mutants/run.ts [PATH ...]      only the mutants of files whose path contains a PATH
 *
 * It works in copies of the tree (build/mutants) and on one PostgreSQL.
 * Each test file first runs unchanged and must pass there. A mutant is killed by the first assertion that fails, and the
 * line of the mutant shows which. A test that runs out of time proves nothing, and neither does a change that does not load:
 * a source that cannot be imported, SQL that cannot be migrated, or a process that does not start.
 * Exit status 1 unless every mutant was killed.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Parser, type Result } from 'tap-parser';
import { startServer } from '../../src/local/postgres.ts';
import type { Mutant } from './mutant.ts';
import { mutants } from './mutants.ts';

/** Copies that are tested at the same time: more than there are processors, because a test waits for half of its time. */
const TREES = Array.from({ length: availableParallelism() + 2 }, (_, n) =>
  resolve(`build/mutants/${n + 1}`),
);
/** For a test of the unchanged tree. */
const TIMEOUT_MS = 300_000;
/** So long a test waits for what may never come. Then it fails, and says what that is. */
const PATIENCE_MS = 45_000;
/** A change may make a test wait for ever. A test that takes so much longer than unchanged is ended. */
const longer = (usual_ms: number) => 60_000 + 3 * usual_ms;

/** How a test ended; `failed` is its first assertion that failed. */
type End =
  | { kind: 'passed' | 'timed out' }
  | { kind: 'did not load'; why: string }
  | { kind: 'failed'; failed: string };

type Outcome =
  | { kind: 'killed'; failed: string }
  | { kind: 'NOT LOADED'; why: string }
  | { kind: 'SURVIVED' | 'NOT THERE' | 'BROKEN TEST' | 'TIMED OUT' };

async function main(paths: readonly string[]): Promise<number> {
  for (const path of paths)
    if (!mutants.some(({ file }) => file.includes(path)))
      throw new Error(`no mutant of a file like ${path}`);
  const isChosen = ({ file }: Mutant) => paths.some((path) => file.includes(path));
  const chosen = paths.length === 0 ? mutants : mutants.filter(isChosen);
  for (const tree of TREES) copyTo(tree);
  const server = await startOwnServer();
  try {
    const usual_ms = await timesOf(chosen, server.url);
    let killed = 0;
    await inEveryTree(chosen, async (mutant, tree) => {
      const outcome = await outcomeOf(mutant, tree, usual_ms, server.url);
      if (outcome.kind === 'killed') killed += 1;
      console.log(`${outcome.kind.padEnd(11)}  ${mutant.file}: ${mutant.why}`);
      if (outcome.kind === 'killed') console.log(`               by: ${outcome.failed}`);
      if (outcome.kind === 'NOT LOADED') console.log(`               why: ${outcome.why}`);
    });
    console.log(`${killed} of ${chosen.length} killed`);
    return killed === chosen.length ? 0 : 1;
  } finally {
    await server.stop();
    for (const tree of TREES) rmSync(tree, { recursive: true });
  }
}

/** Each copy takes the next item when it is done with one. */
async function inEveryTree<T>(items: readonly T[], work: (item: T, tree: string) => Promise<void>) {
  const rest = [...items];
  const runIn = async (tree: string) => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item, tree);
  };
  await Promise.all(TREES.map(runIn));
}

/** Mutants change sources only: the rest of the tree is linked. */
export function copyTo(tree: string): void {
  rmSync(tree, { recursive: true, force: true });
  mkdirSync(join(tree, 'build'), { recursive: true });
  const copied = ['src', 'sql', 'test'];
  for (const folder of copied) cpSync(folder, join(tree, folder), { recursive: true });
  const left_out = new Set([...copied, 'build', '.git', '.tap', '.data']);
  for (const name of readdirSync('.').filter((name) => !left_out.has(name)))
    symlinkSync(resolve(name), join(tree, name));
  // With another schema, this one is written again.
  rmSync(join(tree, 'DATA.md'));
  cpSync('DATA.md', join(tree, 'DATA.md'));
  for (const name of ['launcher', 'zygote.so'])
    symlinkSync(resolve('build', name), join(tree, 'build', name));
}

async function startOwnServer() {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-mutants-'));
  const password = randomBytes(16).toString('hex');
  const server = await startServer({
    data_dir: join(folder, 'data'),
    password,
    port: null,
    uid: null,
    durable: false,
    settings: { max_connections: '300', max_wal_size: '4GB' },
  });
  const stop = async () => {
    await server.stop();
    await rm(folder, { recursive: true });
  };
  return { url: `postgres://postgres:${password}@127.0.0.1:${server.port}/postgres`, stop };
}

/** How long each test takes without a change; none for a test that fails even so. */
async function timesOf(chosen: readonly Mutant[], url: string): Promise<Map<string, number>> {
  const usual_ms = new Map<string, number>();
  const tests = [...new Set(chosen.flatMap((mutant) => mutant.tests))];
  await inEveryTree(tests, async (test, tree) => {
    const began = performance.now();
    const end = await runTest(test, tree, url, TIMEOUT_MS);
    if (end.kind === 'passed') usual_ms.set(test, performance.now() - began);
    else console.log(`BROKEN TEST  ${test} fails without any change: ${describe(end)}`);
  });
  return usual_ms;
}

function describe(end: End): string {
  if (end.kind === 'failed') return end.failed;
  return end.kind === 'did not load' ? `${end.kind}: ${end.why}` : end.kind;
}

export async function outcomeOf(
  mutant: Mutant,
  tree: string,
  usual_ms: Map<string, number>,
  url: string,
): Promise<Outcome> {
  const path = join(tree, mutant.file);
  const original = readFileSync(path, 'utf8');
  if (original.split(mutant.find).length !== 2) return { kind: 'NOT THERE' };
  if (!mutant.tests.every((test) => usual_ms.has(test))) return { kind: 'BROKEN TEST' };
  writeFileSync(
    path,
    original.replace(mutant.find, () => mutant.replace),
  );
  const derived = DERIVED.map((file) => join(tree, file)).map(
    (file) => [file, readFileSync(file, 'utf8')] as const,
  );
  try {
    const why = await loadProblem(mutant.file, tree, url);
    if (why !== null) return { kind: 'NOT LOADED', why };
    const ends: End[] = [];
    for (const test of mutant.tests) {
      const end = await runTest(test, tree, url, longer(usual_ms.get(test)!));
      if (end.kind === 'failed') return { kind: 'killed', failed: end.failed };
      ends.push(end);
    }
    for (const end of ends)
      if (end.kind === 'did not load') return { kind: 'NOT LOADED', why: end.why };
    return { kind: ends.some(({ kind }) => kind === 'timed out') ? 'TIMED OUT' : 'SURVIVED' };
  } finally {
    for (const [file, text] of [[path, original] as const, ...derived]) writeFileSync(file, text);
  }
}

/**
 * Verify compares a database's functions with what these files say of them, so it would name every change to SQL, whatever the
 * change does. So they are written again, and changed back afterwards.
 */
const DERIVED = ['sql/schema.txt', 'sql/definitions.txt', 'DATA.md'];

/** Why a changed file cannot be used at all; null if it can. */
async function loadProblem(file: string, tree: string, url: string): Promise<string | null> {
  if (file.startsWith('sql/')) return problemOf(['test/sql/schema_dump.ts'], tree, url);
  if (!file.endsWith('.ts')) return null;
  const importing = (tree: string) => {
    const script = `await import(${JSON.stringify(join(tree, file))}); process.exit()`;
    return problemOf(['--input-type=module', '--eval', script], tree, url);
  };
  const why = await importing(tree);
  // A thread's main file cannot be imported elsewhere, changed or not.
  return why !== null && why === (await importing(resolve('.'))) ? null : why;
}

/** The error with which the program ended; null if it ended well. */
async function problemOf(args: readonly string[], tree: string, url: string) {
  const child = spawn(process.execPath, args, {
    cwd: tree,
    env: { ...process.env, RUNLEDGER_TEST_DATABASE_URL: url },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk));
  const [code] = await once(child, 'close');
  if (code === 0) return null;
  const [error] = /^\w*Error\b.*/m.exec(Buffer.concat(said).toString()) ?? [];
  return error ?? `exit status ${code}`;
}

const isAlone = (test: string) => readFileSync(test, 'utf8').includes('aloneOnItsServer(');

/** Runs a test up to its first assertion that fails. */
async function runTest(test: string, tree: string, url: string, timeout_ms: number): Promise<End> {
  const [file, rules] = splitOnce(test, ' ');
  const child = spawn('setpriv', ['--pdeathsig=KILL', process.execPath, file], {
    cwd: tree,
    env: {
      ...process.env,
      // A test that has to be alone on its server starts one.
      ...(!isAlone(join(tree, file)) && { RUNLEDGER_TEST_DATABASE_URL: url }),
      TAP_TIMEOUT: String(timeout_ms / 1000),
      RUNLEDGER_TEST_PATIENCE_MS: String(PATIENCE_MS),
      ...(rules !== null && { RUNLEDGER_TEST_ONLY: rules }),
    },
    stdio: ['ignore', 'pipe', 'ignore'],
    // Its own process group, so that the kill also ends what the test started.
    detached: true,
  });
  const kill = () => {
    if (child.exitCode === null) process.kill(-child.pid!, 'SIGKILL');
  };
  let assertions = 0;
  let end: End | null = null;
  const settle = (found: End) => {
    end ??= found;
    kill();
  };
  const parser = new Parser();
  onResult(parser, (result) => {
    assertions += 1;
    if (!result.ok) settle(endOf(result));
  });
  child.stdout.on('data', (chunk: Buffer) => parser.write(chunk.toString('latin1')));
  // Later than tap's own timeout, which shows an assertion that failed before the wait without an end.
  const timer = setTimeout(() => settle({ kind: 'timed out' }), timeout_ms + 10_000);
  const [code] = await once(child, 'close');
  clearTimeout(timer);
  if (end !== null) return end;
  if (code === 0 && assertions > 0) return { kind: 'passed' };
  return { kind: 'did not load', why: `exit status ${code} after ${assertions} assertions` };
}

/** The parser's `result` is a leaf: no line that only sums up a subtest. */
function onResult(parser: Parser, see: (result: Result) => void): void {
  parser.on('result', (result: Result) => {
    if (!result.skip && !result.todo) see(result);
  });
}

/** What a test says where PostgreSQL, web or a worker did not even start: not one assertion was about the change. */
const NOT_STARTED = /^(Error: )?no PostgreSQL for tests|\bdid not start\b/m;

export function endOf({ name, fullname, diag }: Pick<Result, 'name' | 'fullname' | 'diag'>): End {
  const { expired, message } = (diag ?? {}) as { expired?: unknown; message?: unknown };
  if (expired !== undefined) return { kind: 'timed out' };
  const why = [name, message].find((text) => typeof text === 'string' && NOT_STARTED.test(text));
  if (why !== undefined) return { kind: 'did not load', why: `${why}` };
  return { kind: 'failed', failed: fullname || name };
}

function splitOnce(text: string, at: string): [string, string | null] {
  const index = text.indexOf(at);
  return index === -1 ? [text, null] : [text.slice(0, index), text.slice(index + at.length)];
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));
