/**
 * Tests the tests: makes each change that mutants.ts lists, one at a time, and runs the test files that must notice it.
 *
 *   node test/mutants/run.ts [PATH]      only the mutants of files whose path contains PATH
 *
 * It works in copies of the tree (build/mutants) and on one PostgreSQL.
 * Each test file first runs unchanged and must pass there. Exit status 1 if a mutant survives, if the text to change is
 * not there exactly once, or if an unchanged test fails.
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
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startServer } from '../../src/local/postgres.ts';
import { type Mutant, mutants } from './mutants.ts';

/** Copies that are tested at the same time. */
const TREES = [resolve('build/mutants/1'), resolve('build/mutants/2')];
/** For a test of the unchanged tree. */
const TIMEOUT_MS = 300_000;
/** A change may make a test wait for ever: that counts as noticed. So much longer than unchanged is for ever. */
const longer = (usual_ms: number) => 15_000 + 3 * usual_ms;

type Outcome = 'killed' | 'SURVIVED' | 'NOT THERE' | 'BROKEN TEST';

async function main(path: string): Promise<number> {
  const chosen = mutants.filter(({ file }) => file.includes(path));
  if (chosen.length === 0) throw new Error(`no mutant of a file like ${path}`);
  for (const tree of TREES) copyTo(tree);
  const server = await startOwnServer();
  try {
    const usual_ms = await timesOf(chosen, server.url);
    let killed = 0;
    await inEveryTree(chosen, async (mutant, tree) => {
      const outcome = await outcomeOf(mutant, tree, usual_ms, server.url);
      if (outcome === 'killed') killed += 1;
      console.log(`${outcome.padEnd(11)}  ${mutant.file.padEnd(34)}  ${mutant.why}`);
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
function copyTo(tree: string): void {
  rmSync(tree, { recursive: true, force: true });
  mkdirSync(join(tree, 'build'), { recursive: true });
  const copied = ['src', 'sql', 'test'];
  for (const folder of copied) cpSync(folder, join(tree, folder), { recursive: true });
  const left_out = new Set([...copied, 'build', '.git', '.tap', '.data']);
  for (const name of readdirSync('.').filter((name) => !left_out.has(name)))
    symlinkSync(resolve(name), join(tree, name));
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
    if (await passes(test, tree, url, TIMEOUT_MS)) usual_ms.set(test, performance.now() - began);
    else console.log(`BROKEN TEST  ${test} fails without any change`);
  });
  return usual_ms;
}

async function outcomeOf(
  mutant: Mutant,
  tree: string,
  usual_ms: Map<string, number>,
  url: string,
): Promise<Outcome> {
  const path = join(tree, mutant.file);
  const original = readFileSync(path, 'utf8');
  if (original.split(mutant.find).length !== 2) return 'NOT THERE';
  if (!mutant.tests.every((test) => usual_ms.has(test))) return 'BROKEN TEST';
  writeFileSync(
    path,
    original.replace(mutant.find, () => mutant.replace),
  );
  try {
    for (const test of mutant.tests) {
      const timeout_ms = longer(usual_ms.get(test)!);
      if (!(await passes(test, tree, url, timeout_ms))) return 'killed';
    }
    return 'SURVIVED';
  } finally {
    writeFileSync(path, original);
  }
}

async function passes(
  test: string,
  tree: string,
  url: string,
  timeout_ms: number,
): Promise<boolean> {
  const child = spawn('setpriv', ['--pdeathsig=KILL', process.execPath, test], {
    cwd: tree,
    env: {
      ...process.env,
      RUNLEDGER_TEST_DATABASE_URL: url,
      TAP_TIMEOUT: String(timeout_ms / 1000),
    },
    stdio: 'ignore',
    // Its own process group, so that the timeout also ends what the test started.
    detached: true,
  });
  const timer = setTimeout(() => process.kill(-child.pid!, 'SIGKILL'), timeout_ms);
  const [code] = await once(child, 'exit');
  clearTimeout(timer);
  return code === 0;
}

process.exitCode = await main(process.argv[2] ?? '');
