/** The embedded PostgreSQL of a command that others use, too, and of a folder whose data are gone. */
import { readdirSync, renameSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { connect } from '../../src/db.ts';
import {
  type Creates,
  dataDir,
  findOrStartEmbedded,
  stopUnused,
} from '../../src/local/embedded.ts';
import { runningPort } from '../../src/local/postgres.ts';

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
