/**
 * Migrates a database of its own and writes sql/schema.txt, sql/definitions.txt and DATA.md. `make schema` runs it on each
 * version of PostgreSQL (schema_versions.ts).
 * schema.txt is for reviews. definitions.txt has the digests of what functions and views say; verify compares a database with
 * both. DATA.md is for auditors.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, type Db } from '../../src/db.ts';
import { definitionLines, schemaLines } from '../../src/store/schema_lines.ts';
import { freshDatabase } from '../support/database.ts';
import { dataDictionary } from './data_dictionary.ts';

/** By file. */
export async function schemaFiles(db: Db): Promise<Record<string, string[]>> {
  return db.begin(async (tx) => {
    await tx`set local search_path = pg_catalog, pg_temp`;
    const definitions = await definitionLines(tx as unknown as Db);
    return {
      'schema.txt': await schemaLines(tx as unknown as Db),
      'definitions.txt': [...new Set(definitions.map(({ line }) => line))],
    };
  }) as Promise<Record<string, string[]>>;
}

const VERSIONED = /^(.*) on PostgreSQL \d+ (.*)$/;

/**
 * What a file has of other major versions of PostgreSQL. It stays until the definition changes, because then what is known of
 * other versions is out of date, and verify says so on them.
 */
export function ofOtherVersions(kept: readonly string[], made: readonly string[]): string[] {
  const thing = (line: string) => VERSIONED.exec(line)?.[1];
  const version = (line: string) => / on PostgreSQL (\d+) /.exec(line)?.[1];
  const now = version(made.find((line) => VERSIONED.test(line)) ?? '');
  const things = new Set(made.map(thing));
  const changed = new Set(
    kept.filter((line) => version(line) === now && !made.includes(line)).map(thing),
  );
  return kept.filter(
    (line) =>
      VERSIONED.test(line) &&
      version(line) !== now &&
      things.has(thing(line)) &&
      !changed.has(thing(line)),
  );
}

if (import.meta.main) {
  const undo: (() => unknown)[] = [];
  const { url, urls } = await freshDatabase({ teardown: (work) => void undo.unshift(work) });
  const db = connect(url, { name: 'schema dump', max: 1 });
  for (const [file, lines] of Object.entries(await schemaFiles(db))) {
    const url = new URL(`../../sql/${file}`, import.meta.url);
    const all = [...lines, ...ofOtherVersions(readFileSync(url, 'utf8').split('\n'), lines)].sort();
    writeFileSync(url, `${all.join('\n')}\n`);
  }
  await db.end();
  const auditor = connect(urls.auditor, { name: 'data dictionary', max: 1 });
  writeFileSync(new URL('../../DATA.md', import.meta.url), await dataDictionary(auditor));
  await auditor.end();
  for (const work of undo) await work();
}
