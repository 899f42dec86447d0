/**
 * Were the migrations of this release applied, each with the text that it has here? The row of the definitions is left out:
 * its digest only says whether the next start must replace them, and verify_shape.ts compares what they are.
 */
import type { Db } from '../db.ts';
import type { Problems } from './problems.ts';
import { BY_PAGES, reading } from './scans.ts';
import { DEFINITIONS } from './schema_version.ts';
import { digestOf, sqlFiles } from './sql_files.ts';

export async function checkMigrations(db: Db, problems: Problems): Promise<void> {
  const rows = await reading(
    db,
    BY_PAGES,
    () => db<{ name: string; sha256: string }[]>`
      select m.name, m.sha256 from runledger.migrations m where m.name <> ${DEFINITIONS} order by m.name`,
  );
  const applied = new Map(rows.map(({ name, sha256 }) => [name, sha256]));
  for (const { name, text } of await sqlFiles('migrations')) {
    const sha256 = applied.get(name);
    if (sha256 === undefined)
      problems.add('schema', `the database lacks the migration ${name} of this release`);
    else if (sha256 !== digestOf(text))
      problems.add('schema', `the migration ${name} was applied with another text`);
    applied.delete(name);
  }
  for (const name of applied.keys())
    problems.add('schema', `the database has the migration ${name}, which this release has not`);
}
