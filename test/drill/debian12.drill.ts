/**
 * The first try on a minimal Debian 12 that has git, make, Node and npm and nothing else: `make run`, as root and as an ordinary
 * user. Every line that it prints is shown with its time.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism, loadavg } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { descendants } from '../support/processes.ts';
import { debianRoot, inside, TRUST } from './debian_root.ts';
import type { Drill, Stage } from './drill.ts';

const PACKAGES = ['git', 'make', 'nodejs', 'npm'];
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** On an idle machine of two cores. */
const KEY_S = 60;
const VERDICT_S = 1;
const USER = 'guest';

export const drill: Drill = {
  shows:
    'make run on a minimal Debian 12: as root with apt, and as a user, who learns first what is missing',
  async run(stage) {
    const root = await debianRoot(stage, PACKAGES);
    await asRoot(stage, root);
    await asUser(stage, root);
    await asUserWithCompiler(stage, root);
  },
};

/** The whole way: everything is installed, and a program runs. */
async function asRoot(stage: Stage, root: string): Promise<void> {
  const idle = loadavg()[0]! < availableParallelism() / 2;
  const clone = await fresh(stage, root, 'as root', '');
  const run = clone.run('make run');
  const { address, key } = await run.introduced;
  const key_s = run.seconds();
  const code = { language: 'python', code: 'print(6 * 7)' };
  const began = performance.now();
  const answer = await fetch(`${address}/api/submit?wait=true`, {
    method: 'POST',
    headers: { 'X-API-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify(code),
  });
  const record = (await answer.json()) as { verdict: string };
  const verdict_s = (performance.now() - began) / 1_000;
  await run.stop();
  stage.say(
    `as root: the key after ${key_s.toFixed(1)} s, a verdict ${verdict_s.toFixed(2)} s later`,
  );
  assert.equal(record.verdict, 'AC');
  if (!idle) {
    stage.say('this machine was busy: the times are not judged');
    return;
  }
  assert.ok(key_s < KEY_S, `the key came after ${key_s.toFixed(0)} s, not within ${KEY_S} s`);
  assert.ok(verdict_s < VERDICT_S, `the verdict came after ${verdict_s.toFixed(1)} s`);
}

/** Without a compiler nothing can run: one line says so and what to ask for, and nothing is downloaded. */
async function asUser(stage: Stage, root: string): Promise<void> {
  const clone = await fresh(stage, root, 'as a user', ADD_USER);
  const run = clone.run(`${AS_USER} make run; ls -a`);
  await run.ended;
  const [missing, first, ...rest] = run.lines;
  assert.match(
    missing!,
    /^missing packages, so these will not run: cpp java; .*apt-get install gcc g\+\+ default-jdk-headless/,
  );
  assert.match(
    first!,
    /^this machine cannot run programs: .*as an administrator, run apt-get install gcc libc6-dev/,
  );
  assert.ok(!rest.includes('node_modules') && !rest.includes('build'), 'nothing was downloaded');
}

/** With one, the languages that are there run. What will not run is the first thing that is said. */
async function asUserWithCompiler(stage: Stage, root: string): Promise<void> {
  const compiler =
    'apt-get -qq update && apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends gcc libc6-dev >/dev/null';
  const clone = await fresh(
    stage,
    root,
    'as a user with a C compiler',
    `${compiler} && ${ADD_USER}`,
  );
  const run = clone.run(`${AS_USER} make run`);
  await run.introduced;
  await run.stop();
  const said = run.lines.findIndex((line) =>
    /^missing packages, so these will not run: cpp java; /.test(line),
  );
  const downloads = run.lines.findIndex((line) => /^packages: installing with npm/.test(line));
  assert.ok(said >= 0 && said < downloads, 'what will not run is said before the download');
  assert.ok(run.lines.some((line) => /^degraded isolation, for your own code only/.test(line)));
}

const ADD_USER = `useradd --create-home ${USER} && chown -R ${USER} /clone`;
const AS_USER = `setpriv --reuid=${USER} --regid=${USER} --clear-groups env HOME=/home/${USER}`;

/** A root with a clone of this repository's last commit, in which `prepare` has run. */
async function fresh(stage: Stage, root: string, name: string, prepare: string) {
  const { words, upper } = await inside(stage, root);
  await stage.command('git', ['clone', '-q', '--bare', '.', join(upper, 'source.git')]);
  const say = (line: string) => stage.say(`${name}: ${line}`);
  const begin = ['git clone -q /source.git /clone', 'cd /clone', prepare || ':', `echo ${READY}`];
  return {
    run: (script: string) =>
      watch(stage, say, [...words, 'sh', '-c', `${begin.join(' && ')} && ${script}`]),
  };
}

const READY = 'the clone is there';

function watch(stage: Stage, say: (line: string) => void, [program, ...args]: string[]) {
  const child = spawn('setpriv', ['--pdeathsig=KILL', '--', program!, ...args], {
    env: { PATH, LANG: 'C.UTF-8', HOME: '/root', PORT: '0', ...TRUST },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  stage.teardown(() => stopped(child));
  let began = performance.now();
  const seconds = () => (performance.now() - began) / 1_000;
  const lines: string[] = [];
  const ended = once(child, 'close');
  const introduced = new Promise<{ address: string; key: string }>((done, failed) => {
    child.once('close', () => failed(new Error(`it ended: ${lines.slice(-5).join('; ')}`)));
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => {
        if (line === READY) began = performance.now();
        else lines.push(line);
        const shown = line.replace(/\brl_\w+/g, 'rl_…').slice(0, 160);
        say(`${seconds().toFixed(1).padStart(5)} s  ${shown}`);
        const value = (label: string) => lines.find((each) => each.startsWith(label))?.slice(9);
        const [address, key, example] = ['address', 'key', 'try'].map(value);
        if (address && key && example) done({ address, key });
      });
  });
  introduced.catch(() => {});
  return { lines, introduced, ended, seconds, stop: () => stopped(child) };
}

/** In order, so that no control group is left; what is left nevertheless ends with its first process. */
async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'close');
  const serving = descendants(child.pid!).find(({ command }) => / serve$/.test(command));
  if (serving) process.kill(serving.pid, 'SIGTERM');
  else child.kill('SIGKILL');
  await ended;
}
