/** Sealing: windows, two processes at once, and what a process must refuse to build on. */
import t from 'tap';
import { createLogKey } from '../../src/proof/log_key.ts';
import { createSealer, lastCheckpoint } from '../../src/store/checkpoints.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { world } from './world.ts';

aloneOnItsServer();

const key = createLogKey(Buffer.alloc(32, 7));

t.test('a log is sealed', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const sealer = createSealer(key);
  const done = await sealer.seal(w.web);
  console.log(done, await lastCheckpoint(w.web));
  await w.tier('free2', 0, 0);
  console.log(await sealer.seal(w.web), sealer.problem());
});
