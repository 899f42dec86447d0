/** What the administrator of a server does, honest and not: each on a server of its own, because roles and settings are shared. */
import { chown, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { createDatabase } from '../../src/local/roles.ts';
import { verify } from '../../src/store/verify.ts';
import { ownServer } from '../support/database.ts';
import { matchLists } from '../support/match_lists.ts';

type Test = Parameters<typeof ownServer>[0];

async function scene(t: Test) {
  const server = await ownServer(t);
  const root = connect(server.superuser_url, { name: 'administrator', max: 1, unpinned: true });
  t.teardown(() => root.end());
  const problems = async () => {
    const db = connect(server.url, { name: 'verify', max: 1, unpinned: true });
    try {
      return (await verify(db)).problems;
    } finally {
      await db.end();
    }
  };
  return { server, root, problems };
}

t.test(
  'a server that is started again is as it was, and the auditor may have settings',
  async (t) => {
    const { server, root, problems } = await scene(t);
    t.same(await problems(), []);
    const postgres = new URL(server.superuser_url);
    postgres.pathname = '/postgres';
    // As each start of the embedded PostgreSQL does.
    await createDatabase(postgres.href, 'runledger');
    await root`vacuum (full, freeze, analyze)`;
    t.same(await problems(), []);
    const auditor = connect(server.urls.auditor, { name: 'auditor', max: 1 });
    await auditor`set default_transaction_read_only = off`;
    await auditor`alter role runledger_auditor set search_path = public, pg_catalog`;
    t.same(await problems(), []);
    await auditor`alter role runledger_auditor set bytea_output = escape`;
    await auditor.end();
    matchLists(t, await problems(), [/setting of role runledger_auditor: bytea_output=escape$/]);
  },
);

t.test('settings of the server and of the owner cannot mislead verify', async (t) => {
  const { server, root, problems } = await scene(t);
  const modern = Number((await root`show server_version_num`)[0]!['server_version_num']) >= 170_000;
  for (const setting of [
    ...(modern ? ["transaction_timeout = '5s'"] : []),
    "statement_timeout = '1s'",
    'enable_seqscan = off',
    'random_page_cost = 0',
    "work_mem = '64kB'",
  ])
    await root.unsafe(`alter role runledger_owner set ${setting}`);
  const stop = connect(server.superuser_url, { name: 'stop', max: 1 });
  t.teardown(() => stop.end());
  // The last table that verify reads. Nothing here is fast enough to see whether a limit counts.
  await stop
    .unsafe('begin; lock table runledger.webhook_secrets in access exclusive mode')
    .simple();
  const checking = problems();
  while (
    (
      await root`
        select from pg_stat_activity
        where application_name = 'verify' and wait_event_type = 'Lock' and xact_start < clock_timestamp() - interval '6 s'`
    ).length === 0
  )
    await wait(200);
  await stop`commit`;
  t.same(await checking, [], 'its limits and plans are not those of the role');
  await root.unsafe('create schema evil');
  await root.unsafe('alter system set search_path = evil, pg_catalog');
  await root`select pg_reload_conf()`;
  const shown = async () => String((await root`show search_path`)[0]!['search_path']);
  while (!(await shown()).startsWith('evil'));
  matchLists(t, await problems(), [
    /^the schema has what this release has not: setting of the server: search_path=evil, pg_catalog/,
  ]);
});

t.test('a standby is checked without what it cannot read', async (t) => {
  const { server, root } = await scene(t);
  const conflict = (code: string) =>
    root.unsafe(`create or replace function public.fails() returns boolean language plpgsql as $$ begin
      raise exception 'canceling statement due to conflict with recovery' using errcode = '${code}'; end $$`);
  const checked = async () => {
    const db = connect(server.url, { name: 'verify', max: 1, unpinned: true });
    try {
      return await verify(db);
    } finally {
      await db.end();
    }
  };
  const again = async (standby: boolean) => {
    await server.stop();
    const file = join(server.data_dir, 'standby.signal');
    if (standby) {
      await writeFile(file, '');
      const { uid, gid } = await stat(server.data_dir);
      await chown(file, uid, gid);
    } else await rm(file);
    await server.start();
  };
  const shown = async () => {
    const { problems, unchecked } = await checked();
    return { problems, unchecked };
  };
  t.same(await shown(), { problems: [], unchecked: [] });
  await again(true);
  t.same((await root`select pg_is_in_recovery() as yes`)[0], { yes: true });
  t.same(await shown(), {
    problems: [],
    unchecked: ['output_pieces', 'output_watches', 'progress'].map(
      (table) => `the rows of ${table}: a standby does not have those of an unlogged table`,
    ),
  });
  await again(false);
  await conflict('40001');
  await root.unsafe(`create or replace view runledger.tiers_from_log as
    select * from runledger.tiers where public.fails()`);
  const { problems } = await checked();
  t.ok(
    problems.includes('tiers: canceling statement due to conflict with recovery'),
    'on a primary it is a problem',
  );
  await again(true);
  await t.rejects(checked(), {
    message: /^the standby cancelled a statement of verify: .*\. Run it again/,
  });
});
