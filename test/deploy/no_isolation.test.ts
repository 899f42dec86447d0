/**
 * Where programs cannot be isolated, nothing runs them by mistake: only `serve` for this machine alone falls back to
 * degraded isolation, and where even that is not safe, it says so in one line before it starts or downloads anything.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { chooseIsolation, runsOwnCodeOnly } from '../../src/processes/own_code.ts';
import { freshDatabase } from '../support/database.ts';
import {
  cannotImitate,
  type Environment,
  folderFor,
  ROOT,
  UNISOLATED,
  UNPROTECTED,
} from './environments.ts';

const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** For a command that should end by itself at once; an overloaded machine is slow. */
const TIMEOUT_MS = 120_000;

const skip =
  process.getuid!() === 0 ? false : 'only root can become an ordinary user without a control group';

/** The test runner makes every Node load a part of it, which writes to a folder that only root may write to. */
const WITHOUT_RUNNER = ['env', '-u', 'NODE_OPTIONS'];

function run(
  { inside }: Environment,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd = ROOT,
) {
  const [program, ...args] = [...inside, ...WITHOUT_RUNNER, ...words];
  const options = {
    cwd,
    env: { PATH: SYSTEM_PATH, ...env },
    encoding: 'utf8',
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
  };
  const { status, stdout, stderr } = spawnSync(program!, args, options as { encoding: 'utf8' });
  return { status, stdout, lines: stderr.trim().split('\n') };
}

/** For a command that goes on: what it prints on stderr until a line matches, after which it is ended. */
async function printsUntil(
  end: RegExp,
  { inside }: Environment,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  const [program, ...args] = [...inside, ...WITHOUT_RUNNER, ...words];
  const child = spawn(program!, args, {
    cwd: ROOT,
    env: { PATH: SYSTEM_PATH, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit');
  const limit = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS);
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stderr })) {
    lines.push(line);
    if (end.test(line)) child.kill('SIGTERM');
  }
  await ended;
  clearTimeout(limit);
  return lines;
}

t.test('only serve for this machine alone may fall back', async (t) => {
  const given = (env: NodeJS.ProcessEnv) => runsOwnCodeOnly(loadConfig(env));
  const certificate = { RUNLEDGER_TLS_CERT_FILE: '/c', RUNLEDGER_TLS_KEY_FILE: '/k' };
  const native = { RUNLEDGER_TLS: 'native', ...certificate };
  t.ok(given({}));
  t.ok(given({ HOST: '::1' }));
  t.ok(given({ HOST: '127.0.0.1', ...native }));
  t.ok(given({ DATABASE_URL: 'postgres://a@localhost/b' }));
  t.notOk(given({ HOST: '0.0.0.0', ...native }), 'another address');
  t.notOk(given(native), 'every address');
  t.notOk(given({ HOST: '192.168.1.2', ...native }));
  t.notOk(given({ HOST: '127.0.0.1', RUNLEDGER_TLS: 'proxy' }), 'a proxy in front');
  t.notOk(given({ DATABASE_URL: 'postgres://a@db.example/b' }), 'a database that others use');
  const others = 'postgres://a@db.example/b';
  t.notOk(given({ RUNLEDGER_WORKER_DATABASE_URL: others }), 'a database of the worker’s own');
  t.notOk(given({ RUNLEDGER_WEB_DATABASE_URL: others }));
  t.notOk(given({ RUNLEDGER_ISOLATION: 'rlimits' }), 'no need: it was asked for by name');
});

t.test('only a launcher that finds no isolation says that there is none', async (t) => {
  const chosen = async (end: string) => {
    const launcher = join(t.testdir(), 'launcher');
    writeFileSync(launcher, `#!/bin/sh\n${end}\n`, { mode: 0o755 });
    return (await chooseIsolation({ ...loadConfig({}), launcher })).kind;
  };
  t.equal(await chosen('kill -9 $$'), 'as configured', 'it may find one the next time');
  t.equal(await chosen('exit 1'), 'none');
  t.equal(await chosen('exit 3'), 'none');
});

t.test('a worker by itself refuses', { skip }, async (t) => {
  const { urls } = await freshDatabase(t);
  const folder = await folderFor(t, UNISOLATED);
  const env = { DATABASE_URL: urls.worker, RUNLEDGER_STATE_DIR: join(folder, 'state') };
  const { status, stdout } = run(UNISOLATED, ['./runledger', 'worker'], env);
  t.equal(status, 3);
  const last = JSON.parse(stdout.trim().split('\n').at(-1)!);
  t.match(last, { level: 'fatal', msg: 'cannot run', reason: /no isolation: .+/ });
});

t.test('serve behind a proxy refuses: its worker does not start', { skip }, async (t) => {
  const { urls } = await freshDatabase(t);
  const folder = await folderFor(t, UNISOLATED);
  const env = {
    DATABASE_URL: urls.owner,
    RUNLEDGER_STATE_DIR: join(folder, 'state'),
    RUNLEDGER_TLS: 'proxy',
    HOST: '127.0.0.1',
    PORT: '0',
  };
  // Web goes on without a worker.
  const given_up = /^worker ended with status 3, not started again$/;
  const lines = await printsUntil(given_up, UNISOLATED, ['./runledger', 'serve'], env);
  t.match(lines.join('\n'), /^worker: launcher: no isolation: /m);
  t.ok(lines.some((line) => given_up.test(line)));
  t.notMatch(lines.join('\n'), /degraded/);
});

const noLandlock = { skip: skip || (cannotImitate(UNPROTECTED) ?? false) };
t.test(
  'without Landlock an ordinary user gets one line, and nothing starts',
  noLandlock,
  async (t) => {
    const folder = await folderFor(t, UNPROTECTED);
    const state = join(folder, 'state');
    const env = { RUNLEDGER_STATE_DIR: state };
    const { status, lines } = run(UNPROTECTED, ['./runledger', 'serve'], env);
    t.equal(status, 1);
    t.equal(lines.length, 1);
    t.match(lines[0], /^this machine cannot run programs: .*or Landlock \(Linux 5\.13/);
    t.notOk(existsSync(state), 'no database was started');
    const asked = {
      ...env,
      RUNLEDGER_ISOLATION: 'rlimits',
      DATABASE_URL: 'postgres://x@127.0.0.1:1/x',
    };
    t.equal(run(UNPROTECTED, ['./runledger', 'worker'], asked).status, 3, 'nor by name');
  },
);

t.test('without a launcher serve says how to build one, and starts nothing', async (t) => {
  const folder = await folderFor(t, { ...UNISOLATED, uid: process.getuid!() });
  const state = join(folder, 'state');
  const env = { RUNLEDGER_STATE_DIR: state, RUNLEDGER_LAUNCHER: '/no/launcher' };
  const { status, lines } = run({ ...UNISOLATED, inside: [] }, ['./runledger', 'serve'], env);
  t.equal(status, 1);
  t.match(lines, [/^this machine cannot run programs: .* is not built .*: run `make install`/]);
  t.notOk(existsSync(state));
});

t.test('make run without a C compiler stops before it downloads anything', { skip }, async (t) => {
  const folder = await folderFor(t, UNISOLATED);
  const clone = join(folder, 'clone');
  for (const name of ['Makefile', 'package.json', 'package-lock.json', 'runledger', 'src'])
    cpSync(join(ROOT, name), join(clone, name), { recursive: true });
  chmodSync(folder, 0o755);
  spawnSync('chown', ['-R', `${UNISOLATED.uid}`, clone]);
  const { status, lines } = run(
    UNISOLATED,
    ['make', 'run'],
    { PATH: withoutCompiler(folder) },
    clone,
  );
  t.equal(status, 2);
  const said = lines.filter((line) => !line.startsWith('make: '));
  t.match(said, [
    /^this machine cannot run programs: .* no C compiler .*apt-get install gcc libc6-dev$/,
  ]);
  t.notOk(existsSync(join(clone, 'node_modules')));
  t.notOk(existsSync(join(clone, 'build')));
});

/** A PATH with every program of the system but compilers, sudo and npm. */
function withoutCompiler(folder: string): string {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  for (const name of readdirSync('/usr/bin'))
    if (!/^(cc|c99|gcc.*|clang.*|tcc|sudo|npm|node)$/.test(name))
      symlinkSync(`/usr/bin/${name}`, join(bin, name));
  return bin;
}
