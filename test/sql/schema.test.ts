import { readFileSync } from 'node:fs';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { freshDatabase } from '../support/database.ts';
import { dataDictionary, visibleToAuditor } from './data_dictionary.ts';
import { ofOtherVersions, schemaFiles } from './schema_dump.ts';

t.test(
  'sql/schema.txt and sql/definitions.txt are the schema that the migrations make',
  async (t) => {
    const db = connect((await freshDatabase(t)).url, { name: 'test', max: 1 });
    t.teardown(() => db.end());
    for (const [file, lines] of Object.entries(await schemaFiles(db))) {
      const kept = readFileSync(new URL(`../../sql/${file}`, import.meta.url), 'utf8');
      const all = kept.split('\n').filter(Boolean);
      const others = ofOtherVersions(all, lines);
      const expected = all.filter((line) => !others.includes(line));
      const hint = `${file}; if the change is meant: make schema`;
      t.same(
        lines.filter((line) => !expected.includes(line)),
        [],
        `the database has nothing that the file lacks (${hint})`,
      );
      t.same(
        expected.filter((line) => !lines.includes(line)),
        [],
        `the file has nothing that the database lacks (${hint})`,
      );
    }
  },
);

t.test('what depends on the version of PostgreSQL is known of each version', async (t) => {
  const kept = readFileSync(new URL('../../sql/definitions.txt', import.meta.url), 'utf8');
  const known = new Map<string, string[]>();
  for (const [, thing, major] of kept.matchAll(/^(.*) on PostgreSQL (\d+) .*$/gm))
    known.set(thing!, [...(known.get(thing!) ?? []), major!]);
  t.ok(known.size > 0, 'some definitions depend on it');
  for (const [thing, majors] of known)
    t.same(majors, ['15', '16', '17', '18'], `${thing}; if not: make schema`);
});

t.test('DATA.md describes everything that the auditor sees', async (t) => {
  const auditor = connect((await freshDatabase(t)).urls.auditor, { name: 'test', max: 1 });
  t.teardown(() => auditor.end());
  const { views, functions } = await visibleToAuditor(auditor);
  for (const { name, comment, columns } of [...views, ...functions]) {
    t.ok(comment, `${name} has a comment`);
    for (const column of columns) t.ok(column.comment, `${name}.${column.name} has a comment`);
  }
  const kept = readFileSync(new URL('../../DATA.md', import.meta.url), 'utf8').split('\n');
  const made = (await dataDictionary(auditor)).split('\n');
  t.same(kept, made, 'if the change is meant: make schema');
});
