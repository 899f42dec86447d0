/** verify, seal, policy, repair, rebuild, purge, forget and detach, as an operator types them. */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { createSigner } from '../../src/domain/seal_chain.ts';
import { isSketchOf } from '../../src/proof/log_key.ts';
import {
  keyText,
  NoteSigner,
  parseNote,
  signatureLine,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { judgeCheckpoint, parsePolicy } from '../../src/proof/policy.ts';
import { lastCheckpoint } from '../../src/store/checkpoints.ts';
import { witnessName } from '../../src/store/cosignatures.ts';
import { headFile, seal as sealOld } from '../store/old_chain.ts';
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
  const env = {
    DATABASE_URL: w.database.url,
    RUNLEDGER_SEAL_KEY: SEAL_KEY,
    // For doctor, which runs a program of each language.
    RUNLEDGER_LANGUAGES: 'python',
  };
  const folder = await mkdtemp(join(tmpdir(), 'runledger-heads-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const run = (...args: string[]) => runledger(args, env);
  return { w, id, run, env, folder, head: join(folder, 'head.json') };
}

t.test('verify proves the log against a head of the old chain', async (t) => {
  const { w, id, run, head } = await scene(t);
  await sealOld(w.db, createSigner(Buffer.alloc(32, 7)));
  await writeFile(head, JSON.stringify(await headFile(w.db)));
  const well = await run('verify', '--head', head);
  t.match(well, { status: 0, stderr: '' });
  t.match(well.stdout, /^\d+ events; 0 checkpoints, /);
  t.match(well.stdout, /\nhead 1 over \d+ events: proven\n/);
  t.match(well.stdout, /\nconsistent, not proven: there is no checkpoint\n$/);

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
  t.match(broken.stdout, /\nNOT as it was: problems of events 1, checkpoints \d, projections 1\n$/);
  const json = await run('verify', '--head', head, '--json');
  t.equal(json.status, 1);
  t.match(JSON.parse(json.stdout), {
    well: false,
    first_difference: `changed event: ${id} version 3 (submission.completed)`,
    seals: { head: { proven: false }, events: [{ kind: 'changed', stream: id, version: 3 }] },
  });

  const replace = (body: string) =>
    root.unsafe(`create or replace function runledger.next_status(status text, type text) returns text
      language plpgsql as $$ begin ${body} end $$`);
  await replace(`raise exception E'\\x1b[2J\nproven up to leaf 98' using errcode = '57P01';`);
  const excused = await run('verify', '--head', head);
  t.equal(excused.status, 1);
  t.match(excused.stdout, String.raw`submissions: \u001b[2J\u000aproven up to leaf 98`);
  t.match(excused.stdout, /\nNOT as it was: problems of [^\n]+\n$/);
  await replace('perform pg_terminate_backend(pg_backend_pid()); return null;');
  const ended = await run('verify', '--head', head);
  t.match(ended, { status: 1, stdout: '' });
  t.match(
    ended.stderr,
    /^found so far: the schema (lacks|has what this release has not): function next_status/m,
  );
  t.match(ended.stderr, /\nPostgreSQL ended the connection of verify: [^\n]+\n$/);
});

t.test('verify proves the log with a policy, and an exported log without a database', async (t) => {
  const { w, id, run, folder } = await scene(t);
  const file = (name: string) => join(folder, name);
  const checkpoint = await run('seal', '--sketch');
  await writeFile(file('checkpoint.json'), checkpoint.stdout);
  await writeFile(file('policy.txt'), (await run('policy')).stdout);
  await writeFile(file('removals.txt'), 'purged older-than 90d\n');
  const given = [
    '--policy',
    file('policy.txt'),
    '--removals',
    file('removals.txt'),
    '--checkpoint',
    file('checkpoint.json'),
  ];
  const proven = await run('verify', ...given);
  t.match(proven, { status: 0, stderr: '' });
  t.match(
    proven.stdout,
    /\nproven up to leaf \d+ \(checkpoint of runledger\/[0-9a-f]{16}, cosigned by nobody\)\n$/,
  );
  t.match((await run('verify')).stdout, /\nconsistent, not proven: there is no policy\n$/);

  t.match(await run('verify', '--export', file('log')), {
    status: 0,
    stdout: /^\d+ events in \d+ bytes; SHA-256 /,
  });
  const alone = { PATH: process.env['PATH'], RUNLEDGER_STATE_DIR: file('none') };
  const offline = (...args: string[]) => runledger(['verify', file('log'), ...args], alone);
  t.match(await offline(...given), { status: 0, stdout: /\nproven up to leaf \d+ / });
  t.match(await offline(), {
    status: 0,
    stdout: /\nconsistent, not proven: there is no policy\n$/,
  });
  for (const name of ['sketch', 'sketch_signature']) {
    const kept = JSON.parse(checkpoint.stdout) as Record<string, string>;
    await writeFile(file('lenient'), JSON.stringify({ ...kept, [name]: `${kept[name]} ` }));
    t.match(await offline('--checkpoint', file('lenient')), { status: 2, stderr: /not a check/ });
  }
  const bytes = await readFile(file('log'));
  bytes[200]! ^= 1;
  await writeFile(file('log'), bytes);
  t.match(await offline(...given), { status: 1, stdout: /the file cannot be read: / });
  for (const option of ['export', 'head', 'signer'])
    t.match(await offline(`--${option}`, file('none')), {
      status: 2,
      stderr: `--${option} is for a database, and not for a FILE\n`,
    });
  t.match(await runledger(['verify', file('none'), ...given], alone), {
    status: 2,
    stderr: /^.*none: .*no such file/,
  });
  t.match(await run('verify', '--export', file('log')), { status: 1, stderr: /exist/ });

  await w.db`update runledger.payloads set bytes = 'print(2)'::bytea where stream = ${id} and kind = 'code'`;
  t.match(await run('verify', ...given), {
    status: 1,
    stdout: new RegExp(
      `first difference: payloads: ${id} code does not have the bytes that its event names\n`,
    ),
  });
  t.match(await run('verify', '--policy', file('none')), {
    status: 2,
    stderr: /--policy .*no such file/,
  });
  await writeFile(file('bad'), 'quorum\n');
  for (const option of ['policy', 'removals', 'checkpoint'])
    t.match(
      (await run('verify', `--${option}`, file('bad'))).status,
      option === 'checkpoint' ? 1 : 2,
      option,
    );
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

t.test('purge, forget and detach print what they did, or why they did not', async (t) => {
  const { id, run } = await scene(t);
  t.match(await run('purge', '--older-than', '1d'), {
    status: 0,
    stdout: /^0 submissions that ended before .*\n0 test sets that nothing has used since$/m,
  });
  t.match(await run('purge'), { status: 2, stderr: /--older-than is missing/ });
  t.match(await run('purge', '--older-than', '1h'), { status: 2, stderr: /at least 1d/ });
  t.match(await run('forget'), { status: 2, stderr: /one of --account NAME and --submission ID/ });
  t.match(await run('forget', '--account', 'nobody'), {
    status: 1,
    stderr: /there is no account nobody/,
  });
  t.match(await run('forget', '--submission', id), {
    status: 0,
    stdout: `forgotten ${id}\n`,
    stderr: '1 submissions, 0 test sets\nauditors need in their removals file:\n',
  });
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

t.test('purge counts from the clock of the database', async (t) => {
  const { w, run } = await scene(t);
  const day_ms = 86_400_000;
  const now = new Date(Date.now() + 2 * day_ms);
  await w.clock.set(now);
  const { stdout } = await run('purge', '--older-than', '1d', '--json');
  t.same(JSON.parse(stdout), {
    ended_before: new Date(now.getTime() - day_ms).toISOString(),
    submissions: 1,
    test_sets: 0,
  });
});

t.test('a file that is not a head exits 2', async (t) => {
  const { run, head } = await scene(t);
  t.match(await run('verify', '--head', head), { status: 2, stderr: /no such file/ });
  await writeFile(head, '{"format": "other"}');
  t.match(await run('verify', '--head', head), { status: 2, stderr: /not a head/ });
});

t.test('seal prints a signed checkpoint, and policy the keys to check it with', async (t) => {
  const { w, run, env } = await scene(t);
  const policy = await run('policy');
  t.match(policy, {
    status: 0,
    stderr: '',
    stdout: /^log runledger\/[0-9a-f]{16}\+.*\nquorum none\n$/,
  });
  const sealed = await run('seal');
  t.match(sealed, { status: 0, stderr: '' });
  const judge = (note: string) => judgeCheckpoint(parsePolicy(policy.stdout), parseNote(note));
  t.equal((await run('policy')).stdout, policy.stdout);
  t.match(await runledger(['policy'], { ...env, RUNLEDGER_LOG_ORIGIN: 'example.org/other' }), {
    status: 1,
    stdout: '',
    stderr:
      /^checkpoint 1 of runledger\S+ is not signed by our key as example.org\/other, .* of web\n$/,
  });
  const away = { ...env, DATABASE_URL: 'postgres://runledger@127.0.0.1:1/runledger' };
  t.match(await runledger(['policy'], away), {
    status: 0,
    stdout: policy.stdout,
    stderr: /^the policy could not be compared with the log: .*ECONNREFUSED.*\n$/,
  });
  t.match(judge(sealed.stdout), { problem: null });
  const { checkpoint, sketch, sketch_signature } = JSON.parse(
    (await run('seal', '--sketch')).stdout,
  );
  t.equal(checkpoint, sealed.stdout);
  const signature = Buffer.from(sketch_signature, 'base64');
  const { logs } = parsePolicy(policy.stdout);
  const keys = logs.map(({ key }) => key);
  const about = judge(checkpoint).checkpoint;
  t.ok(isSketchOf(keys, about, Buffer.from(sketch, 'base64'), signature));

  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  await root.unsafe('alter table runledger.checkpoints disable trigger all');
  await root`update runledger.checkpoints set note = split_part(note, '— ', 1)`;
  t.match(await run('seal'), {
    status: 1,
    stdout: '',
    stderr: /^checkpoint 1 of .* is not signed by our key.*\n$/,
  });
  t.match(
    (await run('doctor')).stdout,
    /\nfail {2}sealing +checkpoint 1 of .* is not signed by our key/,
  );
  const reason = ['--reason', 'the note was cut'];
  t.match(await run('repair', ...reason), { status: 1, stderr: /is not signed by our key/ });
});

t.test('without a key nothing is printed; the key of the state directory is found', async (t) => {
  const { env, folder } = await scene(t);
  const without = { ...env, RUNLEDGER_SEAL_KEY: undefined, RUNLEDGER_STATE_DIR: folder };
  for (const command of ['seal', 'policy'])
    t.match(await runledger([command], without), {
      status: 1,
      stdout: '',
      stderr:
        /^this command has no seal key: RUNLEDGER_SEAL_KEY is not set, and .*; give it the key that web has\n$/,
    });
  const sealing = async () =>
    (await runledger(['doctor', '--only', 'service'], without)).stdout.match(
      /^.*sealing .*$/m,
    )?.[0];
  t.match(await sealing(), /^warn {2}sealing +this command has no seal key, and there is no check/);
  await runledger(['seal'], env);
  t.match(
    await sealing(),
    /^ok {4}sealing +checkpoint 1 of .*; whether web can sign was not tried/,
  );
  await writeFile(join(folder, 'secrets.json'), JSON.stringify({ RUNLEDGER_SEAL_KEY: SEAL_KEY }));
  const found = await runledger(['policy'], without);
  t.equal(found.stdout, (await runledger(['policy'], env)).stdout);
  const alone = await runledger(['policy'], { ...without, DATABASE_URL: undefined });
  t.match(alone, { status: 0, stderr: '', stdout: found.stdout });
  t.same(await readdir(folder), ['secrets.json'], 'policy makes no database');
  t.match(await runledger(['seal'], without), { status: 0, stdout: /^runledger\/[0-9a-f]{16}\n/ });
});

t.test(
  'an export has the cosignatures of the witnesses that are named, before strangers',
  async (t) => {
    const { w, run, env, folder } = await scene(t);
    const file = (name: string) => join(folder, name);
    await run('seal');
    const last = (await lastCheckpoint(w.web))!;
    const { text } = parseNote(last.note);
    const signers = [...Array(70).keys(), 'north'].map(
      (name, n) => new NoteSigner(`a${name}`, WITNESS_KEY, Buffer.alloc(32, n + 1)),
    );
    // A login of web cannot store so many.
    for (const signer of signers)
      await w.db`
        insert into runledger.cosignatures values (${last.origin}, ${last.size}, ${witnessName(signer.verifier)}, now(),
          ${signatureLine(signer.sign(text))})`;
    const witness = keyText(signers.at(-1)!.verifier);
    const own = (await run('policy')).stdout.replace(/^quorum .*$/m, '');
    await writeFile(file('policy.txt'), `${own}\nwitness north ${witness}\nquorum north\n`);
    const policy = ['--policy', file('policy.txt')];
    const write = (name: string) => ['verify', '--export', file(name)];
    t.match(await run(...write('all')), { status: 0 });
    t.match(await run(...write('asked'), ...policy), { status: 0 });
    const configured = { ...env, RUNLEDGER_WITNESSES: `${witness}=https://north.example` };
    t.match(await runledger(write('configured'), configured), { status: 0 });
    const check = (name: string) => run('verify', file(name), ...policy);
    t.match(await check('all'), { status: 1, stdout: /the policy accepts no checkpoint/ });
    for (const name of ['asked', 'configured'])
      t.match(await check(name), { status: 0, stdout: /, cosigned by north\)\n$/ });
  },
);

t.test('repair says what it did', async (t) => {
  const { w, run, env } = await scene(t);
  await run('seal');
  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  await root.unsafe(
    'alter table runledger.log_tiles disable trigger all; delete from runledger.log_tiles',
  );
  t.match(await run('repair'), { status: 2, stderr: /--reason is missing/ });
  t.match(await run('repair', '--reason', 'x'.repeat(4097)), {
    status: 2,
    stderr: /^[^\n]*the reason has 4097 bytes, and may have 4096\n/,
  });
  t.match(await run('repair', '--reason', 'tiles were lost'), {
    status: 0,
    stdout: '',
    stderr: /has the root of the last checkpoint: sealing goes on\n$/,
  });
  t.equal((await run('seal')).status, 0);
  const renamed = { ...env, RUNLEDGER_LOG_ORIGIN: 'example.com/log' };
  t.match(await runledger(['seal'], renamed), {
    status: 1,
    stderr: /is not signed by our key as example.com\/log/,
  });
  t.match(await runledger(['repair', '--reason', 'a test'], renamed), {
    status: 0,
    stdout: /^repaired runledger\/\S+ \d+\n$/,
    stderr:
      /^example.com\/log begins with a checkpoint over \d+ events; the log's name was runledger\//,
  });
  t.match(await runledger(['seal'], renamed), { status: 0, stdout: /^example.com\/log\n/ });
});
