/** What a process does with memory that it no longer needs. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';

const MODULE = new URL('../../src/processes/give_back_memory.ts', import.meta.url);
/** The programs print their memory in MB. What they fill it with they do not need. */
const START = `
import { setTimeout as wait } from 'node:timers/promises';
import { giveBackMemory } from '${MODULE}';
const LOOK_MS = 50;
const inLooks = (looks) => performance.now() + looks * LOOK_MS;
const mb = () => process.memoryUsage.rss() / 1e6;
const print = () => console.log(mb());
function fill() {
  const lists = Array.from({ length: 40 }, () => Array.from({ length: 40_000 }, (_, n) => ({ n })));
  return lists.length;
}
fill();
print();`;
const WORKS_THEN_RESTS = `${START}
giveBackMemory({ look_ms: LOOK_MS, pause_ms: 0 });
for (const end = inLooks(20); performance.now() < end; ) await new Promise(setImmediate);
print();
for (;;) { await wait(LOOK_MS); print(); }`;
const FILLS_AGAIN = `${START}
const full = mb();
giveBackMemory({ look_ms: LOOK_MS, pause_ms: 3_600_000 });
while (mb() > full - 40) await wait(LOOK_MS);
fill();
print();
await wait(40 * LOOK_MS);
print();`;
/** Less than a fill, and more than what else changes. */
const MUCH_MB = 40;
const LITTLE_MB = 10;

function run(t: Test, program: string): () => Promise<number> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async () => Number((await lines.next()).value);
}

t.test('a process gives memory back when it rests, and not before', async (t) => {
  const mb = run(t, WORKS_THEN_RESTS);
  const filled = await mb();
  t.ok((await mb()) > filled - LITTLE_MB, 'while it works it keeps it');
  let rested = filled;
  for (let n = 0; n < 1_000 && rested > filled - MUCH_MB; n += 1) rested = await mb();
  t.ok(rested <= filled - MUCH_MB, `${filled} MB, then ${rested}`);
});

t.test('and not again before a pause', async (t) => {
  const mb = run(t, FILLS_AGAIN);
  await mb();
  const [filled, rested] = [await mb(), await mb()];
  t.ok(rested > filled - LITTLE_MB, `${filled} MB, then ${rested}`);
});
