import t from 'tap';
import type { Db } from '../../src/db.ts';
import { parseRemovals } from '../../src/domain/removals.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { repair } from '../../src/store/repair.ts';
import { rerunKey, rerunOf } from '../../src/store/reruns.ts';
import {
  detachMonth,
  forgetAccount,
  forgetSubmission,
  purgePayloads,
  purgeTestSets,
  whyNotDetach,
} from '../../src/store/retention.ts';
import { verify } from '../../src/store/verify.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { matchLists } from '../support/match_lists.ts';
import { key, seal } from './seal_now.ts';
import { alone, besides } from './verified.ts';
import { idOf, newId, outcome, start, submission, type World, webhook, world } from './world.ts';

aloneOnItsServer();

const DAY_MS = 86_400_000;

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const submitOne = async (change = {}) =>
    idOf(await submit({ secret_digest: digest, submission: submission(change) }));
  const runOne = async (change = {}) => {
    const id = await submitOne(change);
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    return id;
  };
  const problems = async () => besides((await verify(w.db)).problems);
  const count = async (table: string, id: string, column = 'stream') => {
    const [row] = await w.db.unsafe(
      `select count(*)::integer as n from runledger.${table} where ${column} = '${id}'`,
    );
    return row!['n'];
  };
  return { w, executions, submitOne, runOne, problems, count };
}

t.test(
  'a purge deletes the bytes of submissions that ended before, and the log stays complete',
  async (t) => {
    const s = await scene(t);
    const noon = new Date();
    await s.w.clock.set(noon);
    const old = await s.runOne({
      stdin: Buffer.from('user data'),
      idempotency_key: '018f0000-0000-4000-8000-000000000001',
    });
    const open = await s.runOne({ webhook: webhook() });
    const waiting = await s.submitOne();
    const cancelled = await s.submitOne();
    await s.w.cancel(cancelled);
    const set_back = await s.submitOne();
    await s.w.clock.set(new Date(noon.getTime() + DAY_MS + 600_000));
    await start(s.executions, set_back);
    await s.w.clock.set(new Date(noon.getTime() + DAY_MS - 600_000));
    await s.executions.complete({ submission_id: set_back, attempt: 1, outcome: outcome() });
    await s.w.clock.advance(30 * DAY_MS);
    const young = await s.runOne();
    const skewed = await s.runOne({ id: newId(noon.getTime() + 31.5 * DAY_MS) });
    await seal(s.w.web);

    const to_come = new Date(noon.getTime() + 31 * DAY_MS);
    await t.rejects(purgePayloads(s.w.db, to_come), { code: 'RL422' });
    await t.rejects(purgeTestSets(s.w.db, to_come), { code: 'RL422' });
    t.equal(await purgePayloads(s.w.db, new Date(noon.getTime() + DAY_MS)), 2);
    t.equal(await s.count('payloads', old), 0, 'with their salts');
    t.equal(await s.count('payloads', cancelled), 0);
    t.equal(
      await s.count('payloads', set_back),
      2,
      'it ended before the time, and started after it',
    );
    t.equal(await s.count('idempotency', old, 'submission_id'), 0);
    t.equal(await s.count('payloads', open), 3, 'a delivery that has not ended keeps its bytes');
    t.equal(await s.count('webhook_secrets', open, 'submission_id'), 1);
    t.equal(await s.count('payloads', waiting), 1);
    t.equal(await s.count('payloads', young), 2);
    t.same(await s.problems(), []);
    t.match(
      [...(await s.w.db`select * from runledger.audit_retention`)],
      [{ type: 'payloads.purged', payloads: '4' }],
    );
    const [claim] = await s.w.db`
      select facts ->> 'last_id' as last_id from runledger.events where type = 'payloads.purged'`;
    t.equal(claim!['last_id'], cancelled);

    await s.w.db`delete from runledger.payloads where stream = ${young} and kind = 'stdout'`;
    t.match(
      (await s.problems())[0],
      `payloads: ${young} stdout is missing`,
      'what no purge took is missed',
    );
    await s.w.clock.advance(30 * DAY_MS);
    t.equal(await purgePayloads(s.w.db, new Date(noon.getTime() + 40 * DAY_MS)), 3);
    t.equal(await s.count('payloads', skewed), 0, 'also if the id is from a clock that ran ahead');
    const uncounted = ['purges claim to have removed 9 payloads, and 10 are gone'];
    t.same(await s.problems(), uncounted, 'a purge does not hide what was deleted before it');
    await rebuild(s.w.db);
    t.same(await s.problems(), uncounted);
  },
);

t.test('a report that is refused while a purge takes the bytes is no problem', async (t) => {
  const s = await scene(t);
  const noon = new Date();
  await s.w.clock.set(noon);
  const id = await s.runOne();
  await s.w.clock.advance(30 * DAY_MS);
  const purged = await duringCommit(
    s.w,
    (late) =>
      late.unsafe(`select runledger.append_to_submissions(array[s], '{execution.refused}',
      runledger.clock(), array['{"attempt": 1, "consumer": "${id}", "verdict": "AC"}'::jsonb])
      from runledger.submissions s where s.id = '${id}'`),
    () => purgePayloads(s.w.db, new Date(noon.getTime() + DAY_MS)),
  );
  t.equal(purged, 1);
  t.equal(await s.count('payloads', id), 0, 'the report says nothing of the submission');
  t.same(await s.problems(), []);
});

t.test('a delivery that is requested again while a purge runs keeps its bytes', async (t) => {
  const s = await scene(t);
  const noon = new Date();
  await s.w.clock.set(noon);
  const id = await s.runOne({ webhook: webhook() });
  await s.w.db`
    select runledger.append_to_deliveries(array[s], 'delivery.ended', runledger.clock(), '{"outcome": "delivered"}')
    from runledger.submissions s where s.id = ${id}`;
  const other = await s.runOne({ id: newId(Date.now() + 1000) });
  await s.w.clock.advance(30 * DAY_MS);
  const purged = await duringCommit(
    s.w,
    (late) => late`select runledger.replay_delivery(${id}, 'k1', '\\x01', '\\x02')`,
    () => purgePayloads(s.w.db, new Date(noon.getTime() + DAY_MS)),
  );
  t.equal(purged, 1, 'the other one');
  t.equal(await s.count('payloads', other), 0);
  t.equal(await s.count('payloads', id), 3);
  t.same(await s.problems(), []);
});

t.test(
  'a purge ends before an event that is still to come, after the clock was set back',
  async (t) => {
    const s = await scene(t);
    const noon = new Date();
    const after = (ms: number) => new Date(noon.getTime() + ms);
    await s.w.clock.set(noon);
    const [before, redelivered, behind] = [
      await s.runOne(),
      await s.runOne({ id: newId(Date.now() + 1000), webhook: webhook() }),
      await s.runOne({ id: newId(Date.now() + 2000) }),
    ];
    const deliver = () => s.w.db`
    select runledger.append_to_deliveries(array[s], 'delivery.ended', runledger.clock(), '{"outcome": "delivered"}')
    from runledger.submissions s where s.id = ${redelivered}`;
    await deliver();
    await s.w.clock.set(after(30 * DAY_MS));
    await s.w.db`select runledger.replay_delivery(${redelivered}, 'k1', '\\x01', '\\x02')`;
    await deliver();
    await s.w.db`delete from runledger.webhook_secrets`;
    await s.w.clock.set(after(30 * DAY_MS - 1_800_000));
    const purge = () => purgePayloads(s.w.db, after(DAY_MS));
    for (let n = 0; n < 2; n++)
      await t.rejects(purge(), {
        code: 'RL409',
        message: new RegExp(`^bytes of ${redelivered} and of later ids cannot be purged yet: `),
      });
    t.equal(await s.count('payloads', before), 0);
    t.equal(await s.count('payloads', redelivered), 3);
    t.equal(await s.count('payloads', behind), 2);
    t.same(await s.problems(), []);
    await s.w.clock.set(after(30 * DAY_MS));
    t.equal(await purge(), 1);
    t.equal(await s.count('payloads', behind), 0);
    t.equal(await s.count('payloads', redelivered), 3, 'it was delivered later');
    t.same(await s.problems(), []);
  },
);

t.test('a delivery that was requested again while it waited ends once', async (t) => {
  const s = await scene(t);
  const noon = new Date();
  await s.w.clock.set(noon);
  const [purged, forgotten, open] = [
    await s.runOne({ webhook: webhook() }),
    await s.runOne({ webhook: webhook() }),
    await s.runOne({ webhook: webhook() }),
  ];
  for (const id of [purged, forgotten, open])
    await s.w.db`select runledger.replay_delivery(${id}, null, null, null)`;
  for (const id of [purged, forgotten])
    await s.w.db`
      select runledger.append_to_deliveries(array[s], 'delivery.ended', runledger.clock(), '{"outcome": "delivered"}')
      from runledger.submissions s where s.id = ${id}`;
  await s.w.clock.advance(60_000);
  t.match(await forgetSubmission(s.w.db, forgotten, 'me'), { submissions: 1, open: 0 });
  t.match(await forgetSubmission(s.w.db, open, 'me'), { submissions: 0, open: 1 });
  await s.w.clock.advance(30 * DAY_MS);
  const codeOf = (id: string) =>
    s.w.db`select * from runledger.payloads where stream = ${id} and kind = 'code'`;
  const [kept] = await codeOf(purged);
  t.equal(await purgePayloads(s.w.db, new Date(noon.getTime() + DAY_MS)), 1);
  t.equal(await s.count('payloads', purged), 0);
  t.equal(await s.count('payloads', open), 3, 'it still waits');
  t.same(await s.problems(), []);

  // What was removed without a claim is still missed, and so is what a claim did not remove.
  const [code] = await codeOf(open);
  await s.w.db`delete from runledger.payloads where stream = ${open} and kind = 'code'`;
  t.match(await s.problems(), [`payloads: ${open} code is missing, and no purge claims it`]);
  await s.w.db`insert into runledger.payloads ${s.w.db([code!, kept!])}`;
  t.match((await s.problems())[0], `payloads: ${purged} code is there, and the purge at `);
});

t.test(
  'of two purges at once one takes the bytes, and the log can be sealed after both',
  async (t) => {
    const s = await scene(t);
    const noon = new Date();
    await s.w.clock.set(noon);
    await s.runOne();
    await s.w.clock.advance(30 * DAY_MS);
    const purge = (db: Db) => purgePayloads(db, new Date(noon.getTime() + DAY_MS));
    t.equal(await duringCommit(s.w, purge, () => purge(s.w.db)), 0, 'the other one has taken them');
    await seal(s.w.web);
    t.same(await s.problems(), []);
  },
);

t.test('no rerun is made of what is forgotten, and those that are there go with it', async (t) => {
  const s = await scene(t);
  const end = async (id: string) => {
    await start(s.executions, id);
    await s.executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    return id;
  };
  const id = await s.runOne();
  const [row] = await s.w.db`select account_id from runledger.submissions where id = ${id}`;
  const digest = await rerunKey(s.w.db, row!['account_id'], 'me');
  const { submit } = s.w.submissions();
  const request = async () => (await rerunOf(s.w.db, id, digest, 'me'))!;
  const [first, before, between, after] = [
    await end(idOf(await submit(await request()))),
    await request(),
    await request(),
    await request(),
  ];
  const second = await end(idOf(await submit(before)));
  const forgotten = await duringCommit(
    s.w,
    (db) => db`select from runledger.submissions where id = ${id} for update`,
    async () => {
      t.match(await submit(between), { kind: 'no_original' }, 'it does not wait for a removal');
      return forgetSubmission(s.w.db, id.toUpperCase(), 'me');
    },
  );
  t.same(forgotten, {
    submissions: 3,
    open: 0,
    test_sets: 0,
    test_sets_left: 0,
    ids: [id, first, second],
  });
  t.match(await submit(after), { kind: 'no_original' });
  t.equal(await rerunOf(s.w.db, id, digest, 'me'), null);
  await seal(s.w.web);
  const lines = forgotten!.ids.map((each) => `forgotten ${each}`).join('\n');
  const given = { policy: alone, removals: parseRemovals(lines) };
  t.same(besides((await verify(s.w.db, given)).problems), [], 'an auditor needs these lines');
  const again = { ...forgotten, submissions: 0 };
  t.same(await forgetSubmission(s.w.db, id, 'me'), again, 'once more: the same lines');
});

/** Begins the second while the first is not committed. */
async function duringCommit<T>(
  w: World,
  first: (db: Db) => Promise<unknown>,
  second: () => Promise<T>,
): Promise<T> {
  const others = w.connect(w.database.url, 1);
  let waiting: Promise<T> | undefined;
  await others.begin(async (tx) => {
    await first(tx as unknown as Db);
    let ended = false;
    waiting = second().finally(() => {
      ended = true;
    });
    // Either it waits for a lock of the first, or it ends.
    await eventually(async () => ended || (await hasWaiter(w.db)));
  });
  return waiting!;
}

async function hasWaiter(db: Db): Promise<boolean> {
  const rows = await db`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return rows.length > 0;
}

t.test(
  'a month can be detached when everything in it has ended and is sealed, and leaves its leaves in the tree',
  async (t) => {
    const s = await scene(t);
    const month = new Date().toISOString().slice(0, 7).replace('-', '_');
    const ids = [await s.runOne(), await s.runOne()];
    const webhooked = await s.runOne({ webhook: webhook() });
    await seal(s.w.web);
    const pending = await s.submitOne();
    t.match(await whyNotDetach(s.w.db, month), /has not ended/);
    t.match(await whyNotDetach(s.w.db, '2001_01'), /no partition/);
    await s.w.clock.set(new Date(Date.now() + 70 * DAY_MS));
    t.equal(await whyNotDetach(s.w.db, month), '1 of its submissions have not ended');
    await start(s.executions, pending);
    await s.executions.complete({ submission_id: pending, attempt: 1, outcome: outcome() });
    t.equal(await whyNotDetach(s.w.db, month), '1 of its deliveries have not ended');
    await s.w.db`
      select runledger.append_to_deliveries(array[s], 'delivery.ended', now(), '{"outcome": "delivered"}')
      from runledger.submissions s where s.id = ${webhooked}`;
    await s.w.db`delete from runledger.webhook_secrets`;
    t.match(await whyNotDetach(s.w.db, month), /events are not sealed yet/);
    await seal(s.w.web);
    t.equal(await whyNotDetach(s.w.db, month), null);

    await s.w.db`select runledger.ensure_partitions()`;
    const survivor = await s.runOne({ id: newId(Date.now() + 70 * DAY_MS) });
    const events = await detachMonth(s.w.db, month, 'me', () => {}, 3);
    t.equal(events, 4 * 3 + 2, 'in several pages');
    t.equal(await s.count('submissions', ids[0]!, 'id'), 0);
    t.equal(await s.count('submissions', survivor, 'id'), 1);
    t.same(await s.problems(), []);
    await seal(s.w.web);
    const repaired = await repair(s.w.db, key, { reason: 'a test', operator: 'test' });
    t.match(repaired, { before: null }, 'the gaps complete the tree to the same root');
    const [fact] = await s.w.db<{ facts: Record<string, unknown>; gaps: string }[]>`
      select facts, (select sum(count) from runledger.log_gaps g where g.partition = facts ->> 'partition') as gaps
      from runledger.events where type = 'log.detached'`;
    t.match(fact, { facts: { events, leaves_sha256: /^[0-9a-f]{64}$/ }, gaps: String(events) });
    t.equal(await leavesOfGaps(s.w.db), fact!.facts['leaves_sha256']);
    await rebuild(s.w.db);
    await s.w.db.unsafe('drop schema runledger_detached cascade');
    t.same(await s.problems(), [], 'though its tables are gone');
    await s.runOne({ id: newId(Date.now() + 70 * DAY_MS) });
    t.match(await seal(s.w.web), [{ events: 4 }], 'the log.repaired event, too');
    await t.rejects(
      s.submitOne({ id: newId() }),
      { message: /set the clock of this machine right/ },
      'a clock that is so far behind would bring the month back',
    );
    const later = Date.now() + 35 * DAY_MS;
    const empty = new Date(later).toISOString().slice(0, 7).replace('-', '_');
    t.equal(await detachMonth(s.w.db, empty), 0);
    await t.rejects(
      s.submitOne({ id: newId(later) }),
      { message: /set the clock of this machine right/ },
      'or a month without events',
    );
  },
);

t.test('a month whose table has events of another month is not detached', async (t) => {
  const s = await scene(t);
  const month = new Date().toISOString().slice(0, 7).replace('-', '_');
  const [later, at] = [newId(Date.now() + 70 * DAY_MS), new Date(Date.now() + 70 * DAY_MS)];
  await s.runOne();
  await s.w.clock.set(at);
  await s.w.db`select runledger.ensure_partitions()`;
  await s.runOne({ id: later });
  await seal(s.w.web);
  // Not the last of that table: the last event is compared with the one that was counted.
  const root = s.w.connect(s.w.database.superuser_url, 1);
  await root
    .unsafe(
      `set session_replication_role = replica;
      create temporary table moved as select * from runledger.events where stream = '${later}';
      update moved set generation = 0;
      update pg_class set relispartition = false where oid = 'runledger.events_${month}'::regclass;
      insert into runledger.events_${month} select * from moved;
      update pg_class set relispartition = true where oid = 'runledger.events_${month}'::regclass;
      reset session_replication_role`,
    )
    .simple();
  const detached = detachMonth(s.w.db, month);
  await t.rejects(detached, {
    message: `${month} cannot be detached: its table has events of ${later}, which is of another month: run ./runledger verify`,
  });
});

/** Appends to the stream of a submission that has ended. */
const refuse = (db: Db, id: string) => db`
  select runledger.append_to_submissions(array[x], '{execution.refused}', runledger.clock(), array[jsonb_build_object(
    'attempt', 1, 'consumer', gen_random_uuid(), 'verdict', 'AC')]) from runledger.submissions x where x.id = ${id}`;

/** Two submissions that have ended, in a month that is over and sealed. */
async function oldMonth(t: { teardown(work: () => unknown): void }) {
  const s = await scene(t);
  const month = new Date().toISOString().slice(0, 7).replace('-', '_');
  const [one, two] = [await s.runOne(), await s.runOne()];
  await seal(s.w.web);
  await s.w.clock.set(new Date(Date.now() + 70 * DAY_MS));
  await s.w.db`select runledger.ensure_partitions()`;
  return { ...s, month, one, two };
}

t.test('a month is not read where its tables cannot be locked', async (t) => {
  const { w, month } = await oldMonth(t);
  await w.db.unsafe(`create or replace function runledger.refuse_contents(
    month text, facts jsonb, firsts bigint[], counts bigint[], to_generation smallint, to_xid xid8) returns void
    language plpgsql as $$ begin raise exception 'it was read'; end $$`);
  const detach = () => w.db`select runledger.detach_month(${month}, '{}', '{}', '{}')`;
  await w.connect(w.database.url, 1).begin(async (tx) => {
    await tx`lock table runledger.deliveries in access share mode`;
    await t.rejects(detach(), { code: '55P03' });
  });
  await t.rejects(detach(), { message: 'it was read' });
});

t.test(
  'an event that is appended while a month waits for its locks is not named as damage',
  async (t) => {
    const { w, month, one, problems } = await oldMonth(t);
    await w.db`alter function runledger.detach_month set lock_timeout = '60s'`;
    let detaching: Promise<unknown> | undefined;
    await w.connect(w.database.url, 1).begin(async (tx) => {
      await tx`lock table runledger.submissions in row exclusive mode`;
      detaching = detachMonth(w.db, month).catch((error) => error);
      await eventually(() => hasWaiter(tx as unknown as Db));
      await refuse(tx as unknown as Db, one);
    });
    t.match(await detaching, { message: /events were appended to it since they were counted$/ });
    await w.db`alter function runledger.detach_month set lock_timeout = '500ms'`;
    await seal(w.web);
    t.equal(await detachMonth(w.db, month), 7);
    t.same(await problems(), []);
  },
);

t.test('an event that commits while a month is read stays in the log', async (t) => {
  const { month, one, two, ...s } = await oldMonth(t);
  const late = s.w.connect(s.w.database.url, 1);
  await late`begin`;
  await refuse(late, one);
  await refuse(s.w.db, two);
  const commits = new Proxy(s.w.db, {
    apply: (db, _, given: [TemplateStringsArray]) => {
      const answer = () => Reflect.apply(db, undefined, given);
      if (!given[0].join('').includes('leaf_tile')) return answer();
      // The events are read, and their leaves are looked up next.
      return (async () => {
        await late`commit`;
        await seal(s.w.web);
        return answer();
      })();
    },
  });
  await t.rejects(detachMonth(commits, month), {
    code: 'RL409',
    message: `${month} cannot be detached: it has 8 events, and 7 were counted: try again`,
  });
  t.equal(await s.count('events', one), 4);
  t.equal(await detachMonth(s.w.db, month), 8);
  t.same(await s.problems(), []);
});

/** The SHA-256 over the leaf hashes at the indexes that log_gaps names. */
async function leavesOfGaps(db: Db): Promise<string> {
  const [row] = await db<{ hex: string }[]>`
    select encode(sha256(string_agg(substr(t.hashes, (i % 256)::integer * 32 + 1, 32), '' order by i)), 'hex') as hex
    from runledger.log_gaps g, generate_series(g.first, g.first + g.count - 1) i
    join runledger.log_tiles t on t.level = 0 and t.index = i / 256`;
  return row!.hex;
}

t.test('what is forgotten is gone, the log stays complete, and verify names each', async (t) => {
  const s = await scene(t);
  const { digest } = await s.w.key({ account: 'asks', tier: 'free' });
  const { submit } = s.w.submissions();
  const ofAsks = async (change = {}) =>
    idOf(await submit({ secret_digest: digest, submission: submission(change) }));
  const end = async (id: string) => {
    await start(s.executions, id);
    await s.executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    return id;
  };
  const one = await s.runOne({ stdin: Buffer.from('a name'), idempotency_key: newId() });
  const other = await s.runOne();
  const [first, waiting] = [
    await end(await ofAsks()),
    await end(await ofAsks({ webhook: webhook() })),
  ];
  const running = await ofAsks();
  await seal(s.w.web);

  t.equal(await forgetSubmission(s.w.db, newId(), 'me'), null);
  t.equal(await forgetAccount(s.w.db, 'nobody', 'me'), null);
  t.same(await forgetSubmission(s.w.db, one, 'me'), {
    ...{ submissions: 1, open: 0, test_sets: 0, test_sets_left: 0, ids: [one] },
  });
  t.equal(await s.count('payloads', one), 0);
  t.equal(await s.count('idempotency', one, 'submission_id'), 1, 'a repeated call runs nothing');
  t.match(await forgetAccount(s.w.db, 'asks', 'me'), { submissions: 1, open: 2, test_sets: 0 });
  t.equal(await s.count('payloads', first), 0);
  t.equal(await s.count('payloads', waiting), 3);
  t.equal(await s.count('payloads', other), 2);
  await end(running);
  t.match(await forgetAccount(s.w.db, 'asks', 'me'), { submissions: 1, open: 1, test_sets: 0 });
  await seal(s.w.web);
  t.same(await s.problems(), []);

  const [account] = await s.w.db`select id from runledger.accounts where name = 'asks'`;
  const believing = async (lines: string) => {
    const given = { policy: alone, removals: parseRemovals(lines) };
    return besides((await verify(s.w.db, given)).problems);
  };
  t.same(await believing(`forgotten ${one}\nforgotten ${account!['id']}\n`), []);
  // The one that waits is open for ever here.
  const again = { submissions: 0, open: 1, test_sets: 0, test_sets_left: 0, ids: [account!['id']] };
  t.same(await forgetAccount(s.w.db, 'asks', 'me'), again, 'the lines of a call that was cut');
  matchLists(t, await believing(`forgotten ${one}\n`), [
    /the policy does not allow: 1 submissions forgotten at .*, of [0-9a-f-]{36}/,
    /the policy does not allow/,
  ]);
  await rebuild(s.w.db);
  await s.w.db`delete from runledger.payloads where stream = ${other} and kind = 'stdout'`;
  matchLists(t, await s.problems(), [
    `payloads: ${other} stdout is missing, and no purge claims it`,
  ]);
  await s.w.db`
    insert into runledger.payloads select ${one}, kind, salt, bytes from runledger.payloads where stream = ${other}`;
  t.match(
    (await s.problems()).find((problem) => problem.includes(one) && /claims/.test(problem)),
    /code is there, and the removal at .* claims that it is gone/,
  );
});

t.test(
  'nothing is forgotten that is of a time to come, after the clock was set back',
  async (t) => {
    const s = await scene(t);
    const noon = new Date();
    await s.w.clock.set(noon);
    const id = await s.runOne();
    await s.w.clock.set(new Date(noon.getTime() - 240_000));
    t.match(await forgetSubmission(s.w.db, id, 'me'), { submissions: 0, open: 1 });
    t.equal(await s.count('payloads', id), 2);
    await s.w.clock.set(new Date(noon.getTime() + 240_000));
    t.match(await forgetSubmission(s.w.db, id, 'me'), { submissions: 1, open: 0 });
    await seal(s.w.web);
    t.same(await s.problems(), []);
  },
);

t.test('verify finds a partition that is missing without an event of its detachment', async (t) => {
  const s = await scene(t);
  await s.runOne();
  await seal(s.w.web);
  const [part] = await s.w
    .db`select tableoid::regclass::text as name from runledger.events where stream < 'f0000000-0000-0000-0000-000000000000' limit 1`;
  await s.w.db.unsafe(`alter table runledger.events detach partition ${part!['name']}`);
  const problems = (await s.problems()).filter((problem) => !problem.startsWith('the schema '));
  t.match(problems[0], /^removed event: \S+ version 1$/);
});

t.test(
  'ids of a month that has no partition stay in the default one, and later months are still created',
  async (t) => {
    const s = await scene(t);
    const month = new Date().toISOString().slice(0, 7).replace('-', '_');
    for (const parent of ['events', 'payloads', 'submissions', 'deliveries'])
      await s.w.db.unsafe(`drop table runledger.${parent}_${month}`);
    const id = await s.runOne();
    const [row] = await s.w
      .db`select tableoid::regclass::text as name from runledger.events where stream = ${id} limit 1`;
    t.equal(row!['name'], 'runledger.events_default');
    await s.w.db`select runledger.ensure_partitions(6)`;
    await s.w.db`select runledger.ensure_partitions(6)`;
    t.same(await s.problems(), []);
    // By name: where the month ends while this runs, there is the partition of one more.
    const [later] = await s.w.db`
      select count(to_regclass('runledger.' || to_char(date_trunc('month', runledger.clock() at time zone 'UTC')
        + make_interval(months => ahead), '"events_"YYYY_MM')))::integer as n
      from generate_series(1, 6) ahead`;
    t.equal(later!['n'], 6);
  },
);
