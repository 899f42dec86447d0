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
    keys.remember(digest, { caller, retry_after_s: 30 });
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
    keys.remember(digest, { caller, retry_after_s: 1 });
    t.equal(await keys.find(digest), null, 'a rate that resets within a second is not remembered');
  },
);

t.test('a change of limits or keys clears everything', async (t) => {
  const keys = createSpentKeys(all, () => 0);
  keys.remember(Buffer.alloc(32, 1), { caller, retry_after_s: 30 });
  keys.forget();
  t.equal(await keys.find(Buffer.alloc(32, 1)), null);
});

t.test('the number of remembered keys is bounded', async (t) => {
  const keys = createSpentKeys(all, () => 0);
  const digest = (n: number) => {
    const bytes = Buffer.alloc(32);
    bytes.writeUInt32BE(n);
    return bytes;
  };
  for (let n = 0; n < 10_001; n += 1) keys.remember(digest(n), { caller, retry_after_s: 30 });
  t.equal(await keys.find(digest(0)), null, 'the oldest is dropped');
  t.ok((await keys.find(digest(1))) && (await keys.find(digest(10_000))));
});

t.test('the database is asked once a second whether a key has expired', async (t) => {
  let now_ms = 0;
  const asked: ((exists: boolean | Error) => void)[] = [];
  const knows = () =>
    new Promise<boolean>((resolve, reject) =>
      asked.push((exists) => (exists instanceof Error ? reject(exists) : resolve(exists))),
    );
  const keys = createSpentKeys({ knows }, () => now_ms);
  const digest = Buffer.alloc(32, 1);
  keys.remember(digest, { caller, retry_after_s: 30 });
  now_ms = 999;
  t.ok(await keys.find(digest));
  t.equal(asked.length, 0, 'it has just said so');
  now_ms = 1_000;
  const both = [keys.find(digest), keys.find(digest)];
  t.equal(asked.length, 1, 'requests that come together share one question');
  asked[0]!(true);
  t.match(await Promise.all(both), [{ retry_after_s: 29 }, { retry_after_s: 29 }]);
  t.ok(await keys.find(digest));
  t.equal(asked.length, 1);

  now_ms = 2_000;
  const away = keys.find(digest);
  asked[1]!(new Error('the database is away'));
  t.match(await away, { retry_after_s: 28 }, 'no answer changes nothing');

  now_ms = 3_000;
  const expired = keys.find(digest);
  asked[2]!(false);
  t.equal(await expired, null);
  t.equal(await keys.find(digest), null);
  t.equal(asked.length, 3);

  keys.remember(digest, { caller, retry_after_s: 30 });
  now_ms = 4_000;
  const overtaken = keys.find(digest);
  keys.forget();
  asked[3]!(true);
  t.equal(await overtaken, null, 'the limit may be another one since');
});
