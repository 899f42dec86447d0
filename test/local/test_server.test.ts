/** The PostgreSQL that tests share must not outlive their run, however that ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';

const RUNNER = new URL('runner.ts', import.meta.url).pathname;

/** A run of its own: without tap's mark it takes itself for the runner. */
async function startRun() {
  const { PATH, RUNLEDGER_TEST_DATABASE_URL } = process.env;
  const env = RUNLEDGER_TEST_DATABASE_URL ? { PATH, RUNLEDGER_TEST_DATABASE_URL } : { PATH };
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

async function until(look: () => boolean | Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + 20_000;
  while (!(await look()) && performance.now() < deadline) await wait(50);
  return look();
}

t.test('one server for the run, a database for each that asks', async (t) => {
  const { runner, databases } = await startRun();
  t.teardown(() => runner.kill('SIGKILL'));
  const [one, two] = [new URL(databases.one), new URL(databases.two)];
  t.equal(one.port, two.port);
  t.not(one.pathname, two.pathname);
});

t.test('killed, the run leaves no server and no folder', async (t) => {
  const { runner, folder, databases } = await startRun();
  t.ok(existsSync(folder));
  runner.kill('SIGKILL');
  await once(runner, 'exit');
  t.ok(await until(() => !existsSync(folder)), 'the folder is gone');
  if (process.env['RUNLEDGER_TEST_DATABASE_URL']) return;
  const port = Number(new URL(databases.one).port);
  t.ok(await until(async () => !(await answers(port))), 'and so is the server');
});
