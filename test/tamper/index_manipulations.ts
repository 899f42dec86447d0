/** Rows that an index hides, or leads to in place of others. */
import type { Db } from '../../src/db.ts';
import { lowerFirstKey } from './index_pages.ts';
import type { Manipulation } from './manipulation.ts';

/** Runs statements that the indexes of these tables do not take part in. */
async function pastIndexes(
  root: Db,
  flags: string,
  tables: readonly string[],
  statements: string,
): Promise<void> {
  const set = (value: boolean) =>
    `update pg_index set ${flags
      .split(', ')
      .map((flag) => `${flag} = ${value}`)
      .join(
        ', ',
      )} where indrelid = any (array[${tables.map((table) => `'${table}'`)}]::regclass[])`;
  // The server looks at the indexes of a table again when the row of the table has changed.
  const look = `update pg_class set relname = relname where oid = any (array[${tables.map((table) => `'${table}'`)}]::regclass[])`;
  await root.unsafe(`${set(false)}; ${look}`).simple();
  await root.unsafe(statements).simple();
  await root.unsafe(`${set(true)}; ${look}`).simple();
}

const tableOf = async (root: Db, table: string, id: string): Promise<string> => {
  const [row] = await root.unsafe<{ name: string }[]>(
    `select tableoid::regclass::text as name from runledger.${table} where id = '${id}'`,
  );
  return row!.name;
};

/** A secret that its key's index does not have, beside the one that logins go by. */
const hideSecret = (root: Db) =>
  pastIndexes(
    root,
    'indisready, indisvalid',
    ['runledger.key_secrets'],
    `update pg_index set indisready = true, indisvalid = true where indexrelid = 'runledger.key_secrets_prefix'::regclass;
     insert into runledger.key_secrets select key_id, sha256('mine'), created_at, null from runledger.key_secrets limit 1`,
  );

export const indexManipulations: readonly Manipulation[] = [
  {
    name: 'a secret is added to a key, hidden from the primary key',
    does: ({ root }) => hideSecret(root),
    says: /^key_secrets: .* should not be there/,
  },
  {
    name: 'the same, and the owner’s settings make indexes cheap',
    does: async ({ root }) => {
      await hideSecret(root);
      const settings = [
        'seq_page_cost = 1e9',
        'random_page_cost = 0',
        'cpu_index_tuple_cost = 0',
        'cpu_tuple_cost = 0',
        'enable_hashjoin = off',
      ];
      for (const setting of settings)
        await root.unsafe(
          `do $$ begin execute format('alter role runledger_owner in database %I set ${setting}', current_database()); end $$`,
        );
    },
    says: /^key_secrets: .* should not be there/,
  },
  {
    name: 'a submission is hidden from the index by which it is found',
    does: async ({ root }, { ids }) => {
      const table = await tableOf(root, 'submissions', ids[0]!);
      await pastIndexes(
        root,
        'indisready, indisvalid',
        [table],
        `create temporary table kept as select * from ${table} where id = '${ids[0]}';
         delete from ${table} where id = '${ids[0]}'; insert into ${table} select * from kept`,
      );
    },
    says: /^the index submissions_\S+_pkey does not have the keys of the rows of submissions_\S+: it has \d+, and the table \d+/,
  },
  {
    name: 'the index of submissions leads to each of two in place of the other',
    does: async ({ root }, { ids }) => {
      const table = await tableOf(root, 'submissions', ids[0]!);
      await pastIndexes(
        root,
        'indislive',
        [table],
        `update ${table} set id = case id when '${ids[0]}' then '${ids[2]}'::uuid else '${ids[0]}' end where id in ('${ids[0]}', '${ids[2]}')`,
      );
    },
    says: /^the index submissions_\S+_pkey leads to rows of other keys than it has/,
  },
  {
    name: 'a key in the root of an index is lowered: some secrets are no longer found',
    does: async ({ root }) => {
      await root`
        select runledger.create_key('customer' || n, 'free', 'rl', sha256(convert_to('secret' || n, 'UTF8')), 'op@host')
        from generate_series(1, 900) n`;
      await lowerFirstKey(root, 'runledger.key_secrets_prefix');
    },
    says: /^the index key_secrets_prefix does not find \d+ of its keys when they are looked up in key_secrets/,
  },
];
