import { readFileSync } from 'node:fs';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { freshDatabase } from '../support/database.ts';
import { schemaDump } from './schema_dump.ts';

t.test('the migrated schema is the one that sql/schema.txt shows', async (t) => {
  const db = connect((await freshDatabase(t)).url, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  const kept = readFileSync(new URL('../../sql/schema.txt', import.meta.url), 'utf8');
  const lines = (await schemaDump(db)).split('\n');
  const expected = kept.split('\n');
  const hint = 'when it is meant: node test/sql/schema_dump.ts URL > sql/schema.txt';
  t.same(
    lines.filter((line) => !expected.includes(line)),
    [],
    `nothing is there that the file has not (${hint})`,
  );
  t.same(
    expected.filter((line) => !lines.includes(line)),
    [],
    'nothing is missing',
  );
});
