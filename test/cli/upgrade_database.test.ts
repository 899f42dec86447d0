/** `./runledger upgrade-database`, on data that a real server of the major version before has made. */
import { type ChildProcess, execFileSync, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { packagedMajor } from '../../src/local/binaries.ts';
import {
  type Embedded,
  serverOptions,
  startEmbedded,
  startWithRoles,
  superuserUrl,
} from '../../src/local/embedded.ts';
import { installPrograms } from '../../src/local/old_programs.ts';
import type { Server } from '../../src/local/postgres.ts';
import { localSecrets } from '../../src/local/secrets.ts';
import {
  requireRoom,
  requireSameRows,
  upgradeDatabase,
} from '../../src/processes/upgrade_database.ts';
import { keyText } from '../../src/proof/note.ts';
import { backUp, restore } from '../../src/store/backup.ts';
import { lastCheckpoint, noteWithCosignatures } from '../../src/store/checkpoints.ts';
import { createReceipts } from '../../src/store/receipts.ts';
import { key, seal } from '../store/seal_now.ts';
import { contents } from '../store/table_contents.ts';
import { LOG_VERIFIER } from '../store/verified.ts';
import { idOf, outcome, start, submission, world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { sectionLines } from '../support/documents.ts';
import { inEvents } from '../tamper/past_triggers.ts';
import { CLI, runledger } from './command_line.ts';

aloneOnItsServer();

const ROOT = join(import.meta.dirname, '../..');
const NEW = await packagedMajor();
/** RUNLEDGER_TEST_OLD_POSTGRES=16 tries that version. (initdb of 15 does not work in a folder that it knows by /proc alone.) */
const OLD = Number(process.env['RUNLEDGER_TEST_OLD_POSTGRES'] ?? NEW - 1);
const [old_programs, folder] = await Promise.all([
  installPrograms(OLD),
  mkdtemp(join(tmpdir(), 'runledger-upgrade-')),
]);
t.teardown(() => rm(folder, { recursive: true, force: true }));

const SEAL_KEY = Buffer.alloc(32, 7).toString('base64');
const policy = join(folder, 'policy.txt');
writeFileSync(policy, `log ${keyText(LOG_VERIFIER)}\nquorum none\n`);
const checkpoint = join(folder, 'checkpoint.txt');

const options = (state_dir: string) => ({ state_dir, postgres_uid: null });
const environment = (state_dir: string) => ({
  RUNLEDGER_STATE_DIR: state_dir,
  RUNLEDGER_SEAL_KEY: SEAL_KEY,
  RUNLEDGER_LANGUAGES: 'python',
});
const cli = (state_dir: string, ...args: string[]) => runledger(args, environment(state_dir));
const upgrade = (state_dir: string) =>
  cli(state_dir, 'upgrade-database', '--old-programs', old_programs);

async function well(state_dir: string, ...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await cli(state_dir, ...args);
  if (status !== 0) throw new Error(`${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

/** A server of the old version, on data in this folder. */
async function oldServer(
  t: Test,
  state_dir: string,
  name = 'postgres',
): Promise<Embedded & { server: Server; superuser_url: string }> {
  const secrets = await localSecrets(state_dir);
  const programs = {
    dir: old_programs,
    locale: OLD < 17 ? ['--locale=C'] : ['--locale-provider=builtin', '--locale=C'],
  };
  const given = serverOptions(options(state_dir), secrets, null, programs);
  const started = await startWithRoles({ ...given, data_dir: join(state_dir, name) }, secrets);
  t.teardown(() => started.server.stop());
  return { ...started, superuser_url: superuserUrl(started.server.port, secrets) };
}

async function asked<T>(url: string, work: (db: Db) => Promise<T>): Promise<T> {
  const db = connect(url, { name: 'test', max: 1 });
  try {
    return await work(db);
  } finally {
    await db.end();
  }
}

/** Data of the old version with a sealed log, and a submission that has ended. */
const w = await world(t);
const { digest } = await w.key({ account: 'early' });
const id = idOf(await w.submissions().submit({ secret_digest: digest, submission: submission() }));
const { executions } = await w.consumer();
await start(executions, id);
await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
await w.submissions().submit({ secret_digest: digest, submission: submission() });
await seal(w.web);
writeFileSync(checkpoint, noteWithCosignatures((await lastCheckpoint(w.db))!));
const backup = join(folder, 'old.backup');
await backUp(w.db, backup);
const made = join(folder, 'made');
const first = await oldServer(t, made);
await restore(first.urls.owner, backup);
const receiptIn = async (db: Db) => {
  const found = await createReceipts(db).read(digest, id);
  return found.kind === 'found' ? found.receipt : found;
};
const receipt = await asked(first.urls.web, receiptIn);
const old_contents = await asked(first.urls.owner, contents);
await first.server.stop();

async function copied(t: Test, name: string): Promise<string> {
  const state_dir = join(folder, name);
  execFileSync('cp', ['-a', made, state_dir]);
  t.teardown(() => rm(state_dir, { recursive: true, force: true }));
  return state_dir;
}

/** Every file of the data, with its time and its bytes. */
const fingerprint = (state_dir: string) =>
  execFileSync(
    'sh',
    ['-c', 'tar -C "$1" --sort=name -cf - postgres | sha256sum', 'sh', state_dir],
    {
      encoding: 'utf8',
    },
  );
const majorIn = (state_dir: string, name = 'postgres') =>
  Number(readFileSync(join(state_dir, name, 'PG_VERSION'), 'utf8'));
const foldersIn = (state_dir: string) =>
  readdirSync(state_dir)
    .filter((name) => !/\.(log|json|port)$/.test(name))
    .sort();

async function requireUpgraded(t: Test, state_dir: string, kept: string): Promise<void> {
  t.strictSame(foldersIn(state_dir), ['postgres', kept], 'nothing half-made is left');
  t.equal(majorIn(state_dir), NEW);
  const args = ['--offline', '--policy', policy, '--checkpoint', checkpoint];
  t.match(await well(state_dir, 'verify', ...args), /proven up to leaf/);
  const { urls, server } = await startEmbedded(options(state_dir), { say() {}, creates: 'first' });
  const generations = 'runledger.generations';
  const { [generations]: new_generations, ...rest } = await asked(urls.owner, contents);
  const { [generations]: old_generations, ...before } = old_contents;
  t.strictSame(rest, before, 'every row is as it was');
  t.equal(Number.parseInt(new_generations!, 10), Number.parseInt(old_generations!, 10) + 1);
  t.match(receipt, { events: [{}, {}, {}] });
  t.strictSame(await asked(urls.web, receiptIn), receipt, 'and so is the receipt');
  await server.stop();

  t.equal(majorIn(state_dir, kept), OLD);
  const old = await oldServer(t, state_dir, kept);
  t.strictSame(await asked(old.urls.owner, contents), old_contents, 'the old data are kept');
  await old.server.stop();
}

const [upgrading = []] = sectionLines('OPERATING.md', 'A new version of PostgreSQL');

t.test('data of another version are refused in one line, and nothing is touched', async (t) => {
  const state_dir = await copied(t, 'refused');
  const before = fingerprint(state_dir);
  const refused = {
    status: 1,
    stderr: `the data in ${state_dir}/postgres are of PostgreSQL ${OLD}, and this version of Runledger has PostgreSQL ${NEW}: upgrade them with \`./runledger upgrade-database\`, which keeps the old data\n`,
  };
  t.match(await cli(state_dir, 'keys', 'list'), refused);
  const serving = await cli(state_dir, 'serve');
  t.equal(serving.status, 1);
  // A machine without isolation says so, before or instead.
  if (!/^this machine cannot run programs/.test(serving.stderr))
    t.equal(serving.stderr.replace(/^degraded .*\n/, ''), refused.stderr);
  const { stdout: found } = await cli(state_dir, 'doctor');
  t.match(
    found,
    /^fail +database +the data in .*\n +-> upgrade them with `\.\/runledger upgrade-/m,
  );
  t.equal(fingerprint(state_dir), before);
  t.match(
    await cli(state_dir, 'upgrade-database', '--old-programs', folder),
    { status: 1, stderr: / has no PostgreSQL that runs here: the data need PostgreSQL \d+: name / },
    'other programs',
  );
  t.equal(fingerprint(state_dir), before);

  const old = await oldServer(t, state_dir);
  t.match(
    await upgrade(state_dir),
    { status: 1, stderr: /a PostgreSQL already runs on .*: stop that one first/ },
    'the old server is in use',
  );
  await old.server.stop();

  const later = NEW + 1;
  writeFileSync(join(state_dir, 'postgres/PG_VERSION'), `${later}\n`);
  const newer = {
    status: 1,
    stderr: `the data in ${state_dir}/postgres are of PostgreSQL ${later}, and this version of Runledger has PostgreSQL ${NEW}: use a version of Runledger that has the newer one\n`,
  };
  for (const command of ['keys list', 'upgrade-database'])
    t.match(await cli(state_dir, ...command.split(' ')), newer, command);
});

t.test(
  'an upgrade as the document says copies everything, proves the copy, and keeps the old data',
  async (t) => {
    const state_dir = await copied(t, 'upgraded');
    const old = await oldServer(t, state_dir);
    await asked(old.superuser_url, (db) =>
      db.unsafe('create role somebody; create schema own; create table public.mine ()').simple(),
    );
    await old.server.stop();
    // An earlier one was kept.
    execFileSync('cp', ['-a', join(state_dir, 'postgres'), join(state_dir, `postgres-${OLD}`)]);

    t.strictSame(upgrading, [
      './runledger upgrade-database',
      './runledger verify --offline --policy policy.txt',
    ]);
    const words = upgrading.map((line) => line.replace('policy.txt', policy).split(' ').slice(1));
    const [ask = [], prove = []] = words;
    const { status, stdout, stderr } = await cli(state_dir, ...ask);
    t.equal(status, 0, stderr);
    const kept = `postgres-${OLD}-2`;
    t.equal(
      stdout,
      `${state_dir}/postgres has data of PostgreSQL ${NEW} now; the old data are in ${state_dir}/${kept}: remove them when you no longer need them\n`,
    );
    for (const line of stderr.trim().split('\n')) t.match(line, /^\[\d+\.\d s\] \S/);
    for (const what of ['the login somebody', 'the schema own', 'public.mine'])
      t.match(stderr, `] not copied, it stays in the old data: ${what}\n`);
    await rm(join(state_dir, `postgres-${OLD}`), { recursive: true });
    await requireUpgraded(t, state_dir, kept);

    await well(state_dir, ...prove);
    t.match(await well(state_dir, 'keys', 'list'), /early/);
    await well(state_dir, 'keys', 'create', '--account', 'late');
    await well(state_dir, 'seal');
    t.match(await well(state_dir, 'verify', '--policy', policy), /proven up to leaf/);
    t.match(await well(state_dir, 'upgrade-database'), /already: nothing to do\n$/);
  },
);

t.test('killed at any moment, it begins again and loses nothing', async (t) => {
  const state_dir = await copied(t, 'killed');
  const killAt = async (moment: string) => {
    const child: ChildProcess = fork(
      new URL('upgrading_process.ts', import.meta.url),
      [state_dir, moment],
      { stdio: 'inherit' },
    );
    const [, signal] = await once(child, 'exit');
    t.equal(signal, 'SIGKILL', moment);
  };
  for (const moment of ['out 10', 'in 10', 'the new data are complete']) {
    await killAt(moment);
    t.equal(majorIn(state_dir), OLD, `${moment}: the old data are in their place`);
  }
  t.ok(existsSync(join(state_dir, 'upgrade')));
  await killAt('the old data are in');
  t.strictSame(foldersIn(state_dir), [`postgres-${OLD}`, 'upgrade'], 'between the two renames');
  t.match(await well(state_dir, 'keys', 'list'), /early/, 'any command finishes the exchange');
  await requireUpgraded(t, state_dir, `postgres-${OLD}`);
});

t.test('a copy that does not verify is not taken, and the old data stay', async (t) => {
  const state_dir = await copied(t, 'changed');
  const old = await oldServer(t, state_dir);
  const forge = `update runledger.events set facts = facts || '{"name": "forged"}' where type = 'account.created'`;
  await asked(old.superuser_url, (db) => inEvents(db, forge));
  await old.server.stop();
  const { status, stderr } = await upgrade(state_dir);
  t.equal(status, 1);
  t.match(stderr, /\nverify found \d+ problems in the copy: the old data are as they were/);
  t.strictSame(foldersIn(state_dir), ['postgres']);
  t.equal(majorIn(state_dir), OLD);
});

t.test('a copy with other numbers of rows is not taken', async (t) => {
  requireSameRows({ a: '1', b: '0' }, { b: '0', a: '1' });
  t.throws(() => requireSameRows({ a: '2' }, { a: '1' }), { message: /^the copy of a has 1 rows/ });
  t.throws(() => requireSameRows({ a: '2' }, {}), { message: /^the copy of a has no rows/ });
  t.throws(() => requireSameRows({}, { a: '2' }), { message: /has 2 rows, and not none$/ });
});

t.test('nothing is copied where the disk has no room for it', async (t) => {
  await requireRoom(folder, 1);
  const all = {
    message: /^the copy needs \d+ GiB, \d+ GiB more than the disk of .* has free$/,
  };
  await t.rejects(requireRoom(folder, 2 ** 60), all);
});

t.test('nobody else writes to the old data while it runs; a failure leaves them', async (t) => {
  const state_dir = await copied(t, 'busy');
  const { postgres_password } = await localSecrets(state_dir);
  const env = { ...environment(state_dir), PATH: process.env['PATH'] };
  const run = (...args: string[]) =>
    spawnSync(process.execPath, args, { env, cwd: ROOT, encoding: 'utf8' });
  const tried: { command?: string; statement?: string; override?: string } = {};
  const say = (line: string) => {
    if (!line.startsWith('copied out')) return;
    tried.command = run(CLI, 'keys', 'create', '--account', 'late').stderr;
    const port = readFileSync(join(state_dir, 'postgres/postmaster.pid'), 'utf8').split('\n')[3];
    const url = `postgres://postgres:${postgres_password}@127.0.0.1:${port}/runledger`;
    const ask = (statements: string) =>
      run(
        ...['--input-type=module', '-e'],
        `import postgres from 'postgres';
         const db = postgres('${url}', { max: 1 });
         await db.unsafe("${statements}").finally(() => db.end());`,
      ).stderr;
    tried.statement = ask('create table public.late ()');
    tried.override = ask('begin read write; create table public.late (); commit');
  };
  const progress = () => {};
  await t.rejects(
    upgradeDatabase({ embedded: options(state_dir), key, old_programs, say, progress }),
    { message: 'somebody wrote to the old data while they were copied' },
  );
  t.match(
    tried.command,
    / are of PostgreSQL \d+, and this version of Runledger has PostgreSQL \d+: /,
  );
  t.match(tried.statement, /cannot execute CREATE TABLE in a read-only transaction/);
  t.equal(tried.override, '');
  t.strictSame(foldersIn(state_dir), ['postgres']);
  const old = await oldServer(t, state_dir);
  t.strictSame(await asked(old.urls.owner, contents), old_contents);
  await old.server.stop();
});

t.test('on a server of your own it does nothing', async (t) => {
  const { status, stderr } = await runledger(['upgrade-database'], {
    DATABASE_URL: w.database.url,
  });
  t.equal(status, 1);
  t.match(stderr, /^DATABASE_URL names a server of your own: make a new one, and move /);
});
