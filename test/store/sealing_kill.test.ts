/** A process that seals, and PostgreSQL, are killed at any moment. What is stored is whole, and sealing goes on. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { createSealer, lastCheckpoint } from '../../src/store/checkpoints.ts';
import { ownServer } from '../support/database.ts';
import { append, key, rootOf } from './seal_now.ts';

t.test('kill -9 while sealing: what was stored is whole, and sealing goes on', async (t) => {
  const server = await ownServer(t);
  const open = () => connect(server.url, { name: 'test', max: 2 });
  let db = open();
  for (let round = 0; round < 4; round++) {
    await append(db, 40, 500);
    const child = fork(new URL('sealing_process.ts', import.meta.url), [server.urls.web]);
    await once(child, 'message');
    const ended = once(child, 'exit');
    // Somewhere in the middle of the windows. Whenever it is, the log must be whole.
    await append(db, 1);
    child.kill('SIGKILL');
    if (round % 2) {
      await server.kill();
      await db.end({ timeout: 0 });
      await startAgain(server);
      db = open();
    }
    await ended;
    await append(db, 1);
    const sealer = createSealer(key);
    await sealer.seal(db);
    const last = (await lastCheckpoint(db))!;
    t.same(last.root, await rootOf(db, last.size), `round ${round}`);
  }
  await db.end({ timeout: 1 });
});

/** The killed server's child processes keep its data in use for a moment. Until they have gone it cannot start. */
async function startAgain(server: { start(): Promise<void> }): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await server.start();
    } catch (error) {
      if (attempt === 50) throw error;
      await new Promise((wake) => setTimeout(wake, 100));
    }
  }
}
