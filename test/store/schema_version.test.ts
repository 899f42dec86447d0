/** Of which version a database is, by what its migrations and its definitions say. */
import t from 'tap';
import { connect } from '../../src/db.ts';
import { migrate } from '../../src/store/migrate.ts';
import { definitionsDigest, OtherSchema, schemaOf } from '../../src/store/schema_version.ts';
import { emptyDatabase, freshDatabase } from '../support/database.ts';

type Test = { teardown(work: () => unknown): void };

async function scene(t: Test) {
  const database = await freshDatabase(t);
  const db = connect(database.url, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const said = async (through = db) => {
    const found = await schemaOf(through);
    return found instanceof OtherSchema
      ? `${found.kind}: ${found.message}: ${found.remedy}`
      : found;
  };
  return { database, db, said };
}

const MIGRATE = 'run `./runledger migrate`, after a backup';
const OTHER =
  'definitions: the functions and views of the database are of another version of Runledger: run `./runledger migrate` of the newer one of the two, after a backup, and use that version';

t.test('a database of this version, and one without tables', async (t) => {
  const { db, database, said } = await scene(t);
  t.equal(await said(), 'ours');
  for (const role of ['web', 'worker'] as const) {
    const login = connect(database.urls[role], { name: 'test', max: 1 });
    t.equal(await said(login), 'ours', `as ${role} sees it`);
    await login.end();
  }
  await db`delete from runledger.migrations`;
  t.equal(await said(), 'none');
  const { url } = await emptyDatabase(t);
  const empty = connect(url, { name: 'test', max: 1 });
  t.equal(await said(empty), 'none');
  await empty.end();
});

t.test(
  'a database of an older version, of a newer one, and with a changed migration',
  async (t) => {
    const { db, database, said } = await scene(t);
    const [last] = await db<{ name: string; sha256: string }[]>`
    delete from runledger.migrations where name = (
      select max(name) from runledger.migrations where name ~ '^[0-9]') returning name, sha256`;
    const NEWER = 'newer: the database is of a newer version of Runledger: it has';
    t.equal(
      await said(),
      `older: the database is of an older version of Runledger: 1 migration is missing: ${MIGRATE}`,
    );
    await db`insert into runledger.migrations ${db({ ...last!, sha256: 'other' })}`;
    t.equal(
      await said(),
      `newer: the database is of another version of Runledger: it has another ${last!.name}: use that version`,
    );
    await db`update runledger.migrations set sha256 = ${last!.sha256} where name = ${last!.name}`;
    t.equal(await said(), 'ours');
    await db`insert into runledger.migrations (name, sha256) values ('999999_later.sql', 'x')`;
    t.equal(await said(), `${NEWER} 999999_later.sql: use that version`);

    const definitions = () => db`select sha256, applied_at from runledger.migrations
    where name = 'definitions'`;
    await db`update runledger.migrations set sha256 = 'later' where name = 'definitions'`;
    const before = await definitions();
    await t.rejects(migrate(database.url), { kind: 'newer', message: /it has 999999_later\.sql$/ });
    t.same(
      await definitions(),
      before,
      'an older `migrate` leaves the functions of a newer version',
    );
  },
);

t.test('a database whose functions and views are of another version', async (t) => {
  const { db, database, said } = await scene(t);
  await db`update runledger.migrations set sha256 = 'other' where name = 'definitions'`;
  t.equal(await said(), OTHER);
  t.match(await migrate(database.url), { definitions: 'replaced' });
  t.equal(await said(), 'ours');
  await db`delete from runledger.migrations where name = 'definitions'`;
  t.equal(await said(), OTHER);
  // Made where there were fewer roles.
  const digest = await definitionsDigest();
  for (const roles of [[], ['runledger_web'], ['runledger_auditor', 'runledger_worker']]) {
    await db`insert into runledger.migrations (name, sha256) values ('definitions', ${digest(roles)})
      on conflict (name) do update set sha256 = excluded.sha256`;
    t.equal(await said(), 'ours', `with the roles ${roles}`);
  }
});

t.test('a login that may not read the migrations is sent to migrate', async (t) => {
  const { db, database, said } = await scene(t);
  await db`revoke select on runledger.migrations from runledger_worker`;
  const worker = connect(database.urls.worker, { name: 'test', max: 1 });
  t.teardown(() => worker.end({ timeout: 1 }));
  const UNREADABLE = /^older: this login may not read which migrations the database has: run/;
  t.match(await said(worker), UNREADABLE);
  const auditor = connect(database.urls.auditor, { name: 'test', max: 1 });
  t.teardown(() => auditor.end({ timeout: 1 }));
  t.match(await said(auditor), UNREADABLE);
  await db`revoke usage on schema runledger from runledger_worker`;
  t.match(await said(worker), UNREADABLE);
});
