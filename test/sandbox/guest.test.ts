/**
 * The suite's C++ programs on kernels with cgroup v2 alone: as root, and as an ordinary user whom
 * systemd delegated a group. Each in a throw-away machine (guest/run), one after the other; the whole
 * suite there is `make sandbox-test-v2`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { CASES } from './cases/all.ts';
import { preparePrograms } from './programs.ts';

/** Each takes 80 to 120 s on two busy cores. */
const MOST_S = 240;
const NO_GUEST = 125;
/** By SIGSEGV, or by a check of V8's own, as a shell tells it. */
const CRASHED: (number | null)[] = [139, 133];
const CASE = /^(ok|FAILED) +(\w+): (.*)$/gm;

t.setTimeout(4 * (MOST_S + 20) * 1_000);
// Here, where the folder of what is built can be written and a compiler is quick.
await preparePrograms({ java: null });

const runner = join(import.meta.dirname, 'guest/run');
/** What strips types is WebAssembly: where its code is replaced by better code meanwhile, V8 has crashed in an emulation. */
const node = `${process.execPath} --liftoff-only`;
const suite = `${node} ${join(import.meta.dirname, 'main.ts')} --language cpp --no-compile`;
/** Only root may tell the kernel who handles core dumps. */
const coreHandler = `${node} ${join(import.meta.dirname, 'guest/core_handler.ts')}`;

for (const as of ['root', 'user']) {
  t.test(`pure cgroup v2, as ${as}`, { timeout: 2 * (MOST_S + 20) * 1_000 }, async (t) => {
    const options = ['--as', as, '--times', '--timeout', `${MOST_S}`];
    const script = as === 'root' ? `${suite} && ${coreHandler}` : suite;
    const guest = [...options, '--', 'sh', '-c', script];
    let { code, stdout, stderr } = await run(guest);
    if (CRASHED.includes(code) && stdout.match(CASE) === null) {
      t.comment('the runtime itself crashed in the emulated guest, before the first case: again');
      ({ code, stdout, stderr } = await run(guest));
    }
    const lastWords = stderr.trim().split('\n').at(-1) ?? '';
    if (code === NO_GUEST) {
      t.pass('a guest', { skip: lastWords });
      return;
    }
    const found = [...stdout.matchAll(CASE)];
    for (const [, how, topic, name] of found) t.equal(how, 'ok', `${topic}: ${name}`);
    const expected = CASES.filter(({ languages }) => languages.includes('cpp')).length;
    t.equal(found.length, expected, 'every case was run');
    const summary = /^\d+ cases.*$/m.exec(stdout)?.[0] ?? 'no summary';
    t.equal(code, 0, summary, { stderr, failed: failuresIn(stdout).join('\n') });
    t.match(stdout, as === 'root' ? /"kind":"v2"/ : /"kind":"v2-user"/, 'on the isolation meant');
    if (as === 'root')
      t.match(
        stdout,
        /handler called by a crash outside: true, in a box: false/,
        'no core handler',
      );
    t.comment(lastWords);
  });
}

async function run(words: readonly string[]) {
  const child = spawn(runner, words);
  const ended = once(child, 'exit');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await ended;
  return { code: code as number | null, stdout, stderr };
}

function failuresIn(stdout: string): string[] {
  return stdout.split(/^(?=ok |FAILED)/m).filter((part) => part.startsWith('FAILED'));
}
