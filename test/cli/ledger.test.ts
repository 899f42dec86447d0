/** verify, seal, rebuild, purge and detach, as an operator types them. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { idOf, outcome, start, submission, world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { runledger } from './command_line.ts';

aloneOnItsServer();

const SEAL_KEY = Buffer.alloc(32, 7).toString('base64');

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  const { digest } = await w.key();
  const id = idOf(
    await w.submissions().submit({ secret_digest: digest, submission: submission() }),
  );
  const { executions } = await w.consumer();
  await start(executions, id);
  await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  const env = { DATABASE_URL: w.database.url, RUNLEDGER_SEAL_KEY: SEAL_KEY };
  const folder = await mkdtemp(join(tmpdir(), 'runledger-heads-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const run = (...args: string[]) => runledger(args, env);
  return { w, id, run, env, head: join(folder, 'head.json') };
}

t.test('seal prints a head, and verify proves the log against it', async (t) => {
  const { w, id, run, head } = await scene(t);
  const sealed = await run('seal');
  t.match(sealed, { status: 0, stderr: '' });
  await writeFile(head, sealed.stdout);
  t.match(JSON.parse(sealed.stdout), {
    format: 'runledger head 1',
    number: '1',
    signature: /^.{88}$/,
  });
  const well = await run('verify', '--head', head);
  t.match(well, { status: 0, stderr: '' });
  t.match(well.stdout, /^\d+ events, \d+ sealed in 1 seals, 0 not sealed yet\n/);
  t.match(well.stdout, /\nhead 1 over \d+ events: proven\n/);
  t.match(well.stdout, /\nall is well\n$/);

  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  const [partition] =
    await root`select tableoid::regclass::text as name from runledger.events where stream = ${id} limit 1`;
  await root.unsafe(`alter table ${partition!['name']} disable trigger all`);
  await root`update runledger.events set facts = facts || '{"exit_code": 1}' where stream = ${id} and version = 3`;
  await root.unsafe(`alter table ${partition!['name']} enable always trigger refuse_change`);
  await root.unsafe(`alter table ${partition!['name']} enable always trigger refuse_truncate`);
  const broken = await run('verify', '--head', head);
  t.equal(broken.status, 1);
  t.match(broken.stdout, /: NOT PROVEN\n/);
  t.match(
    broken.stdout,
    `first difference: changed event: ${id} version 3 (submission.completed)\n`,
  );
  const json = await run('verify', '--head', head, '--json');
  t.equal(json.status, 1);
  t.match(JSON.parse(json.stdout), {
    well: false,
    first_difference: `changed event: ${id} version 3 (submission.completed)`,
    seals: { head: { proven: false }, events: [{ kind: 'changed', stream: id, version: 3 }] },
  });
});

t.test('rebuild corrects the difference that verify found', async (t) => {
  const { w, id, run } = await scene(t);
  await w.db`update runledger.submissions set verdict = 'WA' where id = ${id}`;
  const wrong = await run('verify');
  t.equal(wrong.status, 1);
  t.match(
    wrong.stdout,
    `first difference: submissions: ${id} is {"verdict":"WA"} and should be {"verdict":"AC"}`,
  );
  const rebuilt = await run('rebuild');
  t.equal(rebuilt.status, 0);
  t.match(
    rebuilt.stdout,
    /^\d+ events \(\d+\/s\) into 1 rows; caught up with 0 submissions, corrected 0 counters/,
  );
  t.match(JSON.parse((await run('rebuild', '--json')).stdout), { rows: 1, recounted: 0 });
  t.equal((await run('verify')).status, 0);
});

t.test('purge and detach print what they did, or why they did not', async (t) => {
  const { run } = await scene(t);
  t.match(await run('purge', '--older-than', '1d'), {
    status: 0,
    stdout: /^0 submissions that ended before /,
  });
  t.match(await run('purge'), { status: 2, stderr: /--older-than is missing/ });
  t.match(await run('purge', '--older-than', '1h'), { status: 2, stderr: /at least 1d/ });
  t.match(await run('detach', 'november'), { status: 2, stderr: /not a month: november/ });
  t.match(await run('detach', '2001-01'), {
    status: 1,
    stderr: /2001-01 cannot be detached: the log has no partition of that month/,
  });
  const month = new Date().toISOString().slice(0, 7);
  t.match(await run('detach', month), {
    status: 1,
    stderr: /that month ended less than a day ago, or has not ended/,
  });
});

t.test(
  'a file that is not a head exits 2; a head without a key is unsigned, with a warning',
  async (t) => {
    const { run, env, head } = await scene(t);
    t.match(await run('verify', '--head', head), { status: 2, stderr: /no such file/ });
    await writeFile(head, '{"format": "other"}');
    t.match(await run('verify', '--head', head), { status: 2, stderr: /not a head/ });
    const unsigned = await runledger(['seal'], { DATABASE_URL: env.DATABASE_URL });
    t.match(unsigned, {
      status: 0,
      stderr: /RUNLEDGER_SEAL_KEY is not set: the head is not signed/,
    });
    t.match(JSON.parse(unsigned.stdout), { signature: null });
  },
);
