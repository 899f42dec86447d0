/** A fetch starts the executions of its jobs: here its answer is lost on the way to the worker. */
import { randomBytes } from 'node:crypto';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import t from 'tap';
import { uuidv7 } from '../../src/domain/ids.ts';
import { freshDatabase } from '../support/database.ts';
import { nothingIsLeft, overlaps, startFleet } from './fleet.ts';

type Loss = 'cut' | 'silent';

/** A proxy in front of the database that loses one answer: the first that names the submission, which is its fetch. */
async function losing(t: { teardown(work: () => unknown): void }, url: string) {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let lost = 0;
  let armed: { id: string; how: Loss } | null = null;
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    let mute = false;
    near.on('data', (bytes) => far.write(bytes));
    far.on('data', (bytes) => {
      if (armed !== null && bytes.includes(armed.id)) {
        lost += 1;
        if (armed.how === 'cut') near.destroy();
        mute = true;
        armed = null;
      }
      if (!mute) near.write(bytes);
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('error', () => {});
      one.on('close', () => other.destroy());
    }
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  t.teardown(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const here = new URL(url);
  here.hostname = '127.0.0.1';
  here.port = String((server.address() as AddressInfo).port);
  return {
    url: here.href,
    lost: () => lost,
    lose(id: string, how: Loss) {
      armed = { id, how };
    },
  };
}

const newId = () => uuidv7(Date.now(), randomBytes(10));

for (const how of ['cut', 'silent'] as const) {
  t.test(
    `a fetch's answer is lost (${how}): its executions run once, and the loss is no death`,
    async (t) => {
      const { url, urls } = await freshDatabase(t);
      const fleet = await startFleet(t, { url });
      const way = await losing(t, urls.worker);
      await fleet.worker({ url: way.url });
      const beside = await fleet.submit('sleep 8000');
      await fleet.begun(beside);

      const id = newId();
      way.lose(id, how);
      await fleet.submit('sleep 10', { id });
      t.match(await fleet.ended(id), { verdict: 'AC', attempts: 2 });
      t.equal(way.lost(), 1);
      t.match(
        (await fleet.events(id)).map(({ type, facts }) => ({ type, ...facts })),
        [
          { type: 'submission.accepted' },
          { type: 'execution.started', attempt: 1 },
          { type: 'execution.lost', attempt: 1, reason: 'answer_lost', counts: false },
          { type: 'execution.started', attempt: 2 },
          { type: 'submission.completed', attempt: 2 },
        ],
      );
      t.match(
        await fleet.ended(beside),
        { verdict: 'AC', attempts: 1 },
        'the other execution goes on',
      );
      const runs = fleet.runs();
      t.same(
        runs.filter((run) => run.event === 'begin').map((run) => run.id),
        [beside, id],
      );
      t.same(overlaps(runs), []);
      await nothingIsLeft(t, fleet);
    },
  );
}
