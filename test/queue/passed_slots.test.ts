/** A worker with one slot, whose executor runs nothing: the test says when each test of a submission ends. */
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import type { SpareSlot } from '../../src/executor/tests_in_turn.ts';
import { createLog } from '../../src/log.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { aTest, judgingOf } from '../store/a_set.ts';
import { idOf, outcome, submission, world } from '../store/world.ts';
import { until } from '../support/eventually.ts';

t.test('the first submission of a key waits for one test of another key', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const keys = [await w.key({ tier: 'free' }), await w.key({ tier: 'free' })];
  const { submit } = w.submissions();
  const begun: string[] = [];
  let end = () => {};
  const worker = await startWorker({
    config: loadConfig({ RUNLEDGER_WORKER_DATABASE_URL: w.database.urls.worker }),
    log: createLog({ level: 'silent', process: 'test', to: 'stderr' }),
    executor: {
      ...{ toolchains: () => ({ python: 'none' }), slots: 1, isolation: {} },
      async execute({ code, judging }, signal, turns) {
        const count = judging?.tests?.length ?? 1;
        for (let n = 0; n < count; n += 1) {
          await turns?.onProgress(n, count);
          begun.push(`${Buffer.from(code)} ${n + 1}`);
          await new Promise<void>((resolve, reject) => {
            end = resolve;
            signal.addEventListener('abort', () => reject(new Error('killed')), { once: true });
          });
        }
        await turns?.onProgress(count, count);
        return outcome();
      },
      isReady: () => true,
      extendDeadline: () => {},
      close: async () => {},
    },
  });
  t.teardown(() => worker.stop());

  const submitOne = async (key: number, name: string, tests: number) => {
    const judging =
      tests > 0 && judgingOf({ tests: Array.from({ length: tests }, () => aTest('')) });
    const given = submission({ code: Buffer.from(name), judging: judging || null });
    return idOf(await submit({ secret_digest: keys[key]!.digest, submission: given }));
  };
  const status = async (id: string) =>
    (await w.db`select status from runledger.submissions where id = ${id}`)[0]!['status'];
  await submitOne(0, 'many', 3);
  await until(() => begun.length === 1);
  const more = await submitOne(0, 'more', 2);
  const hello = await submitOne(1, 'hello', 0);
  await until(async () => (await status(hello)) === 'running');
  t.equal(await status(more), 'pending');
  t.same(begun, ['many 1'], 'one program at a time');
  end();
  await until(() => begun.length === 2);
  if (!t.same(begun[1], 'hello 1')) return;
  end();
  await until(() => begun.length === 3);
  const other = await submitOne(1, 'other', 2);
  await until(async () => (await status(other)) === 'running');
  end();
  for (let n = 4; n <= 8; n += 1) {
    await until(() => begun.length === n);
    end();
  }
  await until(async () => (await status(more)) === 'completed');
  t.same(begun, [
    ...['many 1', 'hello 1', 'many 2', 'other 1', 'many 3', 'other 2'],
    ...['more 1', 'more 2'],
  ]);
});

t.test('a spare slot runs tests ahead, and a job that arrives gets it at once', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const keys = [await w.key({ tier: 'free' }), await w.key({ tier: 'free' })];
  const { submit } = w.submissions();
  const begun: string[] = [];
  const spare: (SpareSlot | null)[] = [];
  const ends: (() => void)[] = [];
  const worker = await startWorker({
    config: loadConfig({ RUNLEDGER_WORKER_DATABASE_URL: w.database.urls.worker }),
    log: createLog({ level: 'silent', process: 'test', to: 'stderr' }),
    executor: {
      ...{ toolchains: () => ({ python: 'none' }), slots: 2, isolation: {} },
      async execute({ code }, _, turns) {
        if (turns) spare.push(turns.spareSlot(), turns.spareSlot());
        begun.push(Buffer.from(code).toString());
        await new Promise<void>((resolve) => ends.push(resolve));
        return outcome();
      },
      isReady: () => true,
      extendDeadline: () => {},
      close: async () => {},
    },
  });
  t.teardown(() => worker.stop());
  const judging = judgingOf({ tests: [aTest(''), aTest('')] });
  const many = submission({ code: Buffer.from('many'), judging });
  await submit({ secret_digest: keys[0]!.digest, submission: many });
  await until(() => begun.length === 1);
  t.notOk(spare[0]!.wanted.aborted);
  t.equal(spare[1], null, 'there are two slots');
  const hello = submission({ code: Buffer.from('hello') });
  await submit({ secret_digest: keys[1]!.digest, submission: hello });
  await until(() => spare[0]!.wanted.aborted);
  t.same(begun, ['many']);
  spare[0]!.leave();
  await until(() => begun.length === 2);
  t.same(begun, ['many', 'hello']);
  for (const end of ends) end();
});
