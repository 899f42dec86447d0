/**
 * `make schema` runs this file: it migrates a database of its own and writes sql/schema.txt, sql/definitions.txt and DATA.md.
 * schema.txt is for reviews. definitions.txt has the digests of what functions and views say; verify compares a database with
 * both. DATA.md is for auditors.
 */
import { writeFileSync } from 'node:fs';
import { connect, type Db } from '../../src/db.ts';
import { definitionLines, schemaLines } from '../../src/store/schema_lines.ts';
import { freshDatabase } from '../support/database.ts';
import { dataDictionary } from './data_dictionary.ts';

/** By file. */
export async function schemaFiles(db: Db): Promise<Record<string, string[]>> {
  return db.begin(async (tx) => {
    await tx`set local search_path = pg_catalog`;
    const definitions = await definitionLines(tx as unknown as Db);
    return {
      'schema.txt': await schemaLines(tx as unknown as Db),
      'definitions.txt': [...new Set(definitions.map(({ line }) => line))],
    };
  }) as Promise<Record<string, string[]>>;
}

if (import.meta.main) {
  const undo: (() => unknown)[] = [];
  const { url, urls } = await freshDatabase({ teardown: (work) => void undo.unshift(work) });
  const db = connect(url, { name: 'schema dump', max: 1 });
  for (const [file, lines] of Object.entries(await schemaFiles(db)))
    writeFileSync(new URL(`../../sql/${file}`, import.meta.url), `${lines.join('\n')}\n`);
  await db.end();
  const auditor = connect(urls.auditor, { name: 'data dictionary', max: 1 });
  writeFileSync(new URL('../../DATA.md', import.meta.url), await dataDictionary(auditor));
  await auditor.end();
  for (const work of undo) await work();
}
