/** The embedded PostgreSQL of a command that others use, too, and of a folder whose data are gone. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { connect } from '../../src/db.ts';
import {
  type Creates,
  dataDir,
  findOrStartEmbedded,
  stopUnused,
} from '../../src/local/embedded.ts';
import { runningPort } from '../../src/local/postgres.ts';
import { localSecrets } from '../../src/local/secrets.ts';

const CLI = join(import.meta.dirname, '../../src/cli/main.js');

function inFolder(t: Test) {
  const state_dir = join(t.testdir(), 'state');
  const options = { state_dir, postgres_uid: null };
  const start = async (creates: Creates) => {
    const found = await findOrStartEmbedded(options, { say() {}, creates });
    t.teardown(async () => {
      await found.server?.stop();
      // PostgreSQL's own user made them.
      await rm(state_dir, { recursive: true, force: true });
    });
    return { ...found, server: found.server! };
  };
  return { options, state_dir, start };
}

t.test('a command stops the server that it started when no other command uses it', async (t) => {
  const { options, start } = inFolder(t);
  const { server, urls } = await start('first');
  const { promise: waits, resolve: say } = Promise.withResolvers<string>();
  const other = connect(urls.owner, { name: 'runledger command', max: 1 });
  await other`select`;
  const stopped = stopUnused(server, urls, say);
  t.match(await Promise.race([waits, stopped]), /^another command uses the database .* 10 minutes/);
  t.equal((await other`select 1`).length, 1, 'the other command goes on');
  await other.end();
  await stopped;
  t.equal(await runningPort(dataDir(options)), null);
});

t.test('where data were, only a restore makes new ones', async (t) => {
  const { options, state_dir, start } = inFolder(t);
  const data_dir = dataDir(options);
  await t.rejects(start('never'), {
    message: `there is no database: DATABASE_URL is not set, and ${data_dir} has no data`,
    remedy: /`\.\/runledger serve`$/,
  });
  t.strictSame(readdirSync(join(state_dir, '..')), [], 'nothing was made');
  await (await start('first')).server.stop();
  renameSync(data_dir, `${data_dir}.away`);
  const gone = {
    message: `PostgreSQL cannot start: its data is not in ${data_dir}, or not all of it`,
    remedy: /^mount what is missing, .* RUNLEDGER_STATE_DIR to another folder$/,
  };
  for (const creates of ['never', 'first'] as const) await t.rejects(start(creates), gone, creates);
  // As a mount point without its disk.
  await mkdir(data_dir);
  await t.rejects(start('first'), gone, 'an empty folder is not a first start');
  t.strictSame(readdirSync(data_dir), []);
  await (await start('always')).server.stop();
  await rm(data_dir, { recursive: true });
  renameSync(`${data_dir}.away`, data_dir);
  await (await start('never')).server.stop();
});

t.test('beside secrets that were put there, only a restore makes data', async (t) => {
  const { state_dir, options, start } = inFolder(t);
  const from = `${state_dir}.other`;
  await localSecrets(from);
  const put = () => copyFileSync(join(from, 'secrets.json'), join(state_dir, 'secrets.json'));
  const elsewhere = {
    message: `there is no database in ${dataDir(options)}, and the keys in ${join(state_dir, 'secrets.json')} may be those of a log elsewhere`,
    remedy: /^restore a backup of that log .*; for a new log, set RUNLEDGER_STATE_DIR to another /,
  };
  await mkdir(state_dir);
  put();
  for (const creates of ['never', 'first'] as const)
    await t.rejects(start(creates), elsewhere, creates);
  t.same(readdirSync(state_dir), ['secrets.json'], 'nothing was made');
  await (await start('always')).server.stop();

  await t.test('also over those of a first start that was interrupted', async (t) => {
    const { state_dir, start } = inFolder(t);
    await localSecrets(state_dir, { for_new_data: true });
    copyFileSync(join(from, 'secrets.json'), join(state_dir, 'secrets.json'));
    await t.rejects(start('first'), /may be those of a log elsewhere/);
  });
});

t.test('a first start that was interrupted at any moment begins again', async (t) => {
  const { options, state_dir, start } = inFolder(t);
  await localSecrets(state_dir, { for_new_data: true });
  const [mark = ''] = readdirSync(state_dir).filter((name) => name !== 'secrets.json');
  // Before it had the secrets. The next one makes others.
  await rm(join(state_dir, 'secrets.json'));
  const [one, other] = await Promise.all(
    [1, 2].map(() => localSecrets(state_dir, { for_new_data: true })),
  );
  t.same(one, other, 'of two at once, both have the same');
  await (await start('first')).server.stop();
  const marks = () => readdirSync(state_dir).filter((name) => /^secrets\..*\.new$/.test(name));
  t.match(mark, /^secrets\..*\.new$/);
  t.same(marks(), [], 'no mark stays beside data');
  // With the data, and before the mark was removed.
  writeFileSync(join(state_dir, mark), '');
  await (await start('never')).server.stop();
  t.same(marks(), []);
  // A start that did not get as far as to store its port.
  await rm(join(state_dir, 'postgres.port'));
  await rm(dataDir(options), { recursive: true });
  await t.rejects(start('first'), /may be those of a log elsewhere/, 'these keys have signed');
});

t.test('killed during its first start, a command makes the data at the next', async (t) => {
  const state_dir = join(t.testdir(), 'state');
  t.teardown(() => rm(state_dir, { recursive: true, force: true }));
  const migrate = () =>
    spawn('setpriv', ['--pdeathsig=KILL', process.execPath, CLI, 'migrate'], {
      env: { PATH: process.env['PATH'], RUNLEDGER_STATE_DIR: state_dir },
      stdio: 'ignore',
    });
  const killed = migrate();
  const ended = once(killed, 'exit');
  while (killed.exitCode === null && !existsSync(join(state_dir, 'secrets.json'))) await wait(5);
  killed.kill('SIGKILL');
  await ended;
  t.same(await once(migrate(), 'exit'), [0, null]);
});
