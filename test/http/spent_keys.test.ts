import t from 'tap';
import { createSpentKeys } from '../../src/http/api/spent_keys.ts';

const caller = {
  account_id: 'a',
  key_id: 'k',
  rate: { limit: 60, remaining: 0, reset_s: 30 },
};

t.test(
  'a key over its rate is remembered until its rate resets, except for the last second',
  async (t) => {
    let now_ms = 0;
    const keys = createSpentKeys(() => now_ms);
    const digest = Buffer.alloc(32, 1);
    t.equal(keys.find(digest), null);
    keys.remember(digest, { caller, retry_after_s: 30 });
    t.match(keys.find(digest), {
      retry_after_s: 30,
      caller: { key_id: 'k', rate: { reset_s: 30 } },
    });
    now_ms = 12_400;
    t.match(keys.find(digest), { retry_after_s: 18, caller: { rate: { reset_s: 18 } } });
    t.equal(keys.find(Buffer.alloc(32, 2)), null, 'another key is not affected');
    now_ms = 28_999;
    t.match(keys.find(digest), { retry_after_s: 2 });
    now_ms = 29_000;
    t.equal(keys.find(digest), null, 'the database decides');
    keys.remember(digest, { caller, retry_after_s: 1 });
    t.equal(keys.find(digest), null, 'a rate that resets within a second is not remembered');
  },
);

t.test('a change of limits or keys clears everything', async (t) => {
  const keys = createSpentKeys(() => 0);
  keys.remember(Buffer.alloc(32, 1), { caller, retry_after_s: 30 });
  keys.forget();
  t.equal(keys.find(Buffer.alloc(32, 1)), null);
});

t.test('the number of remembered keys is bounded', async (t) => {
  const keys = createSpentKeys(() => 0);
  const digest = (n: number) => {
    const bytes = Buffer.alloc(32);
    bytes.writeUInt32BE(n);
    return bytes;
  };
  for (let n = 0; n < 10_001; n += 1) keys.remember(digest(n), { caller, retry_after_s: 30 });
  t.equal(keys.find(digest(0)), null, 'the oldest is dropped');
  t.ok(keys.find(digest(1)) && keys.find(digest(10_000)));
});
