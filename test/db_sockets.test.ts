/** Connections to the database that carry nothing any more. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createSockets } from '../src/db.ts';

/** A connection that is watched, and its other end. */
async function watched(t: Test) {
  const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const near = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [far] = (await once(server, 'connection')) as [Socket];
  t.teardown(() => {
    near.destroy();
    far.destroy();
    server.close();
  });
  near.on('error', () => {});
  const sockets = createSockets();
  sockets.add(near);
  return { near, far, sockets };
}

t.test('a large statement that is sent slowly is not lost', async (t) => {
  const { near, far, sockets } = await watched(t);
  const bytes = 24 * 2 ** 20;
  const sent = new Promise<boolean>((resolve) => {
    near.write(Buffer.alloc(bytes), (error) => resolve(!error));
    near.once('close', () => resolve(false));
  });
  let over = false;
  // It takes longer than a silence may, because the other side reads a little at a time.
  const reading = (async () => {
    while (!over) {
      for (let n = 0; n < 4; n += 1) far.read(64 * 1024);
      await wait(50);
    }
  })();
  const ended = await sockets.unlessSilent(() => sent);
  over = true;
  await reading;
  t.ok(ended, 'it went on to its end');
});

t.test('one that carries nothing is ended, and the work fails', async (t) => {
  const { near, sockets } = await watched(t);
  const closed = once(near, 'close').then(() => Promise.reject(new Error('closed')));
  await t.rejects(
    sockets.unlessSilent(() => closed),
    { message: 'closed' },
  );
});

t.test('a statement that is written late has the whole time for its answer', async (t) => {
  const { near, far, sockets } = await watched(t);
  far.resume();
  const closed = once(near, 'close').then(() => 'it was ended');
  const answer = async (text: string) => {
    // The connection carries nothing while another one is waited for.
    await wait(2_500);
    near.write('statement');
    await wait(2_000);
    far.write(text);
    return Promise.race([once(near, 'data').then(String), closed]);
  };
  const work = async () => [await answer('one'), await answer('two')];
  t.strictSame(await sockets.unlessSilent(work, 3_000), ['one', 'two']);
});

t.test(
  'the first statement for a machine that is gone ends its connection, also late',
  async (t) => {
    const { near, sockets } = await watched(t);
    const closed = once(near, 'close');
    sockets.endSilent();
    // Seen by the last look of the first silence.
    await wait(4_700);
    near.write('x');
    await Promise.race([closed, wait(60_000, null, { ref: false })]);
    t.ok(near.destroyed);
  },
);

t.test(
  'a statement that is written to a machine that is gone does not keep its connection',
  async (t) => {
    const { near, sockets } = await watched(t);
    const closed = once(near, 'close');
    sockets.endSilent();
    // It looks for a while only, and does not count the time in which this process did not run.
    const looking = setInterval(() => sockets.endSilent(), 10_000);
    const writing = setInterval(() => near.write('x'), 1_000);
    t.teardown(() => [looking, writing].forEach(clearInterval));
    await Promise.race([closed, wait(120_000, null, { ref: false })]);
    t.ok(near.destroyed);
  },
);
