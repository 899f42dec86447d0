/** The launcher's queue holds so many bytes: what is beyond them waits in the worker, and is not refused. */
import t from 'tap';
import { MiB, said, shell, withSandbox } from './box.ts';

const SLOTS = 5;

t.test('large requests on a worker with many slots are not refused', async (t) => {
  const { sandbox, close } = await withSandbox({ slots: SLOTS, stream_slots: 0 });
  t.teardown(close);
  const stdin = Buffer.alloc(15 * MiB, 'x');
  const runs = Array.from({ length: 2 * SLOTS }, () =>
    sandbox.run(shell('wc -c; sleep 2', { stdin })),
  );
  t.equal(sandbox.waiting, SLOTS, 'each slot has one');
  const said_each = (await Promise.all(runs)).map(said);
  t.strictSame(said_each, Array(2 * SLOTS).fill(`${stdin.length}`));
  t.equal(
    (await sandbox.run(shell('exit 3'))).exit_code,
    3,
    'what was sent is not counted for ever',
  );
});

t.test('each slot has a small request behind the one that runs', async (t) => {
  const { sandbox, close } = await withSandbox({ slots: SLOTS, stream_slots: 0 });
  t.teardown(close);
  const runs = Array.from({ length: 2 * SLOTS }, () => sandbox.run(shell('exit 9')));
  t.equal(sandbox.waiting, 0);
  for (const { exit_code } of await Promise.all(runs)) t.equal(exit_code, 9);
});

t.test('large pairs come to their turn, too', async (t) => {
  const { sandbox, close } = await withSandbox({ slots: 2, stream_slots: 0 });
  t.teardown(close);
  const files = [{ path: 'large', bytes: Buffer.alloc(7 * MiB, 'x') }];
  const pair = () =>
    sandbox.runPair(shell('wc -c < large', { files }), shell('cat >/dev/null', { files }));
  for (const { program } of await Promise.all([pair(), pair(), pair()]))
    t.equal(program.exit_code, 0);
});
