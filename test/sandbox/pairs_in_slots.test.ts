/** A pair takes two slots at once, ends as one when either half fails, and leaves nothing. */
import { readdirSync } from 'node:fs';
import t from 'tap';
import { said, shell, withSandbox } from '../executor/box.ts';
import { within } from '../executor/processes.ts';
import { childrenOf } from '../support/processes.ts';
import { ISOLATION } from './isolation.ts';
import { GUESSED, GUESSER, LONG, READER, side } from './pair_programs.ts';

const { sandbox, close } = await withSandbox({ ...ISOLATION });
t.teardown(close);

t.test(
  'more pairs and runs than slots: all end, and no pair waits for a half of another',
  async (t) => {
    const hello = shell('echo hello');
    const pairs = Array.from({ length: 6 }, () => sandbox.runPair(GUESSER, GUESSED));
    const runs = Array.from({ length: 12 }, () => sandbox.run(hello));
    const more = Array.from({ length: 6 }, () => sandbox.runPair(GUESSER, GUESSED));
    for (const report of await Promise.all([...pairs, ...more]))
      t.match(report, { program: { exit_code: 0 }, interactor: { exit_code: 42 } });
    t.same(
      (await Promise.all(runs)).map(said),
      Array.from({ length: 12 }, () => 'hello'),
    );
  },
);

t.test('a pair is not overtaken for ever by single runs', async (t) => {
  let over = false;
  let ran = 0;
  const singles = Array.from({ length: 6 }, async () => {
    for (; !over; ran++) await sandbox.run(shell('echo'));
  });
  await sandbox.runPair(GUESSER, GUESSED);
  over = true;
  await Promise.all(singles);
  t.ok(ran > 0, `${ran} runs beside it`);
});

const rejection = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: Error) => error,
  );

t.test('a pair that cannot be run is a fault, and both of its runs end', async (t) => {
  const bad = shell('true', { load: [{ key: 'absent', at: '/load' }] });
  const waits = side('sys.stdin.read()', { limits: LONG });
  for (const pair of [
    [bad, waits],
    [waits, bad],
  ] as const)
    t.match(await rejection(sandbox.runPair(...pair)), { kind: 'missing', message: /absent/ });
  const malformed = shell('true', { profile: 'other' });
  t.match(await rejection(sandbox.runPair(waits, malformed)), { kind: 'rejected' });
  t.match(await rejection(sandbox.runPair(waits, shell('x', { stdin_key: 'x' }))), {
    kind: 'rejected',
  });
  t.match(await rejection(sandbox.runPair(waits, { ...waits, stdin: Buffer.from('x') })), {
    kind: 'rejected',
  });
  const small = await withSandbox({ slots: 1 });
  t.match(await rejection(small.sandbox.runPair(GUESSER, GUESSED)), { message: /two slots/ });
  await small.close();
  t.equal(said(await sandbox.run(shell('echo fine'))), 'fine');
});

t.test('a pair is cancelled as one, before it starts and while it runs', async (t) => {
  const waits = side('sys.stdin.read()', { limits: LONG });
  const running = new AbortController();
  const waiting = new AbortController();
  const first = rejection(sandbox.runPair(waits, waits, { signal: running.signal }));
  const second = rejection(sandbox.runPair(waits, waits, { signal: waiting.signal }));
  const third = rejection(sandbox.runPair(waits, waits, { signal: waiting.signal }));
  waiting.abort();
  for (const end of [second, third]) t.match(await end, { kind: 'cancelled' });
  running.abort();
  t.match(await first, { kind: 'cancelled' });
  const { signal } = waiting;
  t.match(await rejection(sandbox.runPair(waits, waits, { signal })), { kind: 'cancelled' });
  t.match(await sandbox.runPair(GUESSER, GUESSED), { interactor: { exit_code: 42 } });
});

t.test('kill -9 of either slot: the pair ends with a fault, and the next one works', async (t) => {
  const waits = side('sys.stdin.read()', { limits: LONG });
  for (const victim of [0, 1]) {
    const end = rejection(sandbox.runPair(waits, waits));
    const { pid, degraded } = sandbox.isolation;
    const programsOf = (slot: number) =>
      degraded ? childrenOf(slot) : childrenOf(slot).flatMap(childrenOf);
    const slots = () => childrenOf(pid).filter((slot) => programsOf(slot).length > 0);
    t.ok(await within(120_000, () => slots().length >= 2), 'both run');
    process.kill(slots()[victim]!, 'SIGKILL');
    t.match(await end, { name: 'SandboxFault' });
    t.match(await sandbox.runPair(GUESSER, GUESSED), { interactor: { exit_code: 42 } });
  }
});

t.test('no descriptor is left in launcher or slots', async (t) => {
  const { pid } = sandbox.isolation;
  const count = () =>
    [pid, ...childrenOf(pid)].reduce(
      (sum, each) => sum + readdirSync(`/proc/${each}/fd`).length,
      0,
    );
  await sandbox.runPair(GUESSER, GUESSED);
  await sandbox.runPair(GUESSER, GUESSED);
  const before = count();
  for (let round = 0; round < 10; round++) {
    await sandbox.runPair(side('pass'), READER);
    await sandbox.runPair(READER, side('os.kill(os.getpid(), 9)'));
  }
  // A slot that is not yet idle has some more, and each of the two may have a ready box since. A leak would be one for each
  // of twenty pairs.
  t.ok(
    await within(120_000, () => count() <= before + 2 * 2),
    `${before} before, ${count()} after`,
  );
});
