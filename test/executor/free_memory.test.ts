/** A worker that is short of memory starts nothing until there is more. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { freeMemory, isShort, watchMemory } from '../../src/executor/free_memory.ts';
import { eventually } from '../support/eventually.ts';

const MiB = 2 ** 20;
const meminfo = (total_mib: number, available_mib: number) =>
  `MemTotal:       ${total_mib * 1024} kB\nMemFree:          1024 kB\nMemAvailable:   ${available_mib * 1024} kB\n`;

t.test('the kernel says how much there is', async (t) => {
  const memory = freeMemory();
  t.ok(memory !== null && memory.available_bytes > 0);
  // Other tests may take much of it for a moment.
  t.ok(await eventually(() => !isShort(freeMemory())), 'this machine has enough for tests');
  t.equal(freeMemory('nothing that is known'), null);
  t.notOk(isShort(null), 'an unknown amount stops nobody');
});

t.test('too little is a part of a small machine and a fixed amount of a large one', async (t) => {
  t.same(freeMemory(meminfo(1000, 400)), {
    available_bytes: 400 * MiB,
    least_bytes: 50 * MiB,
  });
  t.equal(freeMemory(meminfo(100_000, 400))?.least_bytes, 256 * MiB);
  t.ok(isShort(freeMemory(meminfo(1000, 49))));
  t.notOk(isShort(freeMemory(meminfo(1000, 50))));
});

t.test('nothing starts while there is too little, and again when there is more', async (t) => {
  let available_mib = 400;
  const said: string[] = [];
  const back = Promise.withResolvers<void>();
  const watch = watchMemory({
    look: () => freeMemory(meminfo(1000, available_mib)),
    onShort: ({ available_bytes }) => said.push(`short ${available_bytes / MiB}`),
    onEnough: () => {
      said.push('enough');
      back.resolve();
    },
  });
  t.teardown(() => watch.stop());
  t.ok(watch.enough());
  available_mib = 10;
  // A reading is used for a short time.
  while (watch.enough()) await sleep(10);
  t.notOk(watch.enough());
  t.same(said, ['short 10'], 'once, and not at each look');
  available_mib = 60;
  t.notOk(watch.enough(), 'until the next look');
  await back.promise;
  t.ok(watch.enough());
  t.same(said, ['short 10', 'enough']);
});
