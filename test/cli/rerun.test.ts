/** Reruns, with a worker that answers what the test says. test/cli/serve.test.ts has one with a real worker. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { NO_RESULT } from '../../src/cli/command.ts';
import { SAY_AFTER_MS } from '../../src/cli/rerun_all.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../../src/judging/execution.ts';
import { notRun } from '../../src/judging/outcome.ts';
import { unpackRequest } from '../../src/judging/packed_request.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { forgetAccount, purgePayloads } from '../../src/store/retention.ts';
import { createTestSets } from '../../src/store/test_sets.ts';
import { verify } from '../../src/store/verify.ts';
import { aSet, aTest, judged, judgingOf } from '../store/a_set.ts';
import { besides } from '../store/verified.ts';
import { idOf, outcome, start, submission, type World, webhook, world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { matchLists } from '../support/match_lists.ts';
import { runledger } from './command_line.ts';

aloneOnItsServer();

type Answer = (n: number) => Partial<ExecutionOutcome> | Promise<Partial<ExecutionOutcome>>;

/**
 * `answers`: by the code of a submission, the outcome of its n-th run of all; others are left alone. `together`: those that
 * run end when so many do.
 */
async function scene(
  t: { teardown(work: () => unknown): void },
  answers: Record<string, Answer>,
  together = () => 1,
) {
  const w = await world(t);
  const key = await w.key({ account: 'acme' });
  const { executions } = await w.consumer();
  const runs = new Map<string, number>();
  /** By the id of a submission, what the worker got. */
  const orders = new Map<string, ExecutionOrder>();
  const running = new Map<string, ExecutionOutcome>();
  let most_running = 0;
  let closed = false;
  const work = async () => {
    while (!closed) {
      const rows = await w.db<{ id: string; code: Uint8Array }[]>`
        select s.id, p.bytes as code from runledger.submissions s
        join runledger.payloads p on p.stream = s.id and p.kind = 'code' where s.status = 'pending'`;
      for (const { id, code } of rows) {
        const text = Buffer.from(code).toString();
        if (answers[text] === undefined) continue;
        const n = runs.get(text) ?? 0;
        runs.set(text, n + 1);
        orders.set(id, (await start(executions, id))!.order);
        running.set(id, outcome(await answers[text](n)));
      }
      most_running = Math.max(most_running, running.size);
      if (running.size >= together()) {
        for (const [submission_id, answer] of running)
          await executions.complete({ submission_id, attempt: 1, outcome: answer });
        running.clear();
      }
      // The real clock: no heartbeat comes from this worker.
      await w.db`update runledger.consumers set heartbeat_at = runledger.clock()`;
      await wait(5);
    }
  };
  const working = work();
  t.teardown(async () => {
    closed = true;
    await working;
  });
  const submit = async (code: string, change = {}) => {
    const given = submission({ code: Buffer.from(code), ...change });
    const id = idOf(await w.submissions().submit({ secret_digest: key.digest, submission: given }));
    await until(() => isOver(id));
    return id;
  };
  const isOver = async (id: string) => {
    const [row] = await w.db`select completed_at from runledger.submissions where id = ${id}`;
    return row!['completed_at'] !== null;
  };
  const rerun = (...args: string[]) =>
    runledger(['rerun', ...args], { DATABASE_URL: w.database.url });
  return { w, key, submit, rerun, orders, mostRunning: () => most_running };
}

type Scene = Awaited<ReturnType<typeof scene>>;

async function ownerOf({ w, key }: Scene, key_id = key.id) {
  const [owner] = await w.db<{ account_id: string; key_id: string }[]>`
    select account_id, id as key_id from runledger.keys where id = ${key_id}`;
  return owner!;
}

const text = (bytes: string) => ({ stdout: Buffer.from(bytes) });

t.test('what changed is printed, and nothing of the originals is', async (t) => {
  const s = await scene(t, {
    same: () => ({}),
    broken: (n) => (n === 0 ? {} : { verdict: 'RE', exit_code: 1, ...text('') }),
    random: (n) => text(`${n}`),
    slower: (n) => ({ cpu_time_us: n === 0 ? 100_000 : 400_000 }),
    'slow once': (n) => ({ cpu_time_us: n === 1 ? 400_000 : 100_000 }),
  });
  const ids: Record<string, string> = {};
  for (const code of ['same', 'broken', 'random', 'slower', 'slow once'])
    ids[code] = await s.submit(code, {
      stdin: Buffer.from('in'),
      args: ['a', 'b'],
      expected_output: Buffer.from('1\n'),
      limits: { cpu_ms: 1000 },
      webhook: code === 'same' ? webhook() : null,
    });
  const before = await s.w.db`select * from runledger.submissions order by id`;

  const { status, stdout, stderr } = await s.rerun('--json');
  t.equal(stderr, '');
  t.equal(status, 1, 'something changed');
  const all: { submission: string; reruns: { id: string }[] }[] = JSON.parse(stdout);
  const of = (code: string) => all.find(({ submission }) => submission === ids[code]);
  matchLists(t, of('same'), { changed: [], differs: [], reruns: { length: 1 } });
  matchLists(t, of('broken'), {
    changed: ['verdict', 'exit code', 'output'],
    reruns: { length: 3 },
  });
  matchLists(t, of('random'), { changed: [], differs: ['output'], reruns: { length: 3 } });
  matchLists(t, of('slower'), { changed: ['cpu'], reruns: { length: 3 } });
  matchLists(t, of('slow once'), { changed: [], differs: ['cpu'], reruns: { length: 2 } });

  t.same(
    await s.w.db`
      select x.* from runledger.submissions x join runledger.accounts a on a.id = x.account_id
      where a.name = 'acme' order by x.id`,
    before,
    'the originals are as they were',
  );
  const rerun_id = of('same')!.reruns[0]!.id;
  const [accepted] = await s.w.db`
    select facts, (select array_agg(kind order by kind) from runledger.payloads where stream = ${rerun_id}) as kinds
    from runledger.events where stream = ${rerun_id} and version = 1`;
  t.match(accepted, {
    facts: {
      rerun_of: ids['same'],
      operator: String,
      limits: { cpu_ms: 1000 },
      compare: 'lenient',
    },
    kinds: ['args', 'code', 'expected_output', 'stdin', 'stdout'],
  });
  t.notOk('webhook' in accepted!['facts'], 'no webhook');
  const [deliveries] = await s.w.db`select count(*)::integer as n from runledger.deliveries`;
  t.equal(deliveries!['n'], 1, 'that of the original');
  const [usage] = await s.w.db`select hits_us from runledger.key_usage where key_id = ${s.key.id}`;
  t.equal(usage!['hits_us'].length, 5, 'the rate of the account is not spent');

  const again = await s.rerun('--limit', '1', '--verdict', 'AC', '--language', 'python');
  t.match(again, {
    status: 0,
    stdout: /^\S+ +acme +python +\(differs|^1 submissions: 1 the same/m,
  });
  const others = [
    ['--verdict', 'WA'],
    ['--language', 'cpp'],
    ['--to', '2001-01-01T00:00:00Z'],
    ['--from', '2101-01-01T00:00:00Z'],
  ];
  for (const filter of others)
    t.match(
      await s.rerun(...filter),
      {
        ...{ status: NO_RESULT, stdout: /^0 submissions: / },
        stderr: 'nothing was compared: no submission fits\n',
      },
      `${filter}`,
    );
  t.match(await s.rerun('--account', 'nobody'), {
    ...{ status: NO_RESULT, stdout: '' },
    stderr: 'there is no account nobody\n',
  });
  t.match(await s.rerun('--language', 'cobol'), { status: 2, stderr: /--language must be one of/ });
  t.match(await s.rerun('--from', 'today'), { status: 2, stderr: /--from must be a time such as/ });
  await rebuild(s.w.db);
  t.same(besides((await verify(s.w.db)).problems), []);

  await s.w.db`delete from runledger.webhook_secrets`;
  await forgetAccount(s.w.db, 'acme', 'me');
  const [left] = await s.w.db`
    select count(*)::integer as n from runledger.payloads p join runledger.submissions x on x.id = p.stream
    where x.account_id <> (select account_id from runledger.submissions where id = ${ids['same']!})`;
  t.equal(left!['n'], 0, 'what is forgotten is forgotten in reruns, too');
  const { problems } = await verify(s.w.db);
  t.same(
    problems.filter((problem) => problem.startsWith('the log claims')),
    [],
    'the account’s own, and its reruns',
  );
});

t.test('what cannot be run again is counted, with the reason', async (t) => {
  const s = await scene(t, { same: () => ({}) });
  await s.submit('same');
  await s.submit('same', { language: 'java' }).catch(() => {});
  await s.w.clock.advance(100 * 86_400_000);
  await purgePayloads(s.w.db, new Date(Date.now() + 86_400_000));
  const { status, stdout, stderr } = await s.rerun();
  t.equal(status, NO_RESULT);
  t.match(stdout, /2 submissions: 0 the same, 0 changed, 0 differ from run to run, 2 left out/);
  t.match(stdout, /2 left out: its bytes were removed/);
  t.equal(stderr, 'nothing was compared: each submission was left out\n');
});

t.test('what is left out after its first rerun is counted once', async (t) => {
  const s = await scene(t, {
    same: () => ({}),
    broken: async (n) => {
      if (n > 0) await s.w.db`delete from runledger.payloads where stream = ${broken}`;
      return n === 0 ? {} : { verdict: 'RE', exit_code: 1 };
    },
  });
  await s.submit('same');
  const broken = await s.submit('broken');
  t.match(await s.rerun(), {
    status: 0,
    stdout:
      /^2 submissions: 1 the same, 0 changed, 0 differ from run to run, 1 left out\n1 left out: its bytes were removed\n$/,
  });
});

t.test('a script tells a change from what could not be done', async (t) => {
  const s = await scene(t, { broken: (n) => (n === 0 ? {} : { verdict: 'RE', exit_code: 1 }) });
  await s.submit('broken');
  t.match(await s.rerun(), { status: 1, stdout: /^1 submissions: 0 the same, 1 changed/m });
  const nowhere = { DATABASE_URL: 'postgres://127.0.0.1:9/none' };
  t.match(await runledger(['rerun'], nowhere), { status: NO_RESULT, stdout: '' });
});

t.test('judged submissions are judged again by the same request', async (t) => {
  const testsOf = (...verdicts: ('AC' | 'WA')[]) => ({
    verdict: verdicts.find((verdict) => verdict !== 'AC') ?? ('AC' as const),
    judged: judged({
      tests: verdicts.map((verdict, n) => ({
        ...notRun({ n: n + 1, name: `${n + 1}`, group: '' }),
        verdict,
      })),
    }),
  });
  const s = await scene(t, {
    own: () => testsOf('AC', 'AC'),
    interactive: () => testsOf('AC'),
    'of a set': (n) => (n === 0 ? testsOf('WA', 'AC') : testsOf('WA', 'WA')),
    'of a lost set': () => testsOf('AC'),
  });
  const owner = await ownerOf(s);
  const sets = createTestSets(s.w.web);
  const setOf = async (name: string) => {
    const made = await sets.create({ owner, ...aSet(name, [Buffer.from(name)]) });
    return (made as { id: string }).id;
  };
  const [kept, lost] = [await setOf('kept'), await setOf('lost')];
  const ids = [
    await s.submit('own', {
      judging: judgingOf({ tests: [aTest('1'), aTest('2')], stop: 'never' }),
      compare: { by: 'tokens', case_sensitive: true, absolute: 1e-6, relative: null },
      limits: { cpu_time_ms: 1500 },
      args: ['a'],
    }),
    await s.submit('interactive', {
      judging: judgingOf({
        tests: [aTest('1')],
        stop: 'first',
        interactor: {
          ...{ language: 'python', source: 'talk.py', protocol: 'testlib' },
          files: [{ path: 'talk.py', bytes: Buffer.from('# talks') }],
        },
        transcript: true,
      }),
    }),
    await s.submit('of a set', { judging: judgingOf({ test_set: kept, stop: 'never' }) }),
  ];
  const without = await s.submit('of a lost set', { judging: judgingOf({ test_set: lost }) });
  t.equal(await sets.remove(owner, lost), 'removed');

  const { status, stdout, stderr } = await s.rerun('--json', '--at-once', '2');
  t.equal(stderr, '');
  t.equal(status, 1);
  const all: { submission: string; reruns: { id: string }[] }[] = JSON.parse(stdout);
  const of = (id: string) => all.find(({ submission }) => submission === id)!;
  matchLists(t, of(ids[0]!), { changed: [], differs: [], before: { tests: ['AC', 'AC'] } });
  matchLists(t, of(ids[1]!), { changed: [], differs: [], reruns: { length: 1 } });
  matchLists(t, of(ids[2]!), { changed: ['tests'], reruns: { length: 3 } });
  t.match(of(without), { not_run: 'its test set was deleted', reruns: { length: 0 } });
  for (const id of ids)
    for (const rerun of of(id).reruns) {
      const [ours, theirs] = [s.orders.get(id)!, s.orders.get(rerun.id)!];
      t.not(theirs.account_id, ours.account_id, 'nothing cached is shared');
      const { submission_id, account_id } = ours;
      t.same({ ...theirs, submission_id, account_id }, ours);
      t.ok(theirs.judging);
    }
  await rebuild(s.w.db);
  t.same(besides((await verify(s.w.db)).problems), []);
});

t.test('what a wrong test set judged is judged by another one', async (t) => {
  // A score only where the set has one.
  const by = (verdict: 'AC' | 'WA', score: number | null, stdout: string, of = 1) => ({
    ...{ verdict, cpu_time_us: of * 1_000_000, ...text(stdout) },
    judged: judged({
      tests: Array.from({ length: of }, (_, n) => ({
        ...notRun({ n: n + 1, name: `${n + 1}`, group: '' }),
        verdict: n === 0 ? verdict : ('AC' as const),
      })),
      score,
    }),
  });
  const s = await scene(t, {
    right: (n) => (n === 0 ? by('WA', 0, '1') : by('AC', 1, '2', 2)),
    better: (n) => by('AC', n === 0 ? 0.5 : 1, '1'),
    'as before': (n) => by('WA', 0, `${n}`, 2),
    'of another problem': () => by('AC', null, '1'),
  });
  const owner = await ownerOf(s);
  const sets = createTestSets(s.w.web);
  const made = async (name: string, of = owner) =>
    ((await sets.create({ owner: of, ...aSet(name, [Buffer.from(name)]) })) as { id: string }).id;
  const [wrong, mended, other] = [await made('wrong'), await made('mended'), await made('other')];
  const submit = (code: string, test_set: string, change = {}) =>
    s.submit(code, { judging: judgingOf({ test_set, stop: 'never', ...change }) });
  const first = {
    right: await submit('right', wrong, { stdout_file: 'out.txt' }),
    better: await submit('better', wrong),
    'as before': await submit('as before', wrong),
  };
  await submit('of another problem', other);
  const originals = () => s.w.db`
    select * from runledger.submissions where account_id = ${owner.account_id} order by id`;
  const before = await originals();

  const filtered = await s.rerun('--test-set', other);
  t.match(filtered, { status: 0, stdout: /^1 submissions: 1 the same/, stderr: '' });

  t.equal(await sets.remove(owner, wrong), 'removed', 'it may be gone: the record names it');
  const args = ['--test-set', wrong.toUpperCase(), '--with-test-set', mended];
  const { status, stdout, stderr } = await s.rerun(...args);
  t.same({ status, stderr }, { status: 1, stderr: '' });
  const lines = stdout.split('\n').map((line) => line.replace(/ {2,}/g, '  '));
  t.same(lines, [
    'submission  account  language  changed  verdict  score',
    `${first.better}  acme  python  score  AC  0.5 -> 1`,
    `${first.right}  acme  python  verdict, score  WA -> AC  0 -> 1`,
    '3 submissions: 1 the same, 2 changed, 0 differ from run to run, 0 left out',
    '',
  ]);
  t.same(await originals(), before, 'nothing of the originals changes');
  const json = JSON.parse((await s.rerun(...args, '--json')).stdout);
  const found = json.find(({ submission }: { submission: string }) => submission === first.right);
  t.match(found, { test_set: wrong, before: { score: 0 } });
  t.equal(found.reruns[0].score, 1);
  const [facts] = await s.w.db<{ test_set: string; judging: Buffer }[]>`
    select e.facts ->> 'test_set' as test_set, p.bytes as judging from runledger.log e
    join runledger.payloads p on p.stream = e.stream and p.kind = 'judging'
    where e.stream = ${found.reruns[0].id} and e.version = 1`;
  t.equal(facts!.test_set, mended);
  t.match(unpackRequest(facts!.judging), { test_set: mended, stdout_file: 'out.txt' });

  t.match(await s.rerun('--test-set', wrong, '--with-test-set', mended, '--limit', '1'), {
    status: 0,
    stdout: /^1 submissions: 1 the same/,
    stderr: 'more submissions fit: these are the newest 1, see --limit\n',
  });
  const stranger = await s.w.key({ account: 'others' });
  const theirs = await made('wrong', await ownerOf(s, stranger.id));
  t.match(await s.rerun('--test-set', wrong, '--with-test-set', theirs), {
    status: NO_RESULT,
    stdout: /^3 left out: its account does not have the new test set$/m,
  });
  t.match(await s.rerun('--test-set', wrong, '--with-test-set', wrong), {
    status: NO_RESULT,
    stderr: `there is no test set ${wrong}\n`,
  });
  t.match(await s.rerun('--with-test-set', mended), { status: 2, stderr: /needs --test-set/ });
  t.match(await s.rerun('--test-set', '7'), { status: 2, stderr: /--test-set must be an id/ });
  await rebuild(s.w.db);
  t.same(besides((await verify(s.w.db)).problems), []);
});

t.test('as many run at once as were asked for, by one key of one account', async (t) => {
  let together = 1;
  const s = await scene(t, { same: () => ({}) }, () => together);
  for (let n = 0; n < 8; n += 1) await s.submit('same');
  together = 4;
  const done = await s.rerun('--at-once', '4');
  t.match(done, { status: 0, stdout: /^8 submissions: 8 the same/ }, done.stderr);
  t.equal(s.mostRunning(), 4);
  const [made] = await s.w.db`
    select count(*) filter (where type = 'key.created' and facts ->> 'tier' = 'reruns')::integer as keys,
      count(*) filter (where type = 'tier.set' and facts ->> 'name' = 'reruns')::integer as tiers
    from runledger.events`;
  t.same(made, { keys: 1, tiers: 1 });
});

/** A command has asked whether it may go on for longer than this, and has asked again since. */
async function asking(w: World, for_ms = 0): Promise<void> {
  // Each time, its session's statement has another start. In two parts, so that this statement itself does not count.
  const asked = new Set<number>();
  await until(async () => {
    const rows = await w.db<{ ms: number }[]>`
      select (extract(epoch from query_start) * 1000)::double precision as ms from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and query like '%as ' || 'some_wait%'`;
    for (const { ms } of rows) asked.add(ms);
    return [...asked].filter((ms) => ms - Math.min(...asked) > for_ms).length >= 2;
  });
}

/** How many reruns were made. */
const added = async ({ db }: World) =>
  (await db`select from runledger.events where facts ? 'rerun_of'`).length;

t.test('nothing is added while a submission waits for a worker', async (t) => {
  const s = await scene(t, { same: () => ({}) });
  await s.submit('same');
  const { executions } = await s.w.consumer();
  for (const is_lost of [false, true]) {
    const given = submission({ code: Buffer.from('left alone') });
    const id = idOf(
      await s.w.submissions().submit({ secret_digest: s.key.digest, submission: given }),
    );
    if (is_lost) {
      await start(executions, id);
      t.same((await executions.release([id], 'shutdown')).released, [id], 'it waits again');
    }
    const before = await added(s.w);
    const done = s.rerun();
    await asking(s.w, SAY_AFTER_MS);
    t.equal(await added(s.w), before);
    t.equal(await s.w.cancel(id), 'cancelled');
    const stderr = 'waiting until no submission waits for a worker\n';
    t.match(await done, { status: 0, stdout: /^1 submissions: 1 the same/, stderr });
    t.equal(await added(s.w), before + 1);
  }
});

t.test('what waits for no worker that lives holds nothing up', async (t) => {
  const s = await scene(t, { same: () => ({}) });
  await s.submit('same');
  await s.w.tier('narrow', 0, 1);
  const narrow = await s.w.key({ tier: 'narrow' });
  const { executions } = await s.w.consumer();
  const submit = async (language: string) => {
    const given = submission({ code: Buffer.from('-'), language });
    return idOf(
      await s.w.submissions().submit({ secret_digest: narrow.digest, submission: given }),
    );
  };
  await start(executions, await submit('python'));
  await submit('python');
  await submit('java');
  const [{ gated } = { gated: 0 }] = await s.w.db<{ gated: number }[]>`
    select count(*)::integer as gated from runledger.gated`;
  t.equal(gated, 2, 'they wait for the first one of their key');
  const other = { secret_digest: s.key.digest, submission: submission({ language: 'java' }) };
  t.equal((await s.w.submissions().submit(other)).kind, 'accepted');
  t.match(await s.rerun(), { status: 0, stdout: /^1 submissions: 1 the same/ });
});

t.test('a rerun that no worker can judge is cancelled and left out', async (t) => {
  const s = await scene(t, {});
  const { executions } = await s.w.consumer();
  const given = submission({ code: Buffer.from('judged elsewhere') });
  const original = idOf(
    await s.w.submissions().submit({ secret_digest: s.key.digest, submission: given }),
  );
  await start(executions, original);
  await executions.complete({ submission_id: original, attempt: 1, outcome: outcome() });
  const done = s.rerun();
  await until(async () => (await added(s.w)) === 1);
  const [{ id } = { id: '' }] = await s.w.db<{ id: string }[]>`
    select id from runledger.submissions where id <> ${original}`;
  await start(executions, id);
  await executions.release([id], 'no_slot', {}, [1], 'java');
  const { status, stdout } = await done;
  t.equal(status, NO_RESULT);
  t.match(stdout, /^1 left out: no worker that is alive runs both python and java$/m);
  const rows = await s.w.db`select status from runledger.submissions where id = ${id}`;
  t.match(rows, [{ status: 'cancelled' }]);
  t.same((await verify(s.w.db, { head: null, signers: [] })).problems, []);
});

t.test('reruns of another command count, also of one that was stopped', async (t) => {
  let answered = false;
  const s = await scene(t, { same: () => ({}) }, () => (answered ? 1 : 2));
  answered = true;
  await s.submit('same');
  answered = false;
  const first = s.rerun();
  await until(async () => (await added(s.w)) === 1);
  const second = s.rerun();
  await asking(s.w, SAY_AFTER_MS);
  t.equal(await added(s.w), 1);
  answered = true;
  t.match(await first, { status: 0 });
  const stderr = 'waiting until reruns of another command have ended\n';
  t.match(await second, { status: 0, stderr });
});
