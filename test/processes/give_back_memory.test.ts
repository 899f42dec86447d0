/** What a process does with memory that it no longer needs. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import t from 'tap';

const MODULE = new URL('../../src/processes/give_back_memory.ts', import.meta.url);
/** Allocates much, needs nothing of it, is busy for 20 looks, and then rests. It prints its memory in MB. */
const PROGRAM = `
import { setTimeout as wait } from 'node:timers/promises';
import { giveBackMemory } from '${MODULE}';
const mb = () => process.memoryUsage.rss() / 1e6;
let lists = Array.from({ length: 40 }, () => Array.from({ length: 40_000 }, (_, n) => ({ n })));
lists = null;
console.log(mb());
const [LOOK_MS, LOOKS] = [50, 20];
giveBackMemory({ look_ms: LOOK_MS, pause_ms: 0 });
for (const end = performance.now() + LOOK_MS * LOOKS; performance.now() < end; ) await new Promise(setImmediate);
console.log(mb());
for (;;) { await wait(LOOK_MS); console.log(mb()); }`;

t.test('a process gives memory back when it rests, and not before', async (t) => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const mb = async () => Number((await lines.next()).value);
  const filled = await mb();
  t.ok((await mb()) > filled - 10, 'while it works it keeps it');
  let rested = filled;
  for (let n = 0; n < 1_000 && rested > filled - 40; n += 1) rested = await mb();
  t.ok(rested <= filled - 40, `${filled} MB, then ${rested}`);
});
