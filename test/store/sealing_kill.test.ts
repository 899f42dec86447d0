/**
 * A process that seals, and PostgreSQL, are killed in the middle of a round of windows. What is stored is whole, and sealing
 * goes on.
 *
 * Two locks, one behind the other, let the process store the first window of each round and keep it at the next one. So no kill
 * comes before the first checkpoint or after the last, however busy the machine is.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { lastCheckpoint } from '../../src/store/checkpoints.ts';
import { type OwnServer, ownServer } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { append, rootOf, seal } from './seal_now.ts';

/** More than a window takes, and less than two take. */
const TRANSACTIONS = 60;
const EVENTS_OF_EACH = 500;

t.test('kill -9 while sealing: what was stored is whole, and sealing goes on', async (t) => {
  const server = await ownServer(t);
  const open = () => connect(server.url, { name: 'test', max: 2 });
  let db = open();
  for (let round = 0; round < 4; round++) {
    const before = await sealedEvents(db);
    await append(db, TRANSACTIONS, EVENTS_OF_EACH);
    const first = await holdTiles(server);
    const child = fork(new URL('sealing_process.ts', import.meta.url), [server.urls.web]);
    const ended = once(child, 'exit');
    const root = connect(server.superuser_url, { name: 'root', max: 1 });
    await until(async () => (await lockWaits(root, 'log_tiles')) === 1);
    // It comes behind the process in the queue of the lock, and before the process's next window.
    const holding = holdTiles(server);
    await until(async () => (await lockWaits(root, 'log_tiles')) === 2);
    await first.end({ timeout: 0 });
    const second = await holding;
    await until(async () => (await lockWaits(root, 'log_tiles')) === 1);
    const sealed = await sealedEvents(db);
    t.ok(sealed > before && sealed < (await countEvents(db)), `round ${round}: in the middle`);
    // In the last rounds it goes on: then it is killed somewhere in its second window or behind it.
    const is_released = round >= 2;
    if (is_released) await second.end({ timeout: 0 });
    child.kill('SIGKILL');
    if (round % 2) {
      await server.kill();
      await db.end({ timeout: 0 });
      await startAgain(server);
      db = open();
    }
    await ended;
    await second.end({ timeout: 0 }).catch(() => {});
    await append(db, 1);
    // PostgreSQL may go on with the last statement of the killed process.
    await until(async () => (await connectionsOfKilled(root)) === 0);
    await root.end({ timeout: 1 });
    await seal(db);
    const last = (await lastCheckpoint(db))!;
    t.equal(last.size, await countEvents(db), `round ${round}: everything is sealed`);
    t.same(last.root, await rootOf(db, last.size), `round ${round}`);
  }
  await db.end({ timeout: 1 });
});

/** Keeps every process from storing a checkpoint, after its row was inserted, until the connection is ended. */
async function holdTiles({ superuser_url }: OwnServer): Promise<Db> {
  const db = connect(superuser_url, { name: 'lock', max: 1 });
  await db`begin`;
  await db`lock table runledger.log_tiles in share mode`;
  return db;
}

const sealedEvents = async (db: Db) => (await lastCheckpoint(db))?.size ?? 0;

async function countEvents(db: Db): Promise<number> {
  const [row] = await db<{ count: number }[]>`select count(*)::integer from runledger.events`;
  return row!.count;
}

async function connectionsOfKilled(root: Db): Promise<number> {
  return (await root`select from pg_stat_activity where application_name = 'sealing'`).length;
}

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
