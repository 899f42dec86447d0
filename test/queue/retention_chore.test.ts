/** Retention by itself: what is due goes, hour by hour, and nothing else; and nothing at all while the log is not sealed. */
import { createHash } from 'node:crypto';
import t from 'tap';
import { emptySketch } from '../../src/domain/sketch.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import { retaining } from '../../src/queue/retention_chore.ts';
import { sealingProblem } from '../../src/queue/sealing.ts';
import { VERIFY_LOCK } from '../../src/store/beside_verify.ts';
import { createSealer } from '../../src/store/checkpoints.ts';
import {
  beginRetention,
  detachDue,
  monthDue,
  purgeDue,
  retentionFacts,
  setRetention,
} from '../../src/store/retention.ts';
import { createHealth } from '../../src/store/service_health.ts';
import { seal } from '../store/seal_now.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { inTime } from '../support/eventually.ts';
import { matchLists } from '../support/match_lists.ts';
import { DAY_MS, days, keep, log, retainedLog, START_MONTH, START_MS } from './retained_log.ts';

aloneOnItsServer();

const IN_USE = 'a table is in use: the next round tries again';

t.test('bytes go when they are due, also those of an id from a clock that ran ahead', async (t) => {
  const s = await retainedLog(t);
  await s.runOne();
  await s.runOne(days(0.9));
  await seal(s.w.web);
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 4, 'without a schedule, nothing is removed');
  await setRetention(s.w.db, keep(10, null), 'me');
  await s.goTo(START_MS + days(9));
  const young = await s.runOne();
  await seal(s.w.web);
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 6);
  await s.goTo(START_MS + days(9) + DAY_MS / 48);
  t.equal(await s.round(), null, 'half an hour later there is no round');
  const unsealed = await s.runOne();
  await s.goTo(START_MS + days(11));
  t.equal(await s.round(), 'events are not sealed for more than a day');
  t.equal(await s.count('payloads'), 8);
  await s.goTo(START_MS + days(11) + DAY_MS / 12);
  await seal(s.w.web);
  t.equal(await s.round(), null);
  t.same(
    [
      ...(await s.w
        .db`select distinct stream from runledger.payloads where stream < 'f0000000-0000-0000-0000-000000000000' order by 1`),
    ],
    [{ stream: young }, { stream: unsealed }],
  );
  await seal(s.w.web);
  t.same(await s.problems(), []);
});

t.test('the log says who set the schedule, when it changes', async (t) => {
  const s = await retainedLog(t);
  for (const [n, [bytes, events, operator]] of (
    [
      [null, null, 'nobody'],
      [10, null, 'ada@one'],
      [10, null, 'bob@two'],
      [1, 60, 'bob@two'],
      [null, null, 'ada@one'],
    ] as const
  ).entries()) {
    await s.goTo(START_MS + n * 1000);
    await setRetention(s.w.db, keep(bytes, events), operator);
  }
  const auditor = s.w.connect(s.w.database.urls.auditor, 1);
  t.strictSame(
    [
      ...(await auditor`
        select actor, facts from runledger.audit_commands where type = 'log.retention_set' order by at`),
    ].map(({ actor, facts }) => ({ actor, facts })),
    [
      { actor: 'operator nobody', facts: {} },
      { actor: 'operator ada@one', facts: { keep_bytes_s: 864_000 } },
      { actor: 'operator bob@two', facts: { keep_bytes_s: 86_400, keep_events_s: 5_184_000 } },
      { actor: 'operator ada@one', facts: {} },
    ],
  );
  await seal(s.w.web);
  t.same(await s.problems(), []);
});

t.test('nothing is removed while the log is not sealed, and health says so', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(1, 1), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(70));
  t.equal(await s.round(), 'the log has no checkpoint: set RUNLEDGER_SEAL_KEY');
  const { retention_problem } = await createHealth(s.w.web).read();
  t.equal(retention_problem, 'the log has no checkpoint: set RUNLEDGER_SEAL_KEY');
  await seal(s.w.web);
  await s.goTo(START_MS + days(70.5));
  const forked = retaining(async () => 'the log has forked', log);
  await forked.run(s.w.web, new AbortController().signal);
  t.match(await retentionFacts(s.w.web), { problem: 'the log is not sealed: the log has forked' });
  t.equal(await s.count('payloads'), 2);
  await s.goTo(START_MS + days(70.6));
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 0);
  await s.goTo(START_MS + days(70.8));
  t.match(await retentionFacts(s.w.web), { problem: 'no round has ended for three hours' });
});

t.test('what the database said of a failure is in the log, and not in health', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(1, null), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(3));
  await seal(s.w.web);
  await s.w.db.unsafe('alter function runledger.month_due() rename to hidden');
  const logged: { err: Error }[] = [];
  const noting = Object.assign(Object.create(log), {
    error: (facts: { err: Error }) => logged.push(facts),
  });
  await retaining(async () => null, noting).run(s.w.web, new AbortController().signal);
  const { retention_problem } = await createHealth(s.w.web).read();
  t.equal(retention_problem, "the removal failed: web's log says why");
  t.equal(logged.length, 1);
  t.match(logged[0], { err: { message: /month_due/ } });
});

t.test('web can remove nothing that the schedule keeps', async (t) => {
  const s = await retainedLog(t);
  await s.runOne();
  await s.goTo(START_MS + days(70));
  await seal(s.w.web);
  const day = new Date(START_MS + days(69));
  const all = { ended_before: day, upto: 'f0000000-0000-0000-0000-000000000000' };
  const purge = () => purgeDue(s.w.web, { ...all, after: '', problem: null }, NONE);
  const detach = () =>
    s.w
      .web`select runledger.detach_due(${START_MONTH}, '{"events": 0}', '{}', '{}', null, null, null)`;
  await t.rejects(purge(), { code: 'RL409' });
  await t.rejects(detach(), { code: 'RL409' });
  await setRetention(s.w.db, keep(2, 100), 'me');
  await t.rejects(purge(), { code: 'RL409' });
  await t.rejects(detach(), { code: 'RL409', message: /the schedule keeps it/ });
  await t.rejects(s.w.web`select runledger.set_retention('1 day', '1 day', 'web')`, {
    code: '42501',
  });
  await t.rejects(s.w.web`update runledger.retention set keep_bytes = '1 day'`, { code: '42501' });
  t.equal(await s.count('payloads'), 2);
});

const NONE = '00000000-0000-0000-0000-000000000000';

t.test('of two processes one has the round', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(1, 30), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(90));
  await seal(s.w.web);
  const chores = [retaining(async () => null, log), retaining(async () => null, log)];
  await Promise.all(chores.map(({ run }) => run(s.w.web, new AbortController().signal)));
  const removed = await s.w.db<{ what: string }[]>`
    select coalesce(partition, type) as what from runledger.audit_retention order by at`;
  const each = removed.map(({ what }) => what);
  t.equal(each[0], 'payloads.purged');
  t.ok(each.includes(`events_${START_MONTH}`));
  t.equal(new Set(each).size, each.length, 'everything once');
  t.same(await s.problems(), []);

  await s.goTo(START_MS + days(91));
  const rounds = await Promise.all([beginRetention(s.w.web), beginRetention(s.w.web)]);
  t.equal(rounds.filter((round) => round !== null).length, 1);
  t.equal(await beginRetention(s.w.web), null, 'nor is there another one in the same hour');
});

t.test('a clock that is set back by a year stops no round', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(1, null), 'me');
  await seal(s.w.web);
  await s.goTo(START_MS + days(366));
  t.equal(await s.round(), null);
  await s.goTo(START_MS);
  await s.runOne();
  await seal(s.w.web);
  await s.goTo(START_MS + days(5));
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 0);
});

/** The month of the submission is detached by the schedule, and not dropped yet. */
async function detached(t: { teardown(work: () => unknown): void }) {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(null, 10), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(70));
  await seal(s.w.web);
  await s.round();
  await seal(s.w.web);
  await s.goTo(START_MS + days(70.1));
  return s;
}

t.test('a month that somebody reads is dropped later, and sealing does not wait', async (t) => {
  const s = await detached(t);
  const reader = s.w.connect(s.w.database.url, 1);
  await reader.begin(async (tx) => {
    await tx.unsafe(`select * from runledger_detached.events_${START_MONTH}`);
    t.equal(await inTime(s.round(), 'the end of the round'), IN_USE);
  });
  const there = () => s.w.db`
    select to_regclass(${`runledger_detached.events_${START_MONTH}`}) is not null as there`;
  t.match(await there(), [{ there: true }]);
  await s.goTo(START_MS + days(70.2));
  t.equal(await s.round(), null);
  t.match(await there(), [{ there: false }]);
  t.same(await s.problems(), []);
});

t.test('a month is not dropped while verify runs', async (t) => {
  const s = await detached(t);
  const there = () => s.w.db`
    select to_regclass(${`runledger_detached.events_${START_MONTH}`}) is not null as there`;
  await s.w.connect(s.w.database.url, 1).begin(async (tx) => {
    await tx.unsafe(VERIFY_LOCK);
    t.equal(await inTime(s.round(), 'the end of the round'), IN_USE);
    t.match(await there(), [{ there: true }]);
    await s.goTo(START_MS + days(70.2));
  });
  t.equal(await s.round(), null);
  t.match(await there(), [{ there: false }]);
  await s.w.connect(s.w.database.url, 1).begin(async (tx) => {
    await tx.unsafe(VERIFY_LOCK);
    await s.goTo(START_MS + days(70.3));
    t.equal(await s.round(), null, 'without such a month, nothing waits for verify');
  });
});

t.test('the event of a month has nothing that web made up', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(null, 10), 'me');
  await s.goTo(START_MS + days(70));
  await seal(s.w.web);
  const due = (await monthDue(s.w.web))!;
  const sketch = emptySketch().toString('base64');
  const leaves_sha256 = createHash('sha256').digest('hex');
  const none = { events: 0, sketch, leaves_sketch: sketch, leaves_sha256 };
  const facts = JSON.stringify({ ...none, operator: 'me@host', more: 1, scheduled: false });
  await s.w.web`
    select runledger.detach_due(${due.month}, ${facts}::text::jsonb, '{}', '{}')`;
  const [event] = await s.w.db`
    select facts from runledger.events where type = 'log.detached'`;
  const partition = `events_${due.month}`;
  t.same(event!['facts'], { ...none, scheduled: true, partition });
});

t.test('a month is detached only as the log has it', async (t) => {
  const s = await retainedLog(t);
  await s.runOne();
  await s.runOne();
  await setRetention(s.w.db, keep(null, 10), 'me');
  await s.goTo(START_MS + days(70));
  await seal(s.w.web);
  const dueNow = async () => (await monthDue(s.w.web))!.month;
  let month = await dueNow();
  for (; month !== START_MONTH; month = await dueNow()) await detachDue(s.w.web, month);
  const said: string[][] = [];
  const listening = new Proxy(s.w.web, {
    apply: (db, _, [strings, ...values]: [TemplateStringsArray, ...never[]]) => {
      if (!strings.join('').includes('detach_due')) return db(strings, ...values);
      said.push((values[1] as unknown as { args: string[] }).args);
      return Promise.resolve();
    },
  });
  await detachDue(listening, month);
  const [facts, firsts, counts] = said[0]!.slice(-3) as [string, string, string];
  const detach = (change: object, first = firsts, count = counts) =>
    s.w.web`
      select runledger.detach_due(${month}, ${JSON.stringify({ ...JSON.parse(facts), ...change })}::text::jsonb,
        ${first}::text::bigint[], ${count}::text::bigint[])`;
  const form = { code: 'RL409', message: /does not have the form of its facts/ };
  await t.rejects(detach({ events: '6' }), form);
  await t.rejects(detach({ events: null }), form);
  await t.rejects(detach({ sketch: '' }), form);
  await t.rejects(detach({ leaves_sketch: 'AAAA' }), form);
  await t.rejects(detach({ leaves_sha256: 'x' }), form);
  await t.rejects(detach({ events: 5 }), { message: /not all in the tree/ });
  await t.rejects(detach({ events: 0 }, '{}', '{}'), {
    code: 'RL409',
    message: /it has 6 events, and 0 were counted: try again/,
  });
  const leaves = { code: 'RL409', message: /its events are not the leaves that are named/ };
  await t.rejects(detach({ leaves_sha256: '0'.repeat(64) }), leaves);
  await t.rejects(detach({}, '{0}', '{6}'), leaves);
  await t.rejects(detach({}, '{-6}', '{6}'), leaves);
  await t.rejects(detach({}, '{900}', '{6}'), leaves);
  await t.rejects(detach({}, '{10,9}', '{3,3}'), leaves);
  await t.rejects(detach({}, '{1,1}', '{-1,7}'), leaves);
  t.equal(await s.round(), null);
  t.match(
    await s.w
      .db`select facts ->> 'events' as n from runledger.events where type = 'log.detached' and facts ->> 'partition' = ${`events_${month}`}`,
    [{ n: '6' }],
  );
});

t.test('a process that has sealed nothing yet looks first whether it may', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(1, null), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(3));
  await seal(s.w.web);
  const foreign = createLogKey(Buffer.alloc(32, 8));
  const chore = retaining((db) => sealingProblem(createSealer(foreign), db), log);
  await chore.run(s.w.web, new AbortController().signal);
  const { problem } = await retentionFacts(s.w.web);
  t.match(problem, /^the log is not sealed: checkpoint 1 of \S+ is not signed by our key/);
  t.equal(await s.count('payloads'), 2);
});

/** As the owner can, past the commands and the log. */
const setRow = (s: Awaited<ReturnType<typeof retainedLog>>, row: string) =>
  s.w.db.unsafe(`update runledger.retention set began_at = null, ${row}`);

t.test('verify names a schedule that nobody set, and bytes that went by it', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(30, null), 'ada@one');
  await s.runOne();
  await s.goTo(START_MS + days(40));
  await seal(s.w.web);
  t.equal(await s.round(), null);
  await s.runOne();
  await s.goTo(START_MS + days(45));
  await seal(s.w.web);
  t.same(await s.problems(), []);
  await setRow(s, `keep_bytes = '1 day'`);
  t.same(await s.problems(), [
    'schedule of retention: it is {"keep_bytes_s":86400} and should be {"keep_bytes_s":2592000}',
  ]);
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 0);
  await setRow(s, `keep_bytes = '30 days'`);
  await seal(s.w.web);
  const of_claim =
    /^the purge at \S+ by the schedule is of submissions that ended before \S+, and the log says that bytes were kept for 30 days$/;
  matchLists(t, await s.problems(), [of_claim]);
  matchLists(t, await s.logProblems(), [of_claim]);
});

t.test('verify names months that went by a schedule that nobody set', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(30, null), 'ada@one');
  await s.runOne();
  await s.goTo(START_MS + days(40));
  await seal(s.w.web);
  await setRow(s, `keep_events = '1 day'`);
  t.match(await s.problems(), [
    'schedule of retention: it is {"keep_events_s":86400} and should be {"keep_events_s":null}',
  ]);
  t.equal(await s.round(), null);
  await setRow(s, 'keep_events = null');
  await seal(s.w.web);
  for (const problems of [await s.problems(), await s.logProblems()])
    matchLists(t, problems.slice(-1), [
      new RegExp(
        `^events_${START_MONTH} was detached at \\S+ by the schedule, and the log says that events were kept for ever$`,
      ),
    ]);
});

t.test('what a schedule removed while it was replaced is no problem', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(1, null), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(1.5));
  await s.runOne();
  await s.goTo(START_MS + days(3));
  await seal(s.w.web);
  await setRetention(s.w.db, keep(30, null), 'me');
  const purge = (ended_before: Date) =>
    s.w.db`select * from runledger.purge_payloads(${ended_before}, scheduled => true)`;
  await purge(new Date(START_MS + days(1)));
  t.same(await s.problems(), []);
  await s.goTo(START_MS + days(3) + DAY_MS / 12);
  await purge(new Date(START_MS + days(2)));
  matchLists(t, await s.problems(), [/ by the schedule is of submissions that ended before /]);
});

t.test('nothing goes by a schedule that was never set', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(null, null), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(3));
  await seal(s.w.web);
  await setRow(s, `keep_bytes = '1 day'`);
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 0);
  await setRow(s, 'keep_bytes = null');
  await seal(s.w.web);
  matchLists(t, await s.problems(), [/ by the schedule .* bytes were kept for ever$/]);
});

t.test('a removal that began before two changes of the schedule is no problem', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(1, null), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(3));
  await seal(s.w.web);
  for (const bytes of [40, 30]) await setRetention(s.w.db, keep(bytes, null), 'me');
  const upto = new Date(START_MS + days(1));
  await s.w.db`select * from runledger.purge_payloads(${upto}, scheduled => true)`;
  t.same(await s.problems(), []);
});

t.test('bytes that wait for a time to come hold up no month', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(1, 30), 'me');
  await s.runOne();
  await s.goTo(START_MS + days(40));
  await seal(s.w.web);
  await s.w.db.unsafe(`create or replace function runledger.purge_due(
    ended_before timestamptz, after uuid, upto uuid, most integer, out submissions integer, out last_id uuid
  ) language plpgsql security definer as $$ begin raise exception 'still to come' using errcode = 'RL409'; end $$`);
  t.equal(await s.round(), "bytes cannot be removed yet: web's log says why");
  t.ok((await s.w.db`select from runledger.events where type = 'log.detached'`).length > 0);
});

t.test('a schedule from before the log had it is there after the next migration', async (t) => {
  const s = await retainedLog(t);
  await setRow(s, `keep_bytes = '1 day'`);
  await s.runOne();
  await s.goTo(START_MS + days(3));
  await seal(s.w.web);
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 0);
  await s.w.db`select runledger.adopt_retention()`;
  await seal(s.w.web);
  t.same(await s.problems(), []);
  for (let n = 0; n < 2; n++) await setRetention(s.w.db, keep(1, null), 'me');
  const events = await s.w.db`select from runledger.events where type = 'log.retention_set'`;
  t.equal(events.length, 1);
  await seal(s.w.web);
  t.same(await s.problems(), []);
});
