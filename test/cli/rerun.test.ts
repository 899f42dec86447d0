/** Reruns, with a worker that answers what the test says. test/cli/serve.test.ts has one with a real worker. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { forgetAccount, purgePayloads } from '../../src/store/retention.ts';
import { verify } from '../../src/store/verify.ts';
import { besides } from '../store/verified.ts';
import { idOf, outcome, start, submission, webhook, world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { runledger } from './command_line.ts';

aloneOnItsServer();

type Answer = (n: number) => Partial<ExecutionOutcome>;

/** `answers`: by the code of a submission, the outcome of its n-th run of all. */
async function scene(t: { teardown(work: () => unknown): void }, answers: Record<string, Answer>) {
  const w = await world(t);
  const key = await w.key({ account: 'acme' });
  const { executions } = await w.consumer();
  const runs = new Map<string, number>();
  let closed = false;
  const work = async () => {
    while (!closed) {
      const rows = await w.db<{ id: string; code: Uint8Array }[]>`
        select s.id, p.bytes as code from runledger.submissions s
        join runledger.payloads p on p.stream = s.id and p.kind = 'code' where s.status = 'pending'`;
      for (const { id, code } of rows) {
        const text = Buffer.from(code).toString();
        const n = runs.get(text) ?? 0;
        runs.set(text, n + 1);
        await start(executions, id);
        const answer = outcome(answers[text]!(n));
        await executions.complete({ submission_id: id, attempt: 1, outcome: answer });
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
    while (!(await isOver(id))) await wait(5);
    return id;
  };
  const isOver = async (id: string) => {
    const [row] = await w.db`select completed_at from runledger.submissions where id = ${id}`;
    return row!['completed_at'] !== null;
  };
  const rerun = (...args: string[]) =>
    runledger(['rerun', ...args], { DATABASE_URL: w.database.url });
  return { w, key, submit, rerun, runs };
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
  t.match(of('same'), { changed: [], differs: [], reruns: { length: 1 } });
  t.match(of('broken'), { changed: ['verdict', 'exit code', 'output'], reruns: { length: 3 } });
  t.match(of('random'), { changed: [], differs: ['output'], reruns: { length: 3 } });
  t.match(of('slower'), { changed: ['cpu'], reruns: { length: 3 } });
  t.match(of('slow once'), { changed: [], differs: ['cpu'], reruns: { length: 2 } });

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
  t.match(await s.rerun('--account', 'nobody'), { status: 0, stdout: /^0 submissions: / });
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
});

t.test('what cannot be run again is counted, with the reason', async (t) => {
  const s = await scene(t, { same: () => ({}) });
  await s.submit('same');
  await s.submit('same', { language: 'java' }).catch(() => {});
  await s.w.clock.advance(100 * 86_400_000);
  await purgePayloads(s.w.db, new Date(Date.now() + 86_400_000));
  const { status, stdout } = await s.rerun();
  t.equal(status, 0);
  t.match(stdout, /2 submissions: 0 the same, 0 changed, 0 differ from run to run, 2 not run/);
  t.match(stdout, /2 not run: its bytes were removed/);
});
