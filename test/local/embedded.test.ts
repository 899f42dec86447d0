/** The embedded PostgreSQL of a command that others use, too. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { dataDir, findOrStartEmbedded, stopUnused } from '../../src/local/embedded.ts';
import { runningPort } from '../../src/local/postgres.ts';

t.test('a command stops the server that it started when no other command uses it', async (t) => {
  const state_dir = join(t.testdir(), 'state');
  const options = { state_dir, postgres_uid: null };
  const { promise: waits, resolve: say } = Promise.withResolvers<string>();
  const { server, urls } = await findOrStartEmbedded(options, { say });
  t.teardown(async () => {
    await server?.stop();
    // PostgreSQL's own user made them.
    await rm(state_dir, { recursive: true, force: true });
  });
  const other = connect(urls.owner, { name: 'runledger command', max: 1 });
  await other`select`;
  const stopped = stopUnused(server!, urls, say);
  t.match(await Promise.race([waits, stopped]), /^another command uses the database .* 10 minutes/);
  t.equal((await other`select 1`).length, 1, 'the other command goes on');
  await other.end();
  await stopped;
  t.equal(await runningPort(dataDir(options)), null);
});
