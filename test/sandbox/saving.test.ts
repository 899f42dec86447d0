/**
 * While a run's files are copied to the store, the launcher watches the other runs. Each test stops the process that copies,
 * as a slow disk would.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { said, shell, withSandbox, withSmallDisk } from '../executor/box.ts';
import {
  commandOf,
  isAlive,
  killSlots,
  pendingOf,
  stateOf,
  within,
} from '../executor/processes.ts';
import { childrenOf } from '../support/processes.ts';
import { ISOLATION } from './isolation.ts';

const MiB = 1024 * 1024;
const MUCH_BYTES = 48 * MiB;
const LEAVES_MUCH = `dd if=/dev/zero of=out bs=${MiB} count=${MUCH_BYTES / MiB} 2>/dev/null`;

/** A run whose save has begun and is stopped. On a busy machine some are over too soon. */
async function stoppedSave(t: Test) {
  const { sandbox, store, close } = await withSandbox({ ...ISOLATION, slots: 2 });
  t.teardown(close);
  const { pid } = sandbox.isolation;
  const slots = new Set(childrenOf(pid));
  const stored = () => readdir(store);
  for (let attempt = 0; attempt < 50; attempt++) {
    const cancel = new AbortController();
    const save = { key: 'kept', paths: ['out'], max_bytes: 64 * MiB, max_files: 1 };
    const run = { is_over: false };
    const ended = sandbox
      .run(shell(LEAVES_MUCH, { save }), { signal: cancel.signal })
      .catch((error: Error) => error)
      .finally(() => {
        run.is_over = true;
      });
    const aSaver = () => childrenOf(pid).find((child) => !slots.has(child));
    // SIGSTOP succeeds for a process that is about to end, too. One that has not begun to copy goes on for a moment.
    for (
      let saver = await caught(run, aSaver);
      saver !== null && (await isStopped(saver));
      saver = await caught(run, aSaver)
    ) {
      // With nothing left to copy it does not look any more whether it is to end.
      const half = (await stored()).find((name) => name.startsWith('.new-'));
      const out = half && (await stat(join(store, half, 'out')).catch(() => null));
      if (out && out.size < MUCH_BYTES) return { sandbox, ended, cancel, saver, slots, stored };
      process.kill(saver, 'SIGCONT');
      await new Promise((next) => setImmediate(next));
    }
    await ended;
    await rm(join(store, 'kept'), { recursive: true, force: true });
  }
  throw new Error('no save was slow enough to be stopped');
}

const isStopped = (pid: number) =>
  within(60_000, () => !isAlive(pid) || stateOf(pid) === 'T').then(() => stateOf(pid) === 'T');

async function caught(
  run: { is_over: boolean },
  find: () => number | undefined,
): Promise<number | null> {
  while (!run.is_over) {
    const pid = find();
    if (pid === undefined) await new Promise((next) => setImmediate(next));
    else
      try {
        return process.kill(pid, 'SIGSTOP') ? pid : null;
      } catch {
        return null;
      }
  }
  return null;
}

/** SIGTERM waits, because the process has it blocked. */
const isAskedToEnd = (pid: number) => (pendingOf(pid) & (1n << 14n)) !== 0n;

t.test('another run is answered, and held to its limit', async (t) => {
  const { sandbox, ended, saver, stored } = await stoppedSave(t);
  t.equal(said(await sandbox.run(shell('echo fine'))), 'fine');
  const spins = shell('while :; do :; done');
  const limits = { ...spins.limits, cpu_ms: 20_000, wall_ms: 200 };
  t.match(await sandbox.run({ ...spins, limits }), { killed_for: 'wall' });
  t.ok(isAlive(saver), 'the save still goes on');
  process.kill(saver, 'SIGCONT');
  t.match(await ended, { exit_code: 0, saved: { bytes: MUCH_BYTES, files: 1 } });
  t.same(await stored(), ['kept']);
});

t.test('a cancelled run leaves nothing in the store', async (t) => {
  const { sandbox, ended, cancel, saver, stored } = await stoppedSave(t);
  cancel.abort();
  t.ok(await within(120_000, () => isAskedToEnd(saver)), 'it is asked to end');
  process.kill(saver, 'SIGCONT');
  t.match(await ended, { kind: 'cancelled' });
  t.equal(said(await sandbox.run(shell('echo fine'))), 'fine');
  t.ok(await within(120_000, () => !isAlive(saver)));
  t.same(await stored(), []);
});

t.test('a save whose process is killed fails, and says so', async (t) => {
  const { sandbox, ended, saver } = await stoppedSave(t);
  process.kill(saver, 'SIGKILL');
  const report = await ended;
  t.match(report, { exit_code: 0, save_failed: /was killed/ });
  t.notOk('saved' in report);
  t.notOk('store_full' in report);
  t.equal(said(await sandbox.run(shell('echo fine'))), 'fine');
});

const not_root = process.getuid?.() !== 0 && 'only root can mount a small disk';
t.test(
  'a full store is reported as full, and not only as one that fails',
  { skip: not_root },
  async (t) => {
    const { sandbox, close } = await withSmallDisk(ISOLATION);
    t.teardown(close);
    const save = { key: 'kept', paths: ['out'], max_bytes: 64 * MiB, max_files: 1 };
    const report = await sandbox.run(shell(LEAVES_MUCH, { save }));
    t.match(report, { exit_code: 0, save_failed: /full or not writable/, store_full: true });
    t.match(await sandbox.run(shell('echo x > out', { save })), { saved: { bytes: 2 } });
  },
);

t.test('a slot that dies while its run is saved ends the save, and works again', async (t) => {
  const { sandbox, ended, saver, slots, stored } = await stoppedSave(t);
  await killSlots(sandbox.isolation.pid, [...slots]);
  t.match(await ended, { name: 'SandboxFault', message: /slot/ });
  t.ok(isAskedToEnd(saver), 'it is asked to end');
  process.kill(saver, 'SIGCONT');
  t.ok(await within(120_000, () => !isAlive(saver)));
  const runs = await Promise.all(['a', 'b', 'c'].map((word) => sandbox.run(shell(`echo ${word}`))));
  t.same(runs.map(said), ['a', 'b', 'c']);
  t.same(await stored(), []);
  t.equal(commandOf(saver), '', 'it was reaped');
});
