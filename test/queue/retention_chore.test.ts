/** Retention by itself: what is due goes, hour by hour, and nothing else; and nothing at all while the log is not sealed. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { createLog } from '../../src/log.ts';
import { retaining } from '../../src/queue/retention_chore.ts';
import { exportLog } from '../../src/store/export_log.ts';
import { purgeDue, retentionFacts, setRetention } from '../../src/store/retention.ts';
import { createHealth } from '../../src/store/service_health.ts';
import { verify } from '../../src/store/verify.ts';
import { verifyFile } from '../../src/store/verify_file.ts';
import { seal } from '../store/seal_now.ts';
import { besides, LOG_VERIFIER } from '../store/verified.ts';
import { idOf, newId, outcome, start, submission, type World, world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';

aloneOnItsServer();

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2027, 0, 5, 12);
const log = createLog({ level: 'silent', process: 'test' });

/** `runOne` runs a submission at the time of the clock. */
async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const folder = await mkdtemp(join(tmpdir(), 'runledger-log-'));
  t.teardown(() => rm(folder, { recursive: true }));
  let now_ms = START_MS;
  const goTo = async (at_ms: number) => {
    now_ms = at_ms;
    await w.clock.set(new Date(at_ms));
    await w.db`select runledger.ensure_partitions()`;
  };
  await goTo(START_MS);
  const runOne = async (ahead_ms = 0) => {
    const code = randomBytes(8_000);
    const given = submission({ id: newId(now_ms + ahead_ms), code });
    const id = idOf(await submit({ secret_digest: digest, submission: given }));
    await start(executions, id);
    const stdout = randomBytes(8_000);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome({ stdout }) });
    return id;
  };
  const chore = retaining(() => null, log);
  const round = async () => {
    await chore.run(w.web, new AbortController().signal);
    return (await retentionFacts(w.web)).problem;
  };
  // Nothing of the log is still to come, for verify.
  const atThatTime = async (check: () => Promise<{ problems: string[] }>) => {
    const { now } = Date;
    Date.now = () => now_ms;
    try {
      return besides((await check()).problems);
    } finally {
      Date.now = now;
    }
  };
  const problems = () => atThatTime(() => verify(w.db));
  /** Of the log alone, without the schema, bytes and projections. */
  const logProblems = async () => {
    const path = join(folder, String(now_ms));
    await exportLog(w.db, path);
    const given = { policy: null, keys: [LOG_VERIFIER], removals: null, kept: null };
    return atThatTime(() => verifyFile(path, given)).finally(() => rm(path));
  };
  const count = async (table: string) => {
    const [row] = await w.db.unsafe(
      `select count(*)::integer as n from runledger.${table} where ${table === 'submissions' ? 'id' : 'stream'} < 'f0000000-0000-0000-0000-000000000000'`,
    );
    return row!['n'] as number;
  };
  return { w, goTo, runOne, round, problems, logProblems, count };
}

const days = (n: number) => n * DAY_MS;
const keep = (bytes: number | null, events: number | null) => ({
  keep_bytes_ms: bytes === null ? null : days(bytes),
  keep_events_ms: events === null ? null : days(events),
});

t.test(
  'the disk stays flat over 400 days, and the log is complete on each',
  { timeout: 180_000 },
  async (t) => {
    const s = await scene(t);
    await setRetention(s.w.db, keep(10, 60));
    const sizes: number[] = [];
    for (let day = 0; day < DAYS; day++) {
      await s.goTo(START_MS + days(day));
      await s.runOne();
      await seal(s.w.web);
      const problem = await s.round();
      const log_problems = await s.logProblems();
      if (problem !== null || log_problems.length > 0) t.same({ day, problem, log_problems }, {});
      if (day % 10 === 0) {
        await s.w.db.unsafe('vacuum');
        sizes.push(await sizeOf(s.w));
      }
      if (day % 100 === 99) t.same(await s.problems(), [], `day ${day}`);
    }
    // From the hundredth day on there are two to three months of events, and ten days of bytes.
    const [first, ...later] = sizes.slice(10);
    t.ok(Math.max(...later) < first! * 1.2, `${first} bytes became ${later}`);
    t.equal(await s.count('payloads'), 2 * 10, 'today and the nine days before');
    const [removed] = await s.w.db`
      select count(*)::integer as months, bool_and(actor = 'service') as by_itself
      from runledger.audit_retention where type = 'log.detached'`;
    t.same(removed, { months: 11, by_itself: true });
    const [left] = await s.w.db`
      select count(*)::integer as n from pg_class
      where relnamespace = to_regnamespace('runledger_detached') and relkind = 'r'`;
    t.equal(left!['n'], 0, 'what is sealed is dropped');
  },
);

const DAYS = 400;

/** Without what grows by design: the tree, its checkpoints, and the events that say what was removed. */
async function sizeOf({ db }: World): Promise<number> {
  const [row] = await db<{ bytes: string }[]>`
    select sum(pg_total_relation_size(c.oid)) as bytes from pg_class c
    where c.relkind = 'r' and c.relnamespace in ('runledger'::regnamespace, to_regnamespace('runledger_detached'))
      and c.relname not in ('log_tiles', 'checkpoints', 'log_gaps', 'events_permanent')`;
  return Number(row!.bytes);
}

t.test('bytes go when they are due, also those of an id from a clock that ran ahead', async (t) => {
  const s = await scene(t);
  await s.runOne();
  await s.runOne(days(200));
  await seal(s.w.web);
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 4, 'without a schedule, nothing is removed');
  await setRetention(s.w.db, keep(10, null));
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
        .db`select distinct stream from runledger.payloads where stream < 'f0000000-0000-0000-0000-000000000000'`),
    ],
    [{ stream: young }, { stream: unsealed }],
  );
  await seal(s.w.web);
  t.same(await s.problems(), []);
});

t.test('nothing is removed while the log is not sealed, and health says so', async (t) => {
  const s = await scene(t);
  await setRetention(s.w.db, keep(1, 1));
  await s.runOne();
  await s.goTo(START_MS + days(70));
  t.equal(await s.round(), 'the log has no checkpoint: set RUNLEDGER_SEAL_KEY');
  const { retention_problem } = await createHealth(s.w.web).read();
  t.equal(retention_problem, 'the log has no checkpoint: set RUNLEDGER_SEAL_KEY');
  await seal(s.w.web);
  await s.goTo(START_MS + days(70.5));
  const forked = retaining(() => 'the log has forked', log);
  await forked.run(s.w.web, new AbortController().signal);
  t.match(await retentionFacts(s.w.web), { problem: 'the log is not sealed: the log has forked' });
  t.equal(await s.count('payloads'), 2);
  await s.goTo(START_MS + days(70.6));
  t.equal(await s.round(), null);
  t.equal(await s.count('payloads'), 0);
  await s.goTo(START_MS + days(70.8));
  t.match(await retentionFacts(s.w.web), { problem: 'no round has ended for three hours' });
});

t.test('web can remove nothing that the schedule keeps', async (t) => {
  const s = await scene(t);
  await s.runOne();
  await s.goTo(START_MS + days(70));
  await seal(s.w.web);
  const day = new Date(START_MS + days(69));
  const all = { ended_before: day, upto: 'f0000000-0000-0000-0000-000000000000' };
  const purge = () => purgeDue(s.w.web, { ...all, after: '', problem: null }, NONE);
  const detach = () =>
    s.w.web`select runledger.detach_due('2027_01', '{"events": 0}', '{}', '{}', null, null, null)`;
  await t.rejects(purge(), { code: 'RL409' });
  await t.rejects(detach(), { code: 'RL409' });
  await setRetention(s.w.db, keep(2, 100));
  await t.rejects(purge(), { code: 'RL409' });
  await t.rejects(detach(), { code: 'RL409', message: /the schedule keeps it/ });
  await t.rejects(s.w.web`select runledger.set_retention('1 day', '1 day')`, { code: '42501' });
  await t.rejects(s.w.web`update runledger.retention set keep_bytes = '1 day'`, { code: '42501' });
  t.equal(await s.count('payloads'), 2);
});

const NONE = '00000000-0000-0000-0000-000000000000';

t.test('of two processes one has the round', async (t) => {
  const s = await scene(t);
  await setRetention(s.w.db, keep(1, 30));
  await s.runOne();
  await s.goTo(START_MS + days(90));
  await seal(s.w.web);
  const chores = [retaining(() => null, log), retaining(() => null, log)];
  await Promise.all(chores.map(({ run }) => run(s.w.web, new AbortController().signal)));
  t.same(
    [...(await s.w.db`select type from runledger.audit_retention order by at`)].map(
      ({ type }) => type,
    ),
    ['payloads.purged', 'log.detached', 'log.detached'],
  );
  t.same(await s.problems(), []);
});
