import t from 'tap';
import { connect } from '../../src/db.ts';
import { createDatabase, ROLES } from '../../src/local/roles.ts';
import { emptyDatabase, freshDatabase } from '../support/database.ts';

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

t.test('databases of one server can be set up at the same time', async (t) => {
  const databases = await Promise.all(Array.from({ length: 6 }, () => emptyDatabase(t)));
  for (let round = 0; round < 5; round += 1) {
    // Each writes the settings of the same login.
    const ends = await Promise.allSettled(
      databases.map(({ superuser_url, name }) => createDatabase(superuser_url, name)),
    );
    const refused = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason.message] : []));
    t.strictSame(refused, [], `round ${round}`);
  }
});
