import t from 'tap';
import { connect } from '../../src/db.ts';
import { ROLES } from '../../src/local/roles.ts';
import { freshDatabase } from '../support/database.ts';

t.test('each role has its own login to a database that the owner owns', async (t) => {
  const database = await freshDatabase(t);
  for (const role of ROLES) {
    const db = connect(database.urls[role], { name: 'test', max: 1 });
    const [row] = await db`select current_user as name, current_database() as database`;
    await db.end();
    t.strictSame({ ...row }, { name: `runledger_${role}`, database: database.name });
  }
});

t.test('a login other than the four cannot connect', async (t) => {
  const database = await freshDatabase(t);
  const admin = connect(database.superuser_url, { name: 'test', max: 1 });
  const [row] = await admin`
    select has_database_privilege('pg_monitor', ${database.name}, 'connect') as allowed`;
  await admin.end();
  t.equal(row?.['allowed'], false);
});
