/**
 * Whether an interpreter was started for a program or forked from a warm one, the program cannot tell: a corpus of 400
 * run both ways. What is compared is all that a user sees. What may differ is documented: which modules are loaded
 * already, and that the runs of one interpreter share a hash seed.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { anExecutor, type Outcome, PLAIN } from '../executor/an_executor.ts';
import { CORPUS } from './python_corpus.ts';

const IS_WARM = 'import sys; print("decimal" in sys.modules)';

const { run } = await anExecutor(t, {
  languages: ['python'],
  switches: { ...PLAIN, python_zygote: true },
  slots: 1,
});
const plain = await anExecutor(t, { languages: ['python'], switches: PLAIN, slots: 1 });

/** The slot warms its interpreters in its pauses; a run after this one is forked. */
async function warm(): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if ((await run('python', IS_WARM)).stdout === 'True\n') return;
    await sleep(5);
  }
  throw new Error('no interpreter became warm');
}

/** What a warm interpreter has loaded, and a plain one has not. */
async function loadedAhead(): Promise<string> {
  const code = 'import sys; print(*sys.modules)';
  await warm();
  return (await run('python', code)).stdout.trim();
}

const seen = ({ verdict, exit_code, signal, stdout, stderr }: Outcome) => ({
  ...{ verdict, exit_code, signal },
  stdout: steady(stdout),
  stderr: steady(stderr),
});

/** Addresses, and times that a test runner of Python prints, differ from run to run. */
const steady = (text: string) =>
  text
    .replaceAll(/0x[0-9a-f]{6,}/g, '0x')
    .replaceAll(/\b1[0-9]{14}\b/g, 'address')
    .replaceAll(/in \d+\.\d+s/g, 'in 0s');

t.test('the corpus', async (t) => {
  const modules = await loadedAhead();
  for (const { name, code, stdin = '', args = [] } of CORPUS) {
    const source = code.replace('WARM_MODULES', modules);
    await warm();
    const forked = await run('python', source, { stdin, args });
    const started = await plain.run('python', source, { stdin, args });
    t.strictSame(seen(forked), seen(started), name);
  }
});

t.test('what is random is so in each run', async (t) => {
  const code =
    'import random, uuid, secrets, os, tempfile; print(random.random(), uuid.uuid4(), secrets.token_hex(4), os.urandom(4).hex(), tempfile.mkdtemp())';
  const words = new Set<string>();
  for (let n = 0; n < 5; n++) {
    await warm();
    for (const word of (await run('python', code)).stdout.trim().split(' ')) words.add(word);
  }
  t.equal(words.size, 25);
});

t.test('time goes on, and counts for each run alone', async (t) => {
  await warm();
  await sleep(300);
  const { stdout } = await run(
    'python',
    'import time; print(time.process_time() < 0.25, time.perf_counter() > 0, abs(time.time() - time.time_ns() / 1e9) < 1)',
  );
  t.equal(stdout, 'True True True\n');
});

t.test('what one run does to its modules no other sees', async (t) => {
  for (const code of [
    'import math; math.pi = 3',
    'import builtins; builtins.print = None',
    'import sys; sys.path.append("x"); sys.modules["x"] = sys',
  ]) {
    await warm();
    await run('python', code);
  }
  await warm();
  const looks = await run(
    'python',
    'import math, sys; print(math.pi, "x" in sys.path, "x" in sys.modules)',
  );
  t.equal(looks.stdout, '3.141592653589793 False False\n');
});
