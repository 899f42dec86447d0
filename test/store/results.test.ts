import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { createResults, type Results } from '../../src/store/results.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { counting } from './counting.ts';
import { idOf, newId, outcome, start, submission, world } from './world.ts';

t.test('reads of one key at once each get their own answer, and each is counted', async (t) => {
  const w = await world(t);
  await w.tier('thirty', 30, 0);
  await w.clock.set(new Date('2026-11-20T12:00:00Z'));
  const mine = await w.key({ tier: 'thirty' });
  const other = await w.key({ tier: 'thirty' });
  const { submit } = w.submissions();
  const submitFor = async ({ digest }: typeof mine) =>
    idOf(await submit({ secret_digest: digest, submission: submission() }));
  const ids = [await submitFor(mine), await submitFor(mine)];
  const not_mine = [await submitFor(other), newId()];
  const results = createResults(w.web);
  const asked = Array.from({ length: 40 }, (_, n) => [...ids, ...not_mine][n % 4]!);
  const answers = await Promise.all(asked.map((id) => results.read(mine.digest, id)));
  // Two of the thirty were spent by the submissions.
  const expected = asked.map((id, n) => {
    if (n >= 28) return { kind: 'rate_limited' };
    const caller = { key_id: mine.id, rate: { limit: 30, remaining: 27 - n } };
    return ids.includes(id)
      ? { kind: 'found', caller, record: { id } }
      : { kind: 'not_found', caller };
  });
  t.match(answers, expected);
  t.match(await results.read(randomBytes(32), ids[0]!), { kind: 'unauthorized' });
});

t.test('requests of one key at once are each counted', async (t) => {
  const w = await world(t);
  await w.tier('thirty', 30, 0);
  await w.clock.set(new Date('2026-11-20T12:00:00Z'));
  const { id, digest } = await w.key({ tier: 'thirty' });
  const results = createResults(w.web);
  const answers = await Promise.all(Array.from({ length: 100 }, () => results.spend(digest)));
  const expected = answers.map((_, n) => {
    const caller = { key_id: id, rate: { limit: 30, remaining: Math.max(29 - n, 0) } };
    return n < 30 ? { kind: 'spent', caller } : { kind: 'rate_limited', caller, retry_after_s: 60 };
  });
  t.match(answers, expected);
  const unknown = Array.from({ length: 3 }, () => results.spend(randomBytes(32)));
  t.match(await Promise.all(unknown), new Array(3).fill({ kind: 'unauthorized' }));
});

t.test('requests of many keys at once share statements, and each is counted', async (t) => {
  const w = await world(t);
  await w.tier('five', 5, 0);
  await w.tier('free', 0, 0);
  await w.clock.set(new Date('2026-11-20T12:00:00Z'));
  const keys = [
    await w.key({ tier: 'five' }),
    await w.key({ tier: 'free' }),
    { id: null, digest: randomBytes(32) },
    await w.key({ tier: 'five' }),
  ];
  const { db, statements } = counting(w.web);
  const results = createResults(db);
  const answers = await Promise.all(
    Array.from({ length: 28 }, (_, n) => results.spend(keys[n % 4]!.digest)),
  );
  const expected = answers.map((_, n) => {
    const key_id = keys[n % 4]!.id;
    const asked = Math.floor(n / 4);
    if (key_id === null) return { kind: 'unauthorized' };
    if (n % 4 === 1) return { kind: 'spent', caller: { key_id, rate: { limit: 0 } } };
    const caller = { key_id, rate: { limit: 5, remaining: Math.max(4 - asked, 0) } };
    return asked < 5 ? { kind: 'spent', caller } : { kind: 'rate_limited', caller };
  });
  t.match(answers, expected);
  t.equal(statements(), 2, '16 and twelve requests');
  t.match(await results.spend(keys[0]!.digest), { kind: 'rate_limited' }, 'each is kept');
});

async function oneWaits(db: Db): Promise<void> {
  while ((await lockWaits(db)) === 0);
}

/** Only a test that fails waits so long. */
const soon = (answer: Promise<unknown>) =>
  Promise.race([answer, wait(120_000, 'no answer', { ref: false })]);

for (const [what, ask, kind] of [
  ['reads', (results: Results, digest: Uint8Array) => results.read(digest, newId()), 'not_found'],
  ['requests', (results: Results, digest: Uint8Array) => results.spend(digest), 'spent'],
] as const) {
  t.test(`${what} of one key that wait for each other hold one connection`, async (t) => {
    const w = await world(t);
    await w.tier('counted', 1_000, 0);
    const [mine, other] = [await w.key({ tier: 'counted' }), await w.key({ tier: 'counted' })];
    const results = createResults(w.connect(w.database.urls.web, 2));
    let waiting: Promise<unknown>[] = [];
    await w.db.begin(async (tx) => {
      await tx`select from runledger.key_usage where key_id = ${mine.id} for update`;
      waiting = Array.from({ length: 20 }, () => ask(results, mine.digest));
      t.match(await soon(ask(results, other.digest)), { kind });
    });
    t.match(await Promise.all(waiting), new Array(20).fill({ kind }));
  });

  t.test(`${what} of one key that nobody waits for any more are not sent`, async (t) => {
    const w = await world(t);
    await w.tier('counted', 1_000, 0);
    const mine = await w.key({ tier: 'counted' });
    const results = createResults(w.connect(w.database.urls.web, 2), 1_000);
    let waiting: Promise<unknown[]>;
    await w.db.begin(async (tx) => {
      await tx`select from runledger.key_usage where key_id = ${mine.id} for update`;
      const first = ask(results, mine.digest);
      await oneWaits(w.db);
      waiting = Promise.allSettled([
        first,
        ...Array.from({ length: 19 }, () => ask(results, mine.digest)),
      ]);
      // Longer than their patience.
      await wait(1_200);
    });
    const late = new Array(19).fill({ reason: { code: 'ETIMEDOUT' } });
    t.match(await waiting!, [{ value: { kind } }, ...late], 'but the first, which was sent');
  });
}

t.test('a request waits behind those of its key that wait already', async (t) => {
  const w = await world(t);
  await w.tier('counted', 1_000, 0);
  const mine = await w.key({ tier: 'counted' });
  const { db, statements } = counting(w.web);
  const results = createResults(db);
  let all: Promise<unknown>[] = [];
  await w.db.begin(async (tx) => {
    await tx`select from runledger.key_usage where key_id = ${mine.id} for update`;
    all = [results.spend(mine.digest)];
    await oneWaits(w.db);
    t.equal(statements(), 2, 'one that does not wait, and one that does');
    all.push(...Array.from({ length: 5 }, () => results.spend(mine.digest)));
    // Enough for a statement to be sent.
    await wait(300);
    t.equal(statements(), 2);
  });
  t.match(
    await Promise.all(all),
    [999, 998, 997, 996, 995, 994].map((remaining) => ({ caller: { rate: { remaining } } })),
  );
  t.equal(statements(), 3);
});

t.test('keys that wait leave a connection for another one', async (t) => {
  const w = await world(t);
  await w.tier('counted', 1_000, 0);
  const [mine, second, other] = [
    await w.key({ tier: 'counted' }),
    await w.key({ tier: 'counted' }),
    await w.key({ tier: 'counted' }),
  ];
  const results = createResults(w.connect(w.database.urls.web, 2));
  let waiting: Promise<unknown>[] = [];
  await w.db.begin(async (tx) => {
    await tx`select from runledger.key_usage where key_id in (${mine.id}, ${second.id}) for update`;
    waiting = [results.spend(mine.digest), results.spend(second.digest)];
    await oneWaits(w.db);
    t.match(await soon(results.spend(other.digest)), { kind: 'spent' });
  });
  t.match(await Promise.all(waiting), [{ kind: 'spent' }, { kind: 'spent' }]);
});

t.test('a statement that is slow does not hold up the next one', async (t) => {
  const w = await world(t);
  const [mine, other] = [await w.key(), await w.key()];
  const LOCK = 7;
  await w.db.unsafe(`
    alter function runledger.spend_many rename to spend_at_once;
    create function runledger.spend_many(digest bytea, requests integer, waits boolean,
      out outcome text, out account_id uuid, out key_id uuid,
      out rate_limit integer, out rate_remaining integer, out rate_reset_us bigint, out spent integer)
    language plpgsql security definer set search_path = runledger, pg_temp as $$
    begin
      if digest = '\\x${Buffer.from(mine.digest).toString('hex')}' then
        perform pg_advisory_xact_lock(${LOCK});
      end if;
      select s.* into outcome, account_id, key_id, rate_limit, rate_remaining, rate_reset_us, spent
      from spend_at_once(digest, requests, waits) s;
    end $$`);
  const results = createResults(w.connect(w.database.urls.web, 2));
  let waiting: Promise<unknown>;
  await w.db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(${LOCK})`;
    waiting = results.spend(mine.digest);
    await oneWaits(w.db);
    t.match(await soon(results.spend(other.digest)), { kind: 'spent' });
  });
  t.match(await waiting!, { kind: 'spent' });
});

t.test('requests of a key without a rate do not wait for its row', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { id, digest } = await w.key({ tier: 'free' });
  const results = createResults(w.web);
  await w.db.begin(async (tx) => {
    await tx`select from runledger.key_usage where key_id = ${id} for update`;
    t.match(await soon(results.spend(digest)), { kind: 'spent' });
  });
  const used = () => w.db`select last_used_at from runledger.key_usage where key_id = ${id}`;
  t.match(await used(), [{ last_used_at: null }], 'the other statement records a use');
  await results.spend(digest);
  t.match(await used(), [{ last_used_at: Date }]);
});

t.test('one statement reads many small records, or few large ones', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { executions } = await w.consumer();
  const { db, statements } = counting(w.web);
  const read40 = async (stdout: Uint8Array) => {
    const { submit } = w.submissions();
    const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome({ stdout }) });
    const results = createResults(db);
    const before = statements();
    const all = await Promise.all(Array.from({ length: 40 }, () => results.read(digest, id)));
    t.match(all, new Array(40).fill({ kind: 'found', record: { id, stdout } }));
    return statements() - before;
  };
  t.equal(await read40(Buffer.from('1\n')), 5, 'one, four, 16, 16 and three records');
  t.equal(
    await read40(Buffer.alloc(30_000, 'x')),
    21,
    'one, four that are too large together and are read again, then two at a time, and one',
  );
});
