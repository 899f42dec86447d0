import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { createSpentKeys } from '../../src/http/api/spent_keys.ts';

const caller = {
  account_id: 'a',
  key_id: 'k',
  rate: { limit: 60, remaining: 0, reset_s: 30 },
};

const all = { knows: async () => true };

t.test(
  'a key over its rate is remembered until its rate resets, except for the last second',
  async (t) => {
    let now_ms = 0;
    const keys = createSpentKeys(all, () => now_ms);
    const digest = Buffer.alloc(32, 1);
    t.equal(await keys.find(digest), null);
    keys.remember(digest, { caller, retry_after_s: 30 }, 0);
    t.match(await keys.find(digest), {
      retry_after_s: 30,
      caller: { key_id: 'k', rate: { reset_s: 30 } },
    });
    now_ms = 12_400;
    t.match(await keys.find(digest), { retry_after_s: 18, caller: { rate: { reset_s: 18 } } });
    t.equal(await keys.find(Buffer.alloc(32, 2)), null, 'another key is not affected');
    now_ms = 28_999;
    t.match(await keys.find(digest), { retry_after_s: 2 });
    now_ms = 29_000;
    t.equal(await keys.find(digest), null, 'the database decides');
    keys.remember(digest, { caller, retry_after_s: 1 }, 0);
    t.equal(await keys.find(digest), null, 'a rate that resets within a second is not remembered');
  },
);

t.test('a change of limits or keys clears everything', async (t) => {
  const keys = createSpentKeys(all, () => 0);
  keys.remember(Buffer.alloc(32, 1), { caller, retry_after_s: 30 }, 0);
  keys.forget();
  t.equal(await keys.find(Buffer.alloc(32, 1)), null);
  // Its answer is of the time before, and comes behind the notice.
  keys.remember(Buffer.alloc(32, 1), { caller, retry_after_s: 30 }, 0);
  t.equal(await keys.find(Buffer.alloc(32, 1)), null);
  keys.remember(Buffer.alloc(32, 1), { caller, retry_after_s: 30 }, 1);
  t.match(await keys.find(Buffer.alloc(32, 1)), { retry_after_s: 30 });
});

t.test('the number of remembered keys is bounded', async (t) => {
  const keys = createSpentKeys(all, () => 0);
  const digest = (n: number) => {
    const bytes = Buffer.alloc(32);
    bytes.writeUInt32BE(n);
    return bytes;
  };
  for (let n = 0; n < 10_001; n += 1) keys.remember(digest(n), { caller, retry_after_s: 30 }, 0);
  t.equal(await keys.find(digest(0)), null, 'the oldest is dropped');
  t.ok((await keys.find(digest(1))) && (await keys.find(digest(10_000))));
});

/** A database that answers when the test says so. */
function askable() {
  const asked: ((exists: boolean | Error) => void)[] = [];
  const knows = () =>
    new Promise<boolean>((resolve, reject) =>
      asked.push((exists) => (exists instanceof Error ? reject(exists) : resolve(exists))),
    );
  const clock = { ms: 0 };
  const digest = Buffer.alloc(32, 1);
  const keys = createSpentKeys({ knows }, () => clock.ms);
  keys.remember(digest, { caller, retry_after_s: 90 }, 0);
  return { keys, digest, clock, asked };
}

const AWAY = new Error('the database is away');

t.test('the database is asked once a second whether a key has expired', async (t) => {
  const { keys, digest, clock, asked } = askable();
  clock.ms = 999;
  t.ok(await keys.find(digest));
  t.equal(asked.length, 0, 'it has just said so');
  clock.ms = 1_000;
  for (let n = 0; n < 2; n += 1)
    t.match(await keys.find(digest), { retry_after_s: 89 }, 'no request waits for the answer');
  t.equal(asked.length, 1, 'there is one question at a time');
  asked[0]!(true);
  await nextTurn();
  clock.ms = 1_999;
  t.ok(await keys.find(digest));
  t.equal(asked.length, 1);

  clock.ms = 2_000;
  await keys.find(digest);
  asked[1]!(AWAY);
  await nextTurn();
  t.match(await keys.find(digest), { retry_after_s: 88 }, 'no answer changes nothing');

  clock.ms = 3_000;
  t.ok(await keys.find(digest));
  asked[2]!(false);
  await nextTurn();
  t.equal(await keys.find(digest), null);
  t.equal(asked.length, 3);
});

t.test('a request waits where nothing was heard of its key for ten seconds', async (t) => {
  const { keys, digest, clock, asked } = askable();
  clock.ms = 9_999;
  t.ok(await keys.find(digest));
  clock.ms = 10_000;
  const silent = [keys.find(digest), keys.find(digest)];
  clock.ms = 15_000;
  asked[0]!(AWAY);
  t.match(await Promise.all(silent), [{ retry_after_s: 75 }, { retry_after_s: 75 }]);
  t.equal(asked.length, 1);
  clock.ms = 24_999;
  t.ok(await keys.find(digest), 'the next one does not wait for a database that is silent');
  asked[1]!(true);
  await nextTurn();

  clock.ms = 35_000;
  const expired = keys.find(digest);
  asked[2]!(false);
  t.equal(await expired, null);

  keys.remember(digest, { caller, retry_after_s: 90 }, 0);
  clock.ms = 45_000;
  const overtaken = keys.find(digest);
  keys.forget();
  asked[3]!(true);
  t.equal(await overtaken, null, 'the limit may be another one since');
});

t.test(
  'an answer about a key that was forgotten does not change what is known since',
  async (t) => {
    const { keys, digest, clock, asked } = askable();
    clock.ms = 1_000;
    t.ok(await keys.find(digest));
    keys.remember(digest, { caller, retry_after_s: 90 }, 0);
    asked[0]!(false);
    await nextTurn();
    t.ok(await keys.find(digest));
  },
);
