/** Test sets: how they are stored, shared, read by workers, deleted and purged. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { contentsOf } from '../../src/judging/manifest.ts';
import { Problems } from '../../src/store/problems.ts';
import { readContent } from '../../src/store/read_content.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { forgetAccount, purgePayloads, purgeTestSets } from '../../src/store/retention.ts';
import { createTestSets, inPieces, PIECE_BYTES } from '../../src/store/test_sets.ts';
import { verify } from '../../src/store/verify.ts';
import { checkPayloads } from '../../src/store/verify_payloads.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { matchLists } from '../support/match_lists.ts';
import { aSet, judgingOf, refOf } from './a_set.ts';
import { seal } from './seal_now.ts';
import { besides } from './verified.ts';
import { newId, outcome, start, submission, world } from './world.ts';

const DAY_MS = 86_400_000;
const LARGE = randomBytes(3 * PIECE_BYTES + 5);

async function scene(
  t: { teardown(work: () => unknown): void },
  options: { strange_events?: string } = {},
) {
  const w = await world(t, options);
  await w.tier('free', 0, 0);
  const key = await w.key({ tier: 'free' });
  const account_of = async (key_id: string) => {
    const [row] = await w.db<{ account_id: string }[]>`
      select account_id from runledger.keys where id = ${key_id}`;
    return { account_id: row!.account_id, key_id };
  };
  const owner = await account_of(key.id);
  const sets = createTestSets(w.web);
  const { submit } = w.submissions();
  const consumer = await w.consumer();
  const use = (test_set: string, secret_digest = key.digest) =>
    submit({
      secret_digest,
      submission: submission({ judging: judgingOf({ test_set, stop: 'first' }) }),
    });
  const count = async (table: string) => {
    const [row] = await w.db.unsafe(`select count(*)::integer as n from runledger.${table}`);
    return row!['n'];
  };
  // Not of the schema: what a mutant of a function does must be noticed, and not that it was changed.
  const problems = async () =>
    besides((await verify(w.db)).problems).filter((problem) => !problem.startsWith('the schema '));
  return { w, key, owner, account_of, sets, submit, consumer, use, count, problems };
}

t.test('bytes in any chunks make the same pieces', async (t) => {
  async function* chunks(sizes: readonly number[]) {
    let at = 0;
    for (const size of sizes) {
      yield LARGE.subarray(at, at + size);
      at += size;
    }
  }
  for (const sizes of [[LARGE.length], [1, 0, LARGE.length - 1], [PIECE_BYTES, LARGE.length]]) {
    const pieces = await Array.fromAsync(inPieces(chunks(sizes)));
    t.same(
      pieces.map(({ length }) => length),
      [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, 5],
    );
    t.ok(Buffer.concat(pieces).equals(LARGE), String(sizes));
  }
  t.same(await Array.fromAsync(inPieces(chunks([0, 0]))), []);
  t.equal((await Array.fromAsync(inPieces(chunks([PIECE_BYTES])))).length, 1);
});

t.test('a set is stored once for its account, and a content once for all', async (t) => {
  const { owner, account_of, sets, count, problems, w } = await scene(t);
  const first = aSet('one', [LARGE, Buffer.from('2'), Buffer.alloc(0)]);
  const created = await sets.create({ owner, ...first, request_id: 'r-1' });
  t.match(created, { kind: 'created', id: /^f/, sha256: /^[0-9a-f]{64}$/ });
  const { id } = created as { id: string };
  t.equal(first.asked.length, 4);
  const again = aSet('one', [LARGE, Buffer.from('2'), Buffer.alloc(0)]);
  t.match(await sets.create({ owner, ...again }), { kind: 'known', id });
  t.same(again.asked, [], 'nothing is sent again');
  t.same(
    await sets.missing(owner, [...contentsOf(first.set), refOf(Buffer.from('new'))]),
    [refOf(Buffer.from('new')).sha256].reduce((all, each) => all.add(each), new Set<string>()),
  );

  const other = await account_of((await w.key({ tier: 'free' })).id);
  const theirs = aSet('two', [LARGE, Buffer.from('3')]);
  const second = await sets.create({ owner: other, ...theirs });
  t.match(second, { kind: 'created' });
  t.equal(theirs.asked.length, 3, 'an upload takes as long as if nobody had the same files');
  t.equal(await count('contents'), 5);

  t.match(await sets.list(owner), [
    {
      ...{ id, name: 'one', tests: 3, groups: 1, bytes: LARGE.length + 1 + 13 },
      ...{ limits: { cpu_time_ms: 2000 }, compare: 'lines', scoring: 'pass-fail', passes: 1 },
      ...{ checker: 'python', interactor: null, created_at: Date },
    },
  ]);
  t.match(await sets.read(owner, id), { id });
  t.equal(await sets.read(other, id), null, 'it belongs to its account');
  t.equal(await sets.remove(other, id), 'absent');
  t.same(await problems(), []);
  const [event] =
    await w.db`select facts from runledger.events where type = 'test_set.created' order by seq`;
  t.match(event!['facts'], { tests: 3, files: { count: 4 }, request_id: 'r-1' });
});

t.test('nothing of an upload that fails is kept', async (t) => {
  const { owner, sets, count, problems } = await scene(t);
  const made = aSet('one', [Buffer.from('right'), LARGE]);
  async function* other() {
    yield Buffer.alloc(LARGE.length);
  }
  async function* long() {
    for (;;) yield LARGE;
  }
  const breaking = async function* () {
    yield LARGE.subarray(0, 2 * PIECE_BYTES);
    throw new Error('the archive ends here');
  };
  const { sha256 } = refOf(LARGE);
  for (const [ofLarge, error] of [
    [other, /another hash or size/],
    [long, /another hash or size/],
    [breaking, /the archive ends here/],
  ] as const) {
    const contentOf = (name: string) => (name === sha256 ? ofLarge() : made.contentOf(name));
    await t.rejects(sets.create({ owner, set: made.set, contentOf }), { message: error });
    t.equal(await count('contents'), 0);
    t.equal(await count('content_pieces'), 0);
    t.equal(await count('test_sets'), 0);
  }
  t.same(await problems(), []);
});

t.test('a set needs all of its contents, and finds those that a deletion took', async (t) => {
  const { owner, sets, count, w } = await scene(t);
  const small = aSet('small', [Buffer.from('shared')]);
  const { id } = (await sets.create({ owner, ...small })) as { id: string };
  const large = aSet('large', [Buffer.from('shared'), Buffer.from('own')]);
  const upload = sets.upload(owner);
  const own = refOf(Buffer.from('own'));
  t.same(await sets.missing(owner, contentsOf(large.set)), new Set([own.sha256]));
  await upload.put(own, large.contentOf(own.sha256));
  t.equal(await sets.remove(owner, id), 'removed');
  const finished = await upload.finish({ owner, set: large.set });
  t.equal(finished.kind === 'missing' && finished.sha256s.size, 2, 'the input and the checker');
  for (const file of contentsOf(large.set)) await upload.put(file, large.contentOf(file.sha256));
  t.match(await upload.finish({ owner, set: large.set }), { kind: 'created' });
  t.equal(await count('contents'), 3);

  const abandoned = sets.upload(owner);
  const late = Buffer.from('abandoned');
  await abandoned.put(refOf(late), oneChunk(late));
  const { set } = aSet('x', [late, Buffer.from('never sent')]);
  t.match(await abandoned.finish({ owner, set }), { kind: 'missing' });
  const forget = async () => {
    const [row] = await w.web<{ n: number }[]>`select runledger.forget_arrived('0 s') as n`;
    return row!.n;
  };
  t.equal(await forget(), 1, 'it is deleted when it is old');
  t.equal(await forget(), 0);
  t.equal(await count('contents'), 3);

  const cut = sets.upload(owner);
  const whole = aSet('cut', [LARGE]);
  for (const file of contentsOf(whole.set)) await cut.put(file, whole.contentOf(file.sha256));
  await w.db`
    delete from runledger.content_pieces
    where n = 1 and content_id in (select id from runledger.contents where not stored)`;
  t.match(await cut.finish({ owner, set: whole.set }), { kind: 'missing' }, 'a piece is missing');
});

async function* oneChunk(bytes: Uint8Array) {
  yield bytes;
}

t.test('a key that was revoked stores nothing', async (t) => {
  const { w, key, owner, sets, count } = await scene(t);
  await w.db`select runledger.revoke_key(${key.id})`;
  const made = aSet('one', [Buffer.from('1')]);
  t.match(await sets.create({ owner, ...made }), { kind: 'unauthorized' });
  t.equal(await count('contents'), 0);
});

t.test('a worker reads the contents of what it runs, and of nothing else', async (t) => {
  const { w, owner, sets, consumer, use } = await scene(t);
  const made = aSet('one', [LARGE, Buffer.alloc(0)]);
  const hidden = aSet('two', [Buffer.from('hidden')]);
  const { id } = (await sets.create({ owner, ...made })) as { id: string };
  const { id: hidden_id } = (await sets.create({ owner, ...hidden })) as { id: string };
  const read = async (bytes: Uint8Array, size = bytes.length) =>
    Buffer.concat(
      await Array.fromAsync(readContent(consumer.executions.readPieces, { ...refOf(bytes), size })),
    );
  await t.rejects(
    read(LARGE),
    { message: /^the database does not have/ },
    'before it runs anything',
  );
  const accepted = await use(id);
  t.match(accepted, { kind: 'accepted' });
  const submission_id = (accepted as { id: string }).id;
  const started = await start(consumer.executions, submission_id);
  t.match(started, { unreadable: null, order: { judging: { stop: 'first', passes: 1 } } });
  t.match(started!.order.judging!.tests, [
    { name: 'data/secret/1', input: { file: refOf(LARGE) }, answer: { file: refOf(LARGE) } },
    { name: 'data/secret/2' },
  ]);
  t.ok((await read(LARGE)).equals(LARGE));
  t.equal((await read(Buffer.alloc(0))).length, 0);
  await t.rejects(
    read(Buffer.from('hidden')),
    { message: /^the database does not have/ },
    'a set of no submission',
  );
  const other = await w.consumer();
  const theirs = (await use(hidden_id)) as { id: string };
  t.match(await start(other.executions, theirs.id), { unreadable: null });
  await t.rejects(
    read(Buffer.from('hidden')),
    { message: /^the database does not have/ },
    'a set of what another worker runs',
  );
  await t.rejects(
    read(LARGE, LARGE.length - 1),
    { message: /^the database does not have/ },
    'another size',
  );
  await t.rejects(w.web`select * from runledger.read_pieces(${consumer.id}, '\\x00', 0, 1)`, {
    code: '42501',
  });
  await w.db`update runledger.content_pieces set bytes = overlay(bytes placing '\\x00'::bytea from 7) where n = 2`;
  await t.rejects(read(LARGE), { message: /^the database does not have/ }, 'other bytes');
  await consumer.executions.complete({ submission_id, attempt: 1, outcome: outcome() });
  await t.rejects(read(LARGE), { message: /^the database does not have/ }, 'after the end');
});

t.test('a set stays while a submission needs it, and then its bytes go with it', async (t) => {
  const { w, owner, sets, consumer, use, count, problems } = await scene(t);
  const { id } = (await sets.create({ owner, ...aSet('one', [LARGE, Buffer.from('s')]) })) as {
    id: string;
  };
  const shared = await sets.create({ owner, ...aSet('two', [Buffer.from('s')]) });
  t.match(await use('f0000000-0000-4000-8000-00000000abcd'), { kind: 'no_test_set' });
  t.match(await use('018f0000-0000-7000-8000-000000000000'), { kind: 'no_test_set' });
  const stranger = await w.key({ tier: 'free' });
  t.match(await use(id, stranger.digest), { kind: 'no_test_set' }, 'of another account');
  const submission_id = ((await use(id)) as { id: string }).id;
  t.equal(await sets.remove(owner, id), 'in_use', 'it waits');
  await start(consumer.executions, submission_id);
  t.equal(await sets.remove(owner, id), 'in_use', 'it runs');
  await consumer.executions.complete({ submission_id, attempt: 1, outcome: outcome() });
  t.same(await problems(), []);
  t.equal(await sets.remove(owner, id, { request_id: 'r-2' }), 'removed');
  t.equal(await sets.remove(owner, id), 'absent');
  t.match(await use(id), { kind: 'no_test_set' });
  t.equal(await count('contents'), 2, 'those of the other set are left');
  t.equal(await count('content_pieces'), 2);
  t.match(await sets.list(owner), [{ id: (shared as { id: string }).id }]);
  const facts = await w.db`select facts from runledger.events where type = 'test_set.deleted'`;
  t.same([...facts], [{ facts: { key_id: owner.key_id, request_id: 'r-2' } }]);
  t.same(await problems(), []);
  await rebuild(w.db);
  t.same(await problems(), []);
});

t.test('a set that is being deleted does not exist, and holds up nobody', async (t) => {
  const { w, owner, sets, use } = await scene(t);
  const { id } = (await sets.create({ owner, ...aSet('one', [Buffer.from('1')]) })) as {
    id: string;
  };
  const other = w.connect(w.database.urls.web, 1);
  await other.begin(async (tx) => {
    const [row] = await tx`
      select runledger.remove_test_set(${owner.account_id}, ${owner.key_id}, ${id}) as outcome`;
    t.equal(row!['outcome'], 'removed');
    t.match(await use(id), { kind: 'no_test_set' });
  });
  t.match(await use(id), { kind: 'no_test_set' });
});

t.test('a deletion names a key of the account', async (t) => {
  const { w, owner, sets } = await scene(t);
  const { id } = (await sets.create({ owner, ...aSet('one', [Buffer.from('1')]) })) as {
    id: string;
  };
  const another = await w.key();
  for (const key of [null, another.id])
    await t.rejects(w.web`select runledger.remove_test_set(${owner.account_id}, ${key}, ${id})`, {
      code: 'RL409',
    });
  const [row] = await w.web`
    select runledger.remove_test_set(${owner.account_id}, ${owner.key_id}, ${id}) as outcome`;
  t.equal(row!['outcome'], 'removed');
});

t.test('verify holds every deletion against the account, in windows', async (t) => {
  const { w, owner, account_of, sets, problems } = await scene(t, {
    strange_events: 'one names a key that is none',
  });
  const ids: string[] = [];
  for (const name of ['one', 'two', 'three', 'four', 'five']) {
    const set = await sets.create({ owner, ...aSet(name, [Buffer.from(name)]) });
    ids.push((set as { id: string }).id);
  }
  ids.sort();
  const stranger = await account_of((await w.key({ tier: 'free' })).id);
  t.equal(await sets.remove(owner, ids[0]!), 'removed');
  const drop = (set_id: string, key_id: string) =>
    w.db`select runledger.drop_test_set(${set_id}, ${JSON.stringify({ key_id })}::text::jsonb)`;
  t.same(await problems(), []);
  await drop(ids[1]!, stranger.key_id);
  await drop(ids[2]!, owner.key_id.toUpperCase());
  t.same(await problems(), [`test set ${ids[1]} was deleted by a key of another account`]);
  await drop(ids[3]!, 'no id');
  matchLists(t, await problems(), [
    `test set ${ids[1]} was deleted by a key of another account`,
    `test set ${ids[3]} was deleted by a key of another account`,
    /^the facts of \S+ version 2 \(test_set.deleted\) are not of their schema/,
  ]);

  await w.db.unsafe(`delete from runledger.payloads where stream = '${ids[4]}'`);
  await w.db.unsafe(
    `insert into runledger.payloads select '${ids[0]}', 'manifest', '\\x00', '\\x01'`,
  );
  const last = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  await w.db.unsafe(`insert into runledger.payloads select '${last}', 'manifest', '', ''`);
  for (const window_events of [1, 2, 100]) {
    const found = new Problems();
    const options = { some_detached: false, removals: null, window_events };
    t.same(await checkPayloads(w.db, [], options, found), { rows: 2, purged: 0 });
    t.same(found.lines().sort(), [
      `payloads: ${ids[0]} manifest does not have the bytes that its event names`,
      `payloads: ${ids[0]} manifest is there, and its test set was deleted`,
      `payloads: ${ids[4]} manifest is missing, and no purge claims it`,
      `payloads: ${last} manifest should not be there: no event names it`,
    ]);
  }
});

t.test('a deletion waits for a submission that is being accepted', async (t) => {
  const { w, key, owner, sets } = await scene(t);
  const { id } = (await sets.create({ owner, ...aSet('one', [Buffer.from('1')]) })) as {
    id: string;
  };
  const other = w.connect(w.database.urls.web, 1);
  const root = w.connect(w.database.superuser_url, 1);
  const waits = async (name: string) => {
    for (;;) {
      const [row] = await root`
        select count(*)::integer as n from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like ${`%${name}%`}`;
      if (row!['n'] > 0) break;
    }
  };
  let removed: Promise<string> | undefined;
  let purged: Promise<unknown> | undefined;
  const submission_id = newId();
  const row = {
    ...{ digest: Buffer.from(key.digest).toString('hex'), id: submission_id, language: 'python' },
    ...{ args: [], compare: 'lenient', limits: {}, judging: { test_set: id, stop: 'first' } },
  };
  await other.begin(async (tx) => {
    const [accepted] = await tx`
      select outcome from runledger.submit_many(${JSON.stringify([row])}::text::jsonb, '{x}', '{""}', '{NULL}', 10, true, '{x}')`;
    t.equal(accepted!['outcome'], 'accepted');
    removed = sets.remove(owner, id);
    await waits('remove_test_set');
    purged = w.db`select runledger.purge_test_set(${id}, runledger.clock()) as deleted`.execute();
    await waits('purge_test_set');
  });
  t.equal(await removed, 'in_use');
  t.match(await purged, [{ deleted: false }]);
});

t.test('a deletion looks for submissions before it holds up other sets', async (t) => {
  const { w, owner, sets, consumer, use } = await scene(t);
  const make = async (name: string) =>
    ((await sets.create({ owner, ...aSet(name, [Buffer.from(name)]) })) as { id: string }).id;
  const [removed, purged] = [await make('removed'), await make('purged')];
  for (const id of [removed, purged]) {
    const submission_id = ((await use(id)) as { id: string }).id;
    await start(consumer.executions, submission_id);
    await consumer.executions.complete({ submission_id, attempt: 1, outcome: outcome() });
  }
  await w.clock.advance(DAY_MS);
  const deletions = [
    () => sets.remove(owner, removed),
    () => w.db`select runledger.purge_test_set(${purged}, runledger.clock()) as deleted`.execute(),
  ];
  const answers: unknown[] = [];
  for (const deletion of deletions) {
    let deleting: Promise<unknown> | undefined;
    const other = w.connect(w.database.url, 1);
    await other.begin(async (tx) => {
      await tx`lock table runledger.submissions in access exclusive mode`;
      deleting = deletion();
      while ((await lockWaits(tx)) === 0);
      const [lock] = await tx`
        select pg_try_advisory_xact_lock(hashtext('runledger test sets')) as is_free`;
      t.equal(lock!['is_free'], true);
    });
    answers.push(await deleting);
  }
  t.match(answers, ['removed', [{ deleted: true }]]);
});

t.test('rebuild makes the rows of sets from their manifests', async (t) => {
  const { w, owner, sets, problems } = await scene(t);
  const created = await sets.create({ owner, ...aSet('one', [Buffer.from('1'), LARGE]) });
  const rows = async () => [
    ...(await w.db`select * from runledger.test_sets`),
    ...(await w.db`select * from runledger.test_set_contents order by 1, 2`),
  ];
  const before = await rows();
  t.equal(before.length, 4);
  await w.db`update runledger.test_sets set summary = '{}'`;
  await w.db`delete from runledger.test_set_contents where ctid = (select min(ctid) from runledger.test_set_contents)`;
  await w.db`insert into runledger.test_set_contents values (${(created as { id: string }).id}, gen_random_uuid())`;
  matchLists(t, await problems(), [
    /^content \w+ should not be there/,
    /^test_sets: /,
    /^test_set_contents: /,
  ]);
  await rebuild(w.db);
  t.same(await rows(), before);
  t.same(await problems(), []);
});

t.test('a purge deletes the sets that nothing has used since', async (t) => {
  const { w, owner, sets, consumer, use, count, problems } = await scene(t);
  const noon = new Date();
  await w.clock.set(noon);
  const make = async (name: string) =>
    ((await sets.create({ owner, ...aSet(name, [Buffer.from(name)]) })) as { id: string }).id;
  const run = async (id: string) => {
    const submission_id = ((await use(id)) as { id: string }).id;
    await start(consumer.executions, submission_id);
    await consumer.executions.complete({ submission_id, attempt: 1, outcome: outcome() });
  };
  const [old, used, waiting] = [await make('old'), await make('used'), await make('waiting')];
  await run(old);
  await use(waiting);
  await w.clock.advance(30 * DAY_MS);
  await run(used);
  const young = await make('young');
  await seal(w.web);
  const before = new Date(noon.getTime() + DAY_MS);
  t.equal(await purgePayloads(w.db, before), 1);
  t.same(await purgeTestSets(w.db, before, 'ada@console'), [old]);
  t.same((await sets.list(owner)).map(({ id }) => id).sort(), [used, waiting, young].sort());
  t.equal(await count('contents'), 4);
  const [event] =
    await w.db`select stream, facts from runledger.events where type = 'test_set.deleted'`;
  t.match(event, { stream: old, facts: { operator: 'ada@console', unused_since: String } });
  t.same(await problems(), []);
  const auditor = w.connect(w.database.urls.auditor, 1);
  t.match(await auditor`select * from runledger.audit_commands where type like 'test_set.%'`, [
    { actor: 'operator ada@console', about: old, account_id: owner.account_id },
  ]);
  const shown = await auditor`
    select * from runledger.audit_test_sets order by deleted_at is null, created_at, test_set_id`;
  t.match(shown[0], {
    test_set_id: old,
    tests: '1',
    files: '2',
    deleted_by: 'operator ada@console',
  });
  t.match(shown[1], { created_by: `key ${owner.key_id}`, deleted_at: null, deleted_by: null });
  t.equal(shown.length, 4);
});

t.test('to forget an account names the test sets that it had to leave', async (t) => {
  const { w, key, owner, sets, consumer, use } = await scene(t);
  const make = async (name: string) =>
    ((await sets.create({ owner, ...aSet(name, [Buffer.from(name)]) })) as { id: string }).id;
  const noon = new Date();
  await w.clock.set(noon);
  const used = await make('used');
  const submission_id = ((await use(used)) as { id: string }).id;
  // Another one is made while the clock is ahead.
  await w.clock.advance(600_000);
  await make('ahead');
  await w.clock.set(new Date(noon.getTime() + 1000));
  const forget = () => forgetAccount(w.db, key.account, 'me');
  t.match(await forget(), { submissions: 0, open: 1, test_sets: 0, test_sets_left: 2 });
  await start(consumer.executions, submission_id);
  await consumer.executions.complete({ submission_id, attempt: 1, outcome: outcome() });
  await w.clock.advance(1000);
  t.match(await forget(), { submissions: 1, open: 0, test_sets: 1, test_sets_left: 1 });
  await w.clock.advance(600_000);
  t.match(await forget(), { submissions: 0, open: 0, test_sets: 1, test_sets_left: 0 });
});
