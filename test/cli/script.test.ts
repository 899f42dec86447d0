/** The executable `./runledger`: how it finds the clone, Node and the state directory. */
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { NODE_FLAGS } from '../../src/processes/serve_all.ts';
import { CLI, runProgram, SCRIPT } from './command_line.ts';

const VERSION = /^runledger \d+\.\d+\.\d+\n$/;
const ROOT = join(SCRIPT, '..');

function folder(t: Test): string {
  const made = realpathSync(mkdtempSync(join(tmpdir(), 'runledger-script-')));
  t.teardown(() => rmSync(made, { recursive: true }));
  return made;
}

/** A PATH with the tools that the script uses, and no node. */
function binWithoutNode(t: Test): string {
  const bin = folder(t);
  for (const name of ['readlink', 'dirname']) symlinkSync(`/usr/bin/${name}`, join(bin, name));
  return bin;
}

t.test(
  'it works from any directory, through a symbolic link, and without a Node in PATH',
  async (t) => {
    const cwd = folder(t);
    symlinkSync(SCRIPT, join(cwd, 'linked'));
    symlinkSync('linked', join(cwd, 'twice'));
    for (const program of [SCRIPT, './linked', './twice'])
      t.match(await runProgram(program, ['--version'], { cwd, env: { PATH: binWithoutNode(t) } }), {
        status: 0,
        stdout: VERSION,
        stderr: '',
      });
  },
);

t.test('arguments, exit status and both outputs pass through', async (t) => {
  const { status, stdout, stderr } = await runProgram(SCRIPT, ['no such', 'command'], {
    cwd: folder(t),
  });
  t.match({ status, stdout }, { status: 2, stdout: '' });
  t.match(stderr, 'no such command: no such; see `./runledger --help`\n');
});

t.test('in a clone with nothing installed it says in one line what to do', async (t) => {
  const clone = cloneWith(t, {});
  const { status, stderr } = await runProgram(join(clone, 'runledger'), ['--version'], {
    cwd: '/',
  });
  t.equal(status, 1);
  t.equal(stderr, `runledger is not installed: run \`make install\` in ${clone}\n`);
  const judge = await runProgram(join(clone, 'runledger'), ['judge', 'a.py'], { cwd: '/' });
  t.match(judge, { status: 125, stderr }, 'nothing is judged');
});

t.test('a system Node that is too old is not used', async (t) => {
  const clone = cloneWith(t, { installed: true });
  const bin = binWithoutNode(t);
  const start = () => runProgram(join(clone, 'runledger'), ['x'], { cwd: '/', env: { PATH: bin } });
  const needed = /^runledger needs Node 24\.12: run `make install` in .*\n$/;
  t.match(await start(), { status: 1, stderr: needed }, 'no Node at all');
  fakeNode(bin, '24.11.1');
  t.match(await start(), { status: 1, stderr: needed }, 'an old one');
  fakeNode(bin, '24.12.0');
  t.match(await start(), { status: 0, stdout: 'started main.js x\n' }, 'one that is new enough');
});

t.test('the state directory is that of the clone, from wherever it is called', async (t) => {
  const stateDir = async (cwd: string, env: NodeJS.ProcessEnv = {}) => {
    const { stdout } = await runProgram(SCRIPT, ['config', '--json'], { cwd, env });
    const found = JSON.parse(stdout) as { name: string; value: string }[];
    return found.find(({ name }) => name === 'RUNLEDGER_STATE_DIR')?.value;
  };
  t.equal(await stateDir(ROOT), '.data');
  t.equal(await stateDir(folder(t)), join(ROOT, '.data'));
  t.equal(await stateDir(folder(t), { RUNLEDGER_STATE_DIR: 'own' }), 'own');
});

// Node's compiler of TypeScript is WebAssembly: without it, a module that is not in the cache cannot be compiled.
t.test('a start for the second time compiles no TypeScript', async (t) => {
  const start = (...flags: string[]) =>
    runProgram(process.execPath, [...flags, CLI, '--version'], { cwd: ROOT });
  await start();
  const without = '--import=data:text/javascript,delete globalThis.WebAssembly';
  t.match(await start(without), { status: 0, stdout: VERSION, stderr: '' });
});

t.test('every way to start web and worker gives Node the same flags', async (t) => {
  const flags = NODE_FLAGS.join(' ');
  for (const file of ['Procfile', 'render.yaml', 'runledger']) {
    const text = readFileSync(join(ROOT, file), 'utf8');
    const started = text
      .split('\n')
      .filter((line) => /--max-semi|main\.js (web|worker)/.test(line));
    t.ok(started.length > 0, file);
    for (const line of started) t.ok(line.includes(` ${flags} `), `${file}: ${line}`);
  }
});

function cloneWith(t: Test, { installed = false }): string {
  const clone = folder(t);
  cpSync(SCRIPT, join(clone, 'runledger'));
  if (installed) mkdirSync(join(clone, 'node_modules/postgres'), { recursive: true });
  return clone;
}

/** Stands in for a system Node of another version: the script's check runs for real, on that version. */
function fakeNode(bin: string, version: string): void {
  const shadow = `((process) => { $2 })({ versions: { node: '${version}' }, exit: globalThis.process.exit })`;
  const lines = [
    '#!/bin/sh',
    `[ "$1" = -e ] && exec ${process.execPath} -e "${shadow}"`,
    `echo "started \${1##*/} $2"`,
  ];
  writeFileSync(join(bin, 'node'), `${lines.join('\n')}\n`);
  chmodSync(join(bin, 'node'), 0o755);
}
