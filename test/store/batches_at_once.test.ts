/** However many keys wait, a part of the connections is left for others. */
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { createLists } from '../../src/store/lists.ts';
import { createResults } from '../../src/store/results.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { counting } from './counting.ts';
import { type Key, newId, world } from './world.ts';

const CONNECTIONS = 10;
const KEYS = 8;

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('counted', 1_000, 0);
  const keys: Key[] = [];
  for (let n = 0; n < KEYS; n++) keys.push(await w.key({ tier: 'counted' }));
  const ids = keys.map(({ id }) => id);
  const counted = counting(w.connect(w.database.urls.web, CONNECTIONS));
  return {
    w,
    keys,
    ...counted,
    /** So many wait. Others may still come. */
    untilWaiting: async (count: number) => {
      while ((await lockWaits(w.db)) < count);
    },
    /** A transaction with these locks, until its end. */
    locks: (what: 'rows' | 'table') => {
      const [locked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const ended = w.db.begin(async (tx) => {
        if (what === 'rows')
          await tx`select from runledger.key_usage where key_id in ${tx(ids)} for update`;
        else await tx`lock table runledger.key_usage in exclusive mode`;
        locked.resolve();
        await released.promise;
      });
      const end = () => {
        released.resolve();
        return ended;
      };
      return { locked: Promise.race([locked.promise, ended]), end };
    },
    /** What the process had to send before it has sent by now. */
    roundTrip: () => counted.db`select`,
  };
}

t.test('four requests wait for the rows of their keys', async (t) => {
  const s = await scene(t);
  const results = createResults(s.db);
  const rows = s.locks('rows');
  await rows.locked;
  const requests = s.keys.map(({ digest }) => results.spend(digest));
  await s.untilWaiting(4);
  await s.roundTrip();
  t.equal(s.statements(), 1 + 4 + 1, 'one that does not wait, of all');
  t.equal(await lockWaits(s.w.db), 4);
  await rows.end();
  t.match(
    await Promise.all(requests),
    s.keys.map(() => ({ kind: 'spent' })),
  );
  t.equal(s.statements(), 1 + KEYS + 1);
});

for (const [what, asks, kind] of [
  ['reads', reads, 'not_found'],
  ['reads of lists', readsOfLists, 'found'],
] as const) {
  t.test(`two ${what} wait for the rows of their keys, but for the first of each`, async (t) => {
    const s = await scene(t);
    const ask: (key: Key) => Promise<{ kind: string }> = asks(s);
    const rows = s.locks('rows');
    await rows.locked;
    const first = s.keys.map(ask);
    await s.untilWaiting(KEYS);
    const others = [...s.keys, ...s.keys].map(ask);
    // It comes behind the first reads, and before those that are sent when they have their answers.
    const table = s.locks('table');
    await s.untilWaiting(KEYS + 1);
    await rows.end();
    await Promise.all([...first, table.locked]);
    await s.untilWaiting(2);
    await s.roundTrip();
    t.equal(s.statements(), KEYS + 2 + 1);
    t.equal(await lockWaits(s.w.db), 2);
    await table.end();
    t.match(
      await Promise.all(others),
      others.map(() => ({ kind })),
    );
    t.equal(s.statements(), KEYS + KEYS + 1, 'two in each');
  });
}

function reads({ db }: { db: Db }) {
  const results = createResults(db);
  return ({ digest }: Key) => results.read(digest, newId());
}

function readsOfLists({ db }: { db: Db }) {
  const lists = createLists(db);
  return ({ digest }: Key) => lists.named(digest, [newId()]);
}
