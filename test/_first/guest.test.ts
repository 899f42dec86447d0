/**
 * The tests in this folder take longest. In the order of names they are the first, so nothing waits for them at the end of a run.
 *
 * The suite's C++ programs on a kernel with only cgroup v2: as root, and as an ordinary user with a
 * group that systemd delegates. Each runs in a temporary virtual machine (guest/run), one after the other.
 * It leaves out what holds there by the same means as elsewhere (guest_cases.ts). `make sandbox-test-v2` runs the whole suite
 * there.
 *
 * A guest takes a minute or two, and longer on a busy machine. It may take as long as it prints results;
 * it is given up only when nothing has been printed for a long time. A guest that fails as a machine
 * (it was given up, it ended without a status, or its Node crashed before the first case) runs once
 * more. A case that fails is never repeated.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { CASES } from '../sandbox/cases/all.ts';
import { differsIn, SAME } from '../sandbox/guest_cases.ts';
import { preparePrograms } from '../sandbox/programs.ts';
import { spawnBound } from '../support/spawn_bound.ts';

/** Between two results there are seconds. On a busy machine a run that fills its memory can take minutes. */
const IDLE_S = 1_200;
const MOST_S = 3_600;
const NO_GUEST = 125;
/** It ended without a status, or was given up. */
const LOST: (number | null)[] = [123, 124];
/** Node crashed, by SIGSEGV or by a check in V8, as a shell reports it. */
const CRASHED: (number | null)[] = [139, 133];
/** A slot copies these 1,400 files when it starts, as it does with two other folders. No C++ program of the suite reads them. */
const ZONES = '/usr/share/zoneinfo';
const CASE = /^(ok|FAILED) +(\w+): (.*)$/gm;

t.setTimeout(4 * MOST_S * 1_000);
// On this machine, where the build folder is writable and the compilers are fast.
const { toolchains } = await findToolchains();
await preparePrograms({ java: toolchains.get('java')?.at ?? null });

const SANDBOX = join(import.meta.dirname, '../sandbox');
const runner = join(SANDBOX, 'guest/run');
/** Node strips types with WebAssembly. V8 has crashed in an emulated guest when it replaced that code with optimized code. */
const node = [process.execPath, '--liftoff-only'];
const suite = [
  ...node,
  join(SANDBOX, 'main.ts'),
  '--language',
  'cpp',
  '--no-compile',
  '--differing',
];
/** What main.ts prints about what only this user can be asked. */
const MORE = {
  root: /handler called by a crash outside: true, in a box: false/,
  user: /message queues of 16 programs: less than the user's/,
};

t.test('each case that is left out exists', async (t) => {
  for (const { topic, names } of Object.values(SAME).flat()) {
    const there = CASES.filter((test) => test.topic === topic).map(({ name }) => name);
    t.ok(there.length > 0, topic);
    if (names !== 'all') for (const name of names) t.ok(there.includes(name), `${topic}: ${name}`);
  }
});

for (const as of ['root', 'user'] as const) {
  t.test(`pure cgroup v2, as ${as}`, { timeout: 2 * MOST_S * 1_000 }, async (t) => {
    const options = [
      '--as',
      as,
      '--empty',
      ZONES,
      '--times',
      '--timeout',
      `${MOST_S}`,
      '--idle',
      `${IDLE_S}`,
    ];
    const guest = [...options, '--', ...suite, as];
    let { code, stdout, stderr } = await run(guest);
    const lastLine = () => stderr.trim().split('\n').at(-1) ?? '';
    if (LOST.includes(code) || (CRASHED.includes(code) && stdout.match(CASE) === null)) {
      t.comment(`the guest failed with status ${code} and runs again: ${lastLine()}`);
      ({ code, stdout, stderr } = await run(guest));
    }
    if (code === NO_GUEST) {
      t.pass('a guest', { skip: lastLine() });
      return;
    }
    const found = [...stdout.matchAll(CASE)];
    const failed = failuresIn(stdout);
    for (const [line, how, topic, name] of found)
      t.equal(how, 'ok', `${topic}: ${name}`, {
        why: failed.find((part) => part.startsWith(line)),
      });
    const expected = CASES.filter((test) => test.languages.includes('cpp') && differsIn(as, test));
    t.equal(found.length, expected.length, 'every case ran');
    const summary = /^\d+ cases.*$/m.exec(stdout)?.[0] ?? 'no summary';
    t.equal(code, 0, summary, { stderr, failed: failed.join('\n') });
    t.match(
      stdout,
      as === 'root' ? /"kind":"v2"/ : /"kind":"v2-user"/,
      'with the expected isolation',
    );
    t.match(stdout, MORE[as], 'what only this user can be asked');
    t.comment(lastLine());
  });
}

async function run(words: readonly string[]) {
  const child = spawnBound(runner, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit');
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!)]);
  const [code] = await ended;
  return { code: code as number | null, stdout, stderr };
}

function failuresIn(stdout: string): string[] {
  return stdout.split(/^(?=ok |FAILED)/m).filter((part) => part.startsWith('FAILED'));
}
