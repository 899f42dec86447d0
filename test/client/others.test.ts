/**
 * Clients of this API that others wrote decode `GET /api/languages` as an array of strings, poll until a status is neither
 * pending nor running, take the id from a 408, and ignore fields that they do not know. These programs have their shape.
 */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import t, { type Test } from 'tap';
import { runProgram } from '../cli/command_line.ts';
import { type Service, startService } from '../http/support/service.ts';
import { notChecked } from '../support/report.ts';
import { endingAll } from './ending.ts';

const OTHERS = resolve('test/client/others');

t.test('clients of others', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_WAIT_CAP: '1s' } });
  const cwd = await mkdtemp(join(tmpdir(), 'runledger-others-'));
  t.teardown(() => rm(cwd, { recursive: true }));
  const env = {
    PATH: process.env['PATH'],
    HOME: cwd,
    SERVER: service.webs[0]!.origin,
    KEY: await service.key(),
  };
  const commands = [
    [process.execPath, join(OTHERS, 'poll.ts')],
    ...(isHere(t, 'python3') ? [['python3', '-B', join(OTHERS, 'poll.py')]] : []),
    ...(isHere(t, 'rustc') ? [await rustProgram(cwd)] : []),
    ...(await goProgram(cwd)),
  ];
  for (const [command, ...options] of commands) {
    const before = waitsEnded(service);
    const running = runProgram(command!, options, { cwd, env });
    // That in C++ ends when a call has waited for it in vain.
    const mayEnd = ({ language }: { language: string }) =>
      language === 'python' || waitsEnded(service) > before;
    const { stdout, stderr } = await endingAll(service, running, mayEnd);
    t.equal(
      stdout,
      'languages cpp,python\npolled completed AC 42\nwaited completed AC\n',
      `${options.join()}: ${stderr}`,
    );
  }
});

function isHere(t: Test, command: string): boolean {
  const { status } = spawnSync(command, ['--version']);
  if (status !== 0) t.pass(command, { skip: notChecked(`no ${command} on this machine`) });
  return status === 0;
}

async function rustProgram(folder: string): Promise<string[]> {
  const program = join(folder, 'poll_rust');
  await build(folder, ['rustc', '--edition=2021', '-o', program, join(OTHERS, 'poll.rs')]);
  return [program];
}

async function build(cwd: string, [command = '', ...options]: string[]): Promise<void> {
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'] ?? cwd, CGO_ENABLED: '0' };
  const built = await runProgram(command, options, { cwd, env });
  if (built.status !== 0) throw new Error(built.stderr);
}

/**
 * With RUNLEDGER_TEST_GO, because the first compile of Go's HTTP takes half a minute of a processor. Compiled, because
 * `go run` hides the exit status.
 */
async function goProgram(folder: string): Promise<string[][]> {
  if (process.env['RUNLEDGER_TEST_GO'] === undefined) return [];
  const program = join(folder, 'poll');
  await build(folder, ['go', 'build', '-o', program, join(OTHERS, 'poll.go')]);
  return [[program]];
}

const waitsEnded = ({ webs }: Service): number =>
  webs[0]!.written.filter((line) => line.includes('"status":408')).length;
