/** The one function from a row and an event to the next row, and what uses it. */
import t from 'tap';
import { eventTypes } from '../../src/domain/events.ts';
import { STATUS_NAMES } from '../../src/domain/statuses.ts';
import { verdictsWith } from '../../src/domain/verdicts.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { createTestSets } from '../../src/store/test_sets.ts';
import { verify } from '../../src/store/verify.ts';
import { aSet, judged, judgingOf } from '../store/a_set.ts';
import { mayCome } from '../store/oracle.ts';
import {
  failed,
  idOf,
  outcome,
  start,
  submission,
  type World,
  webhook,
  world,
} from '../store/world.ts';

const SOMEBODY = 'd5878fba-2e0c-4f31-a614-7160c2c48760';
const check = (w: World) => verify(w.db, { head: null, signers: [] });

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const key = await w.key({ tier: 'free' });
  const { digest } = key;
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const submitOne = async (change = {}) =>
    idOf(await submit({ secret_digest: digest, submission: submission(change) }));
  return { w, key, submitOne, executions };
}

t.test('an event that must not follow, or leaves a gap, raises', async (t) => {
  const { w } = await scene(t);
  const next = (status: string, version: number, type: string) => w.db`
    select runledger.next_submission(
      jsonb_populate_record(null::runledger.submissions, ${w.db.json(
        status === 'none' ? {} : { status, version: 7, attempts: 1, deaths: 0 },
      )}), ${SOMEBODY}, ${version}, ${type}, now(), '{"counts": false}')`;
  for (const status of ['none', ...STATUS_NAMES] as const)
    for (const type of [...Object.keys(eventTypes), 'moon.landed']) {
      const version = status === 'none' ? 1 : 8;
      const what = `${type} in ${status}`;
      if (mayCome(status, type)) t.ok(await next(status, version, type), what);
      else await t.rejects(next(status, version, type), { code: 'RL422' }, what);
    }
  await t.rejects(next('pending', 9, 'execution.started'), { code: 'RL422' }, 'a gap');
  await t.rejects(
    next('pending', 7, 'execution.started'),
    { code: 'RL422' },
    'the same version again',
  );
});

t.test('every column has its value from an event, and live writes store all of them', async (t) => {
  const { w, key, submitOne, executions } = await scene(t);
  const [owner] = await w.db<{ account_id: string; key_id: string }[]>`
    select account_id, id as key_id from runledger.keys where id = ${key.id}`;
  const set = aSet('one', [Buffer.from('1')]);
  const created = await createTestSets(w.web).create({ owner: owner!, ...set });
  const test_set = (created as { id: string }).id;
  const id = await submitOne({ webhook: webhook(), judging: judgingOf({ test_set }) });
  await start(executions, id);
  const compile = {
    cpu_time_us: 1,
    wall_time_us: 2,
    memory_peak_bytes: 3,
    exit_code: 0,
    cached: false,
  };
  await executions.complete({
    submission_id: id,
    attempt: 1,
    outcome: outcome({
      verdict: 'SIG',
      exit_code: 139,
      signal: 'SIGSEGV',
      compile,
      stdout_truncated: true,
      limits: { cpu_ms: 5 },
      limit_exceeded: 'processes',
      judged: judged(),
    }),
  });
  const [stored] = await w.db`select * from runledger.submissions where id = ${id}`;
  for (const [column, value] of Object.entries(stored!)) t.not(value, null, column);
  const [folded] = await w.db`select * from runledger.fold_submissions(array[${id}]::uuid[])`;
  t.same(stored, folded);
  t.match(stored, {
    status: 'completed',
    verdict: 'SIG',
    signal: 'SIGSEGV',
    compile,
    stdout_truncated: true,
  });
});

t.test('the report of an end cannot change what was set before it', async (t) => {
  const { w, submitOne, executions } = await scene(t);
  const id = await submitOne();
  await start(executions, id);
  const [before] = await w.db`select * from runledger.submissions where id = ${id}`;
  const { version, status, ...set } = Object.fromEntries(
    Object.entries(before!).filter(([, value]) => value !== null),
  );
  const forged = Object.fromEntries(
    Object.entries({ ...set, version, status }).map(([column, value]) => [
      column,
      typeof value === 'number' ? 77 : value instanceof Date ? new Date(0) : SOMEBODY,
    ]),
  );
  const facts = {
    ...forged,
    ...{ has_webhook: true, status: 'completed', verdict: 'AC', test_set: SOMEBODY, judged: true },
  };
  const [after] = await w.db`
    select (n.row).* from runledger.submissions s cross join lateral (select runledger.next_submission(
      s, s.id, s.version + 1, 'submission.completed', now(), ${w.db.json(facts as never)}) as row) n
    where s.id = ${id}`;
  t.match(after, { ...set, version: version + 1, status: 'completed', verdict: 'AC' });
  t.match(after, { test_set: null, judged: null });
});

t.test('what the service failed at has the verdict of status error', async (t) => {
  const { w, submitOne, executions } = await scene(t);
  const rowOf = async (id: string) => {
    const [row] = await w.db`
      select status, verdict, stdout_truncated as stdout_cut, stderr_truncated as stderr_cut
      from runledger.submissions where id = ${id}`;
    return row;
  };
  const verdict = verdictsWith('error')[0];
  t.equal(verdictsWith('error').length, 1);
  for (const stderr_truncated of [false, true]) {
    const id = await submitOne();
    await start(executions, id);
    const report = { ...failed(), stderr_truncated };
    await executions.complete({ submission_id: id, attempt: 1, outcome: report });
    t.same(await rowOf(id), {
      ...{ status: 'error', verdict, stdout_cut: false, stderr_cut: stderr_truncated },
    });
  }
  const waiting = await submitOne();
  await w.db`select runledger.expire_pending(interval '-1 hour')`;
  const none = { status: 'error', verdict, stdout_cut: false, stderr_cut: false };
  t.same(await rowOf(waiting), none, 'without a report, so that no output was cut');
});

t.test('a log with an impossible history is reported, and not rebuilt', async (t) => {
  const { w, submitOne } = await scene(t);
  const id = await submitOne();
  await w.db`select runledger.append_events(${id}, 1, '{execution.lost}',
    array[${w.db.json({ attempt: 1, consumer: SOMEBODY, reason: 'shutdown', counts: false, evidence: {} })}]::jsonb[], '{2}')`;
  const { well, problems, comparisons } = await check(w);
  t.notOk(well);
  t.same(problems, [
    `submissions: stream ${id} version 2: execution.lost cannot follow here, where the status is pending`,
  ]);
  t.ok(comparisons.length > 10, 'and all else is compared');
  const before = await w.db`select * from runledger.submissions`;
  await t.rejects(rebuild(w.db), { code: 'RL422' });
  t.same(await w.db`select * from runledger.submissions`, before);
});

t.test('two late reports of one submission in one batch are both recorded', async (t) => {
  const { w, submitOne, executions } = await scene(t);
  const id = await submitOne();
  const late = (attempt: number) =>
    executions.complete({ submission_id: id, attempt, outcome: outcome() });
  // The first call goes alone; those that come while it is under way go together.
  t.same(await Promise.all([late(1), late(2), late(3)]), ['refused', 'refused', 'refused']);
  const [row] = await w.db`select status, version from runledger.submissions where id = ${id}`;
  t.same(row, { status: 'pending', version: 4 });
  t.same((await check(w)).problems, []);
});
