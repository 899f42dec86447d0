/** The PostgreSQL servers of a test run must end with the run, however it ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { eventually } from '../support/eventually.ts';
import { linkedCopy } from '../support/linked_copy.ts';
import { descendants, survivors } from '../support/processes.ts';

const RUNNER = new URL('runner.ts', import.meta.url).pathname;

/** Starts a process that is its own runner, because it does not have tap's variables. */
async function startRun() {
  const names = ['PATH', 'TMPDIR', 'RUNLEDGER_TEST_DATABASE_URL'];
  const env = Object.fromEntries(names.map((name) => [name, process.env[name]]));
  const runner = spawn(process.execPath, [RUNNER], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(createInterface({ input: runner.stdout }), 'line');
  const folder = join(tmpdir(), `runledger-tests-${process.getuid!()}-${runner.pid}`);
  return { runner, folder, databases: JSON.parse(line as string) as { one: string; two: string } };
}

async function answers(port: number): Promise<boolean> {
  const socket = dial(port, '127.0.0.1');
  const answered = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return answered;
}

t.test('a run has one server, and each caller gets its own database', async (t) => {
  const { runner, databases } = await startRun();
  t.teardown(() => runner.kill('SIGKILL'));
  const [one, two] = [new URL(databases.one), new URL(databases.two)];
  t.equal(one.port, two.port);
  t.not(one.pathname, two.pathname);
});

t.test('a killed run leaves no server and no folder', async (t) => {
  const { runner, folder, databases } = await startRun();
  t.ok(existsSync(folder));
  runner.kill('SIGKILL');
  await once(runner, 'exit');
  t.ok(await eventually(() => !existsSync(folder)), 'the folder is gone');
  if (process.env['RUNLEDGER_TEST_DATABASE_URL']) return;
  const port = Number(new URL(databases.one).port);
  t.ok(await eventually(async () => !(await answers(port))), 'the server is gone');
});

/** The real runner, with a test file that has both kinds of server and never ends. */
async function startRealRun(t: Test) {
  const cwd = await linkedCopy(t);
  const file = join(cwd, 'found.json');
  const runner = spawn(process.execPath, ['test/support/run.ts', 'test/local/endless.ts'], {
    cwd,
    env: { PATH: process.env['PATH'], RUNLEDGER_TEST_ENDLESS: file },
    stdio: 'ignore',
  });
  t.teardown(() => runner.kill('SIGKILL'));
  t.ok(await eventually(() => existsSync(file)), 'the test file runs');
  const found = JSON.parse(readFileSync(file, 'utf8')) as Record<'shared' | 'own', string>;
  const ports = [found.shared, found.own].map((url) => Number(new URL(url).port));
  const started = descendants(runner.pid!);
  return { runner, ports, started };
}

async function nothingIsLeft(
  t: Test,
  { ports, started }: Awaited<ReturnType<typeof startRealRun>>,
) {
  t.ok(started.length >= 3, 'tap, the test file, its server');
  t.strictSame(await survivors(started), [], 'every process has ended');
  if (process.env['RUNLEDGER_TEST_DATABASE_URL']) return;
  for (const port of ports) t.ok(await eventually(async () => !(await answers(port))), 'no server');
}

t.test('a killed runner of the tests leaves no test file and no server', async (t) => {
  const run = await startRealRun(t);
  run.runner.kill('SIGKILL');
  await nothingIsLeft(t, run);
});

t.test('a killed tap leaves no test file and no server', async (t) => {
  const run = await startRealRun(t);
  const tap = run.started.find(({ parent }) => parent === run.runner.pid);
  process.kill(tap!.pid, 'SIGKILL');
  await nothingIsLeft(t, run);
});
