/** Submissions that are judged: what is stored of the request and of the outcome, and what is read again. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { KINDS_OF } from '../../src/domain/events.ts';
import { renderResult } from '../../src/domain/record.ts';
import { createDeliveries } from '../../src/store/deliveries.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { createResults } from '../../src/store/results.ts';
import { purgePayloads } from '../../src/store/retention.ts';
import { createTestSets } from '../../src/store/test_sets.ts';
import { verify } from '../../src/store/verify.ts';
import { matchLists } from '../support/match_lists.ts';
import { aSet, aTest, judged, judgingOf, outcomes } from './a_set.ts';
import { seal } from './seal_now.ts';
import { besides } from './verified.ts';
import { failed, idOf, outcome, ownerOf, start, submission, webhook, world } from './world.ts';

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const key = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions, id: consumer_id } = await w.consumer();
  const results = createResults(w.web);
  const submitOne = async (change = {}) =>
    idOf(await submit({ secret_digest: key.digest, submission: submission(change) }));
  const read = async (id: string, encoding: 'utf8' | 'base64' = 'utf8') => {
    const answer = await results.read(key.digest, id);
    if (answer.kind !== 'found') throw new Error(answer.kind);
    return renderResult(answer.record, encoding);
  };
  const facts = async (id: string, type: string) => {
    const [row] = await w.db<{ facts: Record<string, unknown> }[]>`
      select facts from runledger.events where stream = ${id} and type = ${type}`;
    return row!.facts;
  };
  // Not of the schema: what a mutant of a function does must be noticed, and not that it was changed.
  const problems = async () =>
    besides((await verify(w.db)).problems).filter((problem) => !problem.startsWith('the schema '));
  return { w, key, submit, submitOne, executions, consumer_id, results, read, facts, problems };
}

const TESTS = { tests: [aTest('1'), aTest('2'), aTest('3')], stop: 'never' } as const;
const judging = () => judgingOf({ ...TESTS, tests: [...TESTS.tests] });
const tokens = { by: 'tokens', case_sensitive: true, absolute: 1e-6, relative: null } as const;

t.test('a worker gets the tests of a request', async (t) => {
  const { submitOne, executions, facts, w, problems } = await scene(t);
  const id = await submitOne({ judging: judging(), compare: tokens });
  const plain = await submitOne();
  const started = await start(executions, id);
  t.equal(started!.unreadable, null);
  t.match(started!.order, { compare: tokens, judging: { stop: 'never', compare: tokens } });
  t.match(started!.order.judging!.tests, [
    { name: '1', input: { bytes: Buffer.from('1') }, answer: { bytes: Buffer.from('4\n') } },
    { name: '2' },
    { name: '3' },
  ]);
  t.match(await start(executions, plain, 2), { order: { judging: null, compare: 'lenient' } });
  t.match(await facts(id, 'submission.accepted'), {
    ...{ tests: 3, stop: 'never', compare: tokens, test_set: undefined },
    bytes: { judging: { size: judging().packed.length } },
  });
  const of_plain = await facts(plain, 'submission.accepted');
  t.notOk('tests' in of_plain || 'stop' in of_plain || 'test_set' in of_plain);
  const [kinds] =
    await w.db`select array_agg(kind) as kinds from runledger.payloads where stream = ${plain}`;
  t.same(kinds!['kinds'], ['code']);
  t.same(await problems(), []);
});

t.test('a plain run takes one statement each to submit, start and end', async (t) => {
  const { w, submit, key, executions } = await scene(t);
  const sent: string[] = [];
  const watch = (db: typeof w.web) => {
    db.options.debug = (_: number, query: string) => void sent.push(query.replace(/\s+/g, ' '));
  };
  watch(w.web);
  watch(w.worker);
  const plain = idOf(await submit({ secret_digest: key.digest, submission: submission() }));
  await start(executions, plain);
  await executions.complete({ submission_id: plain, attempt: 1, outcome: outcome() });
  const [submitted, started, ended] = sent;
  t.match(
    submitted,
    /submit_many\( \$1::text::jsonb, (\$\d::text::bytea\[\], ){3}\$5, \$6, null, \$7\)/,
  );
  t.match(started, /start_many/);
  t.match(ended, /complete_many\(\$1, .*\$6::text::text\[\], \$7::text::bytea\[\]\) as refused/);
  t.same(
    sent.slice(3).filter((statement) => !/pg_notify/.test(statement)),
    [],
  );
});

t.test(
  'a report stores what an execution leaves, and nothing that was sent or is signed',
  async (t) => {
    const { w, submitOne, executions, consumer_id } = await scene(t);
    const id = await submitOne({});
    await start(executions, id);
    const report = (kind: string) => w.worker`
    select runledger.complete_many(${consumer_id}, ${`{${id}}`}::text::uuid[], '{1}',
      ${JSON.stringify([{ status: 'completed', facts: { verdict: 'AC', evidence: {} } }])}::text::jsonb,
      '{1}', ${`{${kind}}`}::text::text[], ${'{"\\\\x41"}'}::text::bytea[])`;
    const kinds = new Set(Object.values(KINDS_OF).flat());
    for (const kind of KINDS_OF['submission.completed']) kinds.delete(kind);
    t.ok(kinds.has('webhook_body') && kinds.has('code'));
    for (const kind of [...kinds, 'another'])
      await t.rejects(report(kind), { code: '22023', message: /parts of another kind/ }, kind);
    const code = readFileSync('sql/functions/complete_many.sql', 'utf8');
    t.ok(code.includes(`'{${KINDS_OF['submission.completed']}}'`), 'SQL has the same list');
  },
);

t.test('the record has the tests, and they are what the log commits to', async (t) => {
  const { w, submitOne, executions, read, facts, problems, results } = await scene(t);
  const id = await submitOne({ judging: judging() });
  await start(executions, id);
  const before = await read(id);
  t.match(before, { tests: null, score: null, files: null, transcript: null, progress: null });
  await executions.complete({
    submission_id: id,
    attempt: 1,
    outcome: outcome({ verdict: 'WA', judged: judged({ transcript: Buffer.from('> 1\n') }) }),
  });
  const record = await read(id);
  t.match(record, { verdict: 'WA', score: 2.5, files: null, transcript: '> 1\n', progress: null });
  t.match(record.tests, [
    {
      n: 1,
      name: 'é"\\u0000',
      group: 'data/secret',
      verdict: 'AC',
      cpu_time: 0.0009,
      message: null,
    },
    { n: 2, verdict: 'WA', message: 'line 3\0is wrong', stdout: 'a\ufffd', stdout_truncated: true },
    { n: 3, verdict: null, exit_code: null, stdout: '' },
  ]);
  t.equal((await read(id, 'base64')).tests![1]!.stdout, 'Yf8=');
  const [waited] = await results.ended([id], true);
  t.same(renderResult(waited!), record);
  t.same(renderResult((await results.record(await ownerOf(w.db, id), id))!), record);
  const said = JSON.stringify(await facts(id, 'submission.completed'));
  for (const text of ['é', 'wrong', 'secret', 'Yf8']) t.notMatch(said, text);
  t.same(Object.keys((await facts(id, 'submission.completed'))['bytes'] as object).sort(), [
    ...['stdout', 'team_messages', 'tests', 'transcript'],
  ]);
  await seal(w.web);
  t.same(await problems(), []);
  const [row] = await w.db`select * from runledger.submissions where id = ${id}`;
  await w.db`update runledger.submissions set tests = null, score = null, judged = null`;
  t.match(await problems(), [/^submissions: /]);
  await rebuild(w.db);
  t.same((await w.db`select * from runledger.submissions where id = ${id}`)[0], row);

  const auditor = w.connect(w.database.urls.auditor, 1);
  t.match(
    await auditor`select * from runledger.audit_tests where submission_id = ${id} order by n`,
    [
      { n: 1, verdict: 'AC', score: 2.5, cpu_time_us: '900' },
      { n: 2, verdict: 'WA', score: null },
      { n: 3, verdict: null },
    ],
  );
  t.match(
    await auditor`select * from runledger.audit_test_messages where submission_id = ${id} order by n`,
    [
      { n: 1, test: 'é"\\ufffd', test_group: 'data/secret', message: null },
      { n: 2, test: '2', message: 'line 3\ufffdis wrong' },
      { n: 3 },
    ],
  );
  t.match(await auditor`select * from runledger.audit_submissions`, [{ score: 2.5 }]);
  t.match(await auditor`select facts, sizes from runledger.audit_timeline order by version`, [
    { facts: { tests: 3, stop: 'never' }, sizes: { judging: Number } },
    {},
    { facts: { score: 2.5, tests: [{ verdict: 'AC' }, {}, {}] }, sizes: { tests: Number } },
  ]);

  await purgePayloads(w.db, new Date());
  t.same(await problems(), []);
  const purged = await read(id);
  t.match(purged, { score: 2.5, transcript: null, files: null });
  t.match(purged.tests![1], { verdict: 'WA', name: null, message: null, stdout: null });
  t.equal((await auditor`select * from runledger.audit_test_messages`).length, 0);
});

t.test('files are kept with a run without tests, and [] says that there was none', async (t) => {
  const { submitOne, executions, read, problems } = await scene(t);
  const run = async (files: { path: string; bytes: Uint8Array }[] | null) => {
    const id = await submitOne({ judging: judgingOf({ outputs: ['*.png'] }) });
    await start(executions, id);
    const kept = judged({ tests: null, score: null, files });
    await executions.complete({
      submission_id: id,
      attempt: 1,
      outcome: outcome({ judged: kept }),
    });
    return read(id);
  };
  t.match(await run([{ path: 'a.png', bytes: Uint8Array.of(0, 255) }]), {
    tests: null,
    files: [{ path: 'a.png', size: 2, content_base64: 'AP8=' }],
  });
  matchLists(t, await run([]), { files: [] });
  t.match(await run(null), { files: null });
  t.same(await problems(), []);
});

t.test('a batch of ends gives each submission its own bytes, and a refused one none', async (t) => {
  const { w, submitOne, executions, read, problems } = await scene(t);
  const others = await w.consumer();
  const [late, plain, tested] = [
    await submitOne({ judging: judging() }),
    await submitOne(),
    await submitOne({ judging: judging() }),
  ];
  await start(others.executions, late, 1);
  await start(executions, plain, 2);
  await start(executions, tested, 3);
  const complete = (submission_id: string, message: string | null) =>
    executions.complete({
      submission_id,
      attempt: 1,
      outcome: outcome({
        judged: message === null ? null : judged({ tests: [{ ...outcomes[0]!, message }] }),
      }),
    });
  t.same(
    await Promise.all([complete(late, 'late'), complete(tested, 'mine'), complete(plain, null)]),
    ['refused', 'ended', 'ended'],
  );
  t.match((await read(tested)).tests, [{ message: 'mine' }]);
  t.match(await read(plain), { verdict: 'AC', tests: null });
  t.match(await read(late), { status: 'running', tests: null });
  const [row] =
    await w.db`select count(*)::integer as n from runledger.payloads where stream = ${late} and kind = 'tests'`;
  t.equal(row!['n'], 0);
  t.same(await problems(), []);
});

t.test('the bytes of a batch of ends do not depend on its order', async (t) => {
  const { submitOne, executions, read, problems } = await scene(t);
  const ids = [await submitOne(), await submitOne({ judging: judging() }), await submitOne()];
  for (const [n, id] of ids.entries()) await start(executions, id, n);
  const complete = (submission_id: string) =>
    executions.complete({
      submission_id,
      attempt: 1,
      outcome: outcome({ stdout: Buffer.from(submission_id), stderr: new Uint8Array() }),
    });
  await Promise.all(ids.toReversed().map(complete));
  for (const id of ids) t.match(await read(id), { stdout: id, stderr: '' });
  t.same(await problems(), []);
});

t.test('a failure of a checker is shown with its tests', async (t) => {
  const { w, submitOne, executions, read, problems } = await scene(t);
  const id = await submitOne({ judging: judging(), webhook: webhook() });
  await start(executions, id);
  const tests = [{ ...outcomes[1]!, verdict: 'IE' as const, message: 'the checker exited with 7' }];
  await executions.complete({
    submission_id: id,
    attempt: 1,
    outcome: { ...failed(), judged: judged({ tests, score: null }) },
  });
  t.match(await read(id), {
    ...{ status: 'error', verdict: 'IE', score: null },
    tests: [{ verdict: 'IE', message: 'the checker exited with 7' }],
  });
  const open = await createDeliveries(w.web).open(id);
  t.match(renderResult(open!.record).tests, [{ message: 'the checker exited with 7' }]);
  t.same(await problems(), []);
});

t.test('progress is that of the attempt that runs, and ends with it', async (t) => {
  const { w, submitOne, executions, read } = await scene(t);
  const others = await w.consumer();
  const id = await submitOne({ judging: judging() });
  await start(executions, id);
  const report = (from: typeof executions, attempt: number, done: number) =>
    from.progress({ submission_id: id, attempt, done, of: 3 });
  await report(executions, 1, 1);
  await report(executions, 1, 2);
  t.same((await read(id)).progress, { done: 2, of: 3 });
  await report(others.executions, 1, 3);
  t.same((await read(id)).progress, { done: 2, of: 3 }, 'another consumer has no say');
  await executions.release([id], 'shutdown');
  t.equal((await read(id)).progress, null);
  await start(others.executions, id, 2);
  t.equal((await read(id)).progress, null, 'a new attempt begins without');
  await report(executions, 1, 3);
  t.equal((await read(id)).progress, null, 'a late report');
  await report(others.executions, 2, 1);
  t.same((await read(id)).progress, { done: 1, of: 3 });
  await others.executions.complete({
    submission_id: id,
    attempt: 2,
    outcome: outcome({ judged: judged() }),
  });
  t.equal((await read(id)).progress, null);
  const [row] = await w.db`select count(*)::integer as n from runledger.progress`;
  t.equal(row!['n'], 0);
});

t.test('a set whose manifest is gone is no plain run', async (t) => {
  const { w, key, submitOne, executions } = await scene(t);
  const [owner] = await w.db<{ account_id: string; key_id: string }[]>`
    select account_id, id as key_id from runledger.keys where id = ${key.id}`;
  const sets = createTestSets(w.web);
  const created = await sets.create({ owner: owner!, ...aSet('one', [Buffer.from('1')]) });
  const { id } = created as { id: string };
  const lost = await submitOne({ judging: judgingOf({ test_set: id, stop: 'first' }) });
  const fine = await submitOne({ judging: judging() });
  await w.db`delete from runledger.payloads where kind = 'manifest'`;
  const both = await Promise.all([start(executions, lost, 1), start(executions, fine, 2)]);
  t.match(both[0], { unreadable: { message: /does not have test set/ }, order: { judging: null } });
  t.match(both[1], { unreadable: null, order: { judging: { stop: 'never' } } });
});
