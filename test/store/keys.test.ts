import { randomUUID } from 'node:crypto';
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect } from '../../src/db.ts';
import {
  createKey,
  graceOf,
  listKeys,
  listTiers,
  revokeKey,
  rotateKey,
} from '../../src/store/keys.ts';
import { createResults } from '../../src/store/results.ts';
import { freshDatabase } from '../support/database.ts';
import { idOf, outcome, start, submission, world } from './world.ts';

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 2);
  await w.clock.set(new Date('2026-11-20T12:00:00Z'));
  const results = createResults(w.web);
  const works = async (digest: Uint8Array) => (await results.spend(digest)).kind === 'spent';
  return { w, works };
}

t.test('the first key of an account creates the account', async (t) => {
  const { w, works } = await scene(t);
  const first = await w.key({ account: 'acme', tier: 'free' });
  await w.clock.set(new Date('2026-11-20T12:00:01Z'));
  const second = await w.key({ account: 'acme', tier: 'free' });
  t.ok((await works(first.digest)) && (await works(second.digest)));
  const rows = await w.db`select count(*)::integer as accounts from runledger.accounts`;
  t.equal(rows[0]!['accounts'], 1);
  t.match(await listKeys(w.db), [
    { id: first.id, account: 'acme', tier: 'free', secrets: 1, revoked_at: null },
    { id: second.id },
  ]);
  const key = { account: 'acme', prefix: 'rl', secret_digest: new Uint8Array(32) };
  await t.rejects(createKey(w.db, { ...key, tier: 'nosuch' }), {
    code: 'RL404',
    message: /there is no tier nosuch/,
  });
  for (const account of ['', ' acme', 'acme ', 'x'.repeat(201)])
    await t.rejects(createKey(w.db, { ...key, account, tier: 'free' }), { code: 'RL400' });
});

t.test('what an id of a key cannot be', async (t) => {
  const { w } = await scene(t);
  const made = (id: string) =>
    w.db`select runledger.create_key('acme', 'free', 'rl', sha256('x'), null, null, ${id})`;
  for (const id of ['00000000-0000-4000-8000-000000000001', 'f0000000-0000-4000-8000-000000000001'])
    await t.rejects(made(id), { code: 'RL400', message: `${id} is no id of a key` });
  await made('f0000000-0000-4000-8000-000000000002');
});

t.test('the time in a rotation is in UTC, whatever the session says', async (t) => {
  const { w } = await scene(t);
  const key = await w.key({ tier: 'free' });
  const odd = w.connect(w.database.url, 1);
  await odd`set timezone = 'Asia/Tokyo'`;
  await odd`select runledger.rotate_key(${key.id}, sha256('x'), interval '1 hour')`;
  const [row] = await w.db<{ ends: string }[]>`
    select facts ->> 'others_expire_at' as ends from runledger.events where type = 'key.rotated'`;
  t.match(row!.ends, /\+00:00$/);
});

t.test('ten keys created at once for a new account create one account', async (t) => {
  const { w } = await scene(t);
  await Promise.all(Array.from({ length: 10 }, () => w.key({ account: 'rush', tier: 'free' })));
  const rows =
    await w.db`select count(*)::integer as n from runledger.accounts where name = 'rush'`;
  t.equal(rows[0]!['n'], 1);
});

t.test('a rotation adds a secret, and the first one ends after the grace period', async (t) => {
  const { w, works } = await scene(t);
  const key = await w.key({ tier: 'free' });
  const next = secretDigest(newSecret('rl'));
  const ends = await rotateKey(w.db, { id: key.id, secret_digest: next, grace_ms: 60_000 });
  t.same(ends, new Date('2026-11-20T12:01:00Z'));
  t.ok((await works(key.digest)) && (await works(next)), 'both work during the grace period');
  await w.clock.advance(59_999);
  t.ok(await works(key.digest));
  await w.clock.advance(1);
  t.notOk(await works(key.digest));
  t.ok(await works(next));
});

t.test('a key never has more than two secrets', async (t) => {
  const { w, works } = await scene(t);
  const key = await w.key({ tier: 'free' });
  const [second, third] = [secretDigest(newSecret('rl')), secretDigest(newSecret('rl'))];
  await rotateKey(w.db, { id: key.id, secret_digest: second, grace_ms: 3_600_000 });
  await w.clock.advance(1000);
  await rotateKey(w.db, { id: key.id, secret_digest: third, grace_ms: 3_600_000 });
  t.same(await Promise.all([key.digest, second, third].map(works)), [false, true, true]);
  t.match(
    (await listKeys(w.db)).find(({ id }) => id === key.id),
    { secrets: 2 },
  );
});

t.test('simultaneous rotations follow one another', async (t) => {
  const { w, works } = await scene(t);
  const key = await w.key({ tier: 'free' });
  const digests = Array.from({ length: 5 }, () => secretDigest(newSecret('rl')));
  await Promise.all(
    digests.map((secret_digest) => rotateKey(w.db, { id: key.id, secret_digest, grace_ms: 0 })),
  );
  const working = (await Promise.all(digests.map(works))).filter(Boolean);
  t.equal(working.length, 1);
});

t.test('a rotation that did not see another one is refused', async (t) => {
  const { w, works } = await scene(t);
  const key = await w.key({ tier: 'free' });
  const { version, ends } = await graceOf(w.db, key.id);
  t.equal(ends, null);
  const rotate = (secret_digest: Uint8Array) =>
    rotateKey(w.db, { id: key.id, secret_digest, grace_ms: 60_000, seen_version: version });
  const digests = Array.from({ length: 2 }, () => secretDigest(newSecret('rl')));
  const results = await Promise.allSettled(digests.map(rotate));
  t.match(
    results.filter(({ status }) => status === 'rejected'),
    [{ reason: { code: 'RL409', message: /has had a new secret since/ } }],
  );
  t.ok(await works(key.digest), 'the one that is in use goes on working');
});

t.test('the limits belong to the key, whichever of its secrets is used', async (t) => {
  const { w, works } = await scene(t);
  await w.tier('three', 3, 1);
  const key = await w.key({ tier: 'three' });
  const next = secretDigest(newSecret('rl'));
  await rotateKey(w.db, { id: key.id, secret_digest: next, grace_ms: 60_000 });
  const all = [
    await works(key.digest),
    await works(next),
    await works(key.digest),
    await works(next),
  ];
  t.same(all, [true, true, true, false]);
});

t.test('a revoked key is rejected, and its accepted work finishes', async (t) => {
  const { w, works } = await scene(t);
  const key = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const ids: string[] = [];
  for (let n = 0; n < 4; n++)
    ids.push(idOf(await submit({ secret_digest: key.digest, submission: submission() })));
  await revokeKey(w.db, key.id);
  await revokeKey(w.db, key.id);
  t.notOk(await works(key.digest));
  const { executions } = await w.consumer();
  for (const id of ids) {
    t.ok(await start(executions, id), 'gated ones are promoted as before');
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  }
  const events =
    await w.db`select count(*)::integer as n from runledger.events where type = 'key.revoked'`;
  t.equal(events[0]!['n'], 1, 'a second revocation appends nothing');
  const grace = { id: key.id, secret_digest: new Uint8Array(32), grace_ms: 0 };
  await t.rejects(rotateKey(w.db, grace), { code: 'RL404' });
  await t.rejects(rotateKey(w.db, { ...grace, id: randomUUID() }), { code: 'RL404' });
  await t.rejects(revokeKey(w.db, randomUUID()), { code: 'RL404' });
});

t.test('tiers are set and listed; invalid ones are rejected', async (t) => {
  const { w } = await scene(t);
  await w.tier('beta', 61, 11);
  t.match(await listTiers(w.db), [
    { name: 'beta', per_minute: 61, concurrent: 11 },
    { name: 'free', per_minute: 0, concurrent: 2 },
  ]);
  await t.rejects(w.tier('Not A Name', 1, 1), { code: 'RL400' });
  await t.rejects(w.tier('x', -1, 1), { code: 'RL400' });
});

t.test(
  'a digest that shares only its first twelve bytes with a key does not match the key',
  async (t) => {
    const { w, works } = await scene(t);
    const key = await w.key({ tier: 'free' });
    const near = Buffer.from(key.digest);
    near[31]! ^= 1;
    t.notOk(await works(near));
    t.ok(await works(key.digest));
  },
);

t.test('a clock that is set back does not keep a key out for longer than a minute', async (t) => {
  const { url } = await freshDatabase(t);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  type Spent = { hits_us: string; buckets: string; allowed: boolean; reset_us: string };
  for (const per_minute of [5, 1_000]) {
    let state = { hits_us: '{}', buckets: '{}' };
    const spend = async (at_s: number) => {
      const [row] = await db<Spent[]>`
        select hits_us::text, buckets::text, allowed, reset_us::text
        from runledger.spend_rate(${state.hits_us}::text::bigint[], ${state.buckets}::text::bigint[],
          ${per_minute}::text::integer, ${String(at_s * 1e6)}::text::bigint)`;
      state = row!;
      return row!;
    };
    for (let n = 0; n < per_minute; n += 1) t.ok((await spend(10_000 + (n % 2))).allowed);
    t.notOk((await spend(10_001)).allowed);
    const back = await spend(6_400);
    t.notOk(back.allowed, 'the limit is kept');
    t.ok(Number(back.reset_us) <= 61e6, back.reset_us);
    t.notOk((await spend(6_459)).allowed);
    t.ok((await spend(6_462)).allowed);
  }
});
