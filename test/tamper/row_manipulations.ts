/** Rows that are there twice, or in the partition of another month; and rows of tables that the log does not give. */
import { createHash } from 'node:crypto';
import type { Db } from '../../src/db.ts';
import { parseRemovals } from '../../src/domain/removals.ts';
import { addItems, emptySketch, itemBytes } from '../../src/domain/sketch.ts';
import { ENTRY_COLUMNS, parseEntry } from '../../src/proof/entry.ts';
import { HASH_BYTES, leafHash } from '../../src/proof/merkle.ts';
import { readEntries } from '../../src/store/entries.ts';
import { detachMonth } from '../../src/store/retention.ts';
import { type Manipulation, statements } from './manipulation.ts';

const nameOf = async (root: Db, table: string, column: string, id: string): Promise<string> => {
  const [row] = await root.unsafe<{ name: string }[]>(
    `select c.relname as name from runledger.${table} x join pg_class c on c.oid = x.tableoid where x.${column} = '${id}' limit 1`,
  );
  return row!.name;
};

/** Writes rows that unique indexes would refuse. All indexes have their entries. */
async function pastUniqueness(root: Db, table: string, sql: string): Promise<void> {
  const its = `indrelid = 'runledger.${table}'::regclass`;
  // The server looks at the indexes of a table again when the row of the table has changed.
  const look = `update pg_class set relname = relname where oid = 'runledger.${table}'::regclass`;
  await root
    .unsafe(`create table public.marks as select indexrelid, indisunique, indisprimary from pg_index where ${its};
      update pg_index set indisunique = false, indisprimary = false where ${its}; ${look}`)
    .simple();
  await root
    .unsafe(`set session_replication_role = replica; ${sql}; reset session_replication_role`)
    .simple();
  await root
    .unsafe(`update pg_index x set indisunique = m.indisunique, indisprimary = m.indisprimary
      from public.marks m where m.indexrelid = x.indexrelid; ${look}; drop table public.marks`)
    .simple();
}

const twice = (root: Db, table: string, where = 'true') =>
  pastUniqueness(
    root,
    table,
    `insert into runledger.${table} select * from runledger.${table} where ${where}`,
  );

const notUnique = (root: Db, table: string) =>
  root.unsafe(
    `update pg_index set indisunique = false, indisprimary = false where indrelid = 'runledger.${table}'::regclass`,
  );

const hasTwice = (index: string) =>
  new RegExp(`^the index ${index} is unique, and \\d+ of its keys are there again`);

const wholeTwice = (table: string): Manipulation => ({
  name: `each row of ${table} is there twice`,
  does: async ({ root }) => twice(root, table),
  says: hasTwice(`${table}_pkey`),
});

/** A table of another month, as of the submission `like`. */
async function moveRows(
  root: Db,
  { table, column, id, like }: { table: string; column: string; id: string; like: string },
): Promise<void> {
  const from = await nameOf(root, table, column, id);
  const to = await nameOf(root, 'submissions', 'id', like);
  await moveInto(root, { from, to: to.replace('submissions', table), column, id });
}

async function moveInto(
  root: Db,
  { from, to, column, id }: { from: string; to: string; column: string; id: string },
): Promise<void> {
  const attached = (value: boolean) =>
    `update pg_class set relispartition = ${value} where oid = 'runledger.${to}'::regclass`;
  await root.unsafe(`set session_replication_role = replica; ${attached(false)}`).simple();
  await root
    .unsafe(`create temporary table moved as select * from runledger.${from} where ${column} = '${id}';
      delete from runledger.${from} where ${column} = '${id}'; insert into runledger.${to} select * from moved; drop table moved`)
    .simple();
  await root.unsafe(`${attached(true)}; reset session_replication_role`).simple();
}

async function moveEvents(
  root: Db,
  { from, to, id }: { from: string; to: string; id: string },
): Promise<void> {
  for (const table of [from, to])
    await root.unsafe(`alter table runledger.${table} disable trigger refuse_change`);
  await moveInto(root, { from, to, column: 'stream', id });
  for (const table of [from, to])
    await root.unsafe(`alter table runledger.${table} enable always trigger refuse_change`);
}

/**
 * Detaches the month of `like` as the command does, without the check that no event is of another month. Returns the line of the
 * removals with which an operator would allow it.
 */
async function detach(root: Db, like: string): Promise<string> {
  const name = await nameOf(root, 'submissions', 'id', like);
  const month = name.replace('submissions_', '');
  const refused = await detachMonth(root, month).catch((error: unknown) => error);
  if (!/its table has events of \S+, which is of another month/.test(String(refused)))
    throw new Error('events of another month were detached', { cause: refused });
  const [tiles] = await root<{ hashes: Buffer }[]>`
    select string_agg(t.hashes, '' order by t.index) as hashes from runledger.log_tiles t where t.level = 0`;
  const [sketch, digest, firsts] = [emptySketch(), createHash('sha256'), [] as number[]];
  const query = `select ${ENTRY_COLUMNS} from runledger.events_${month} order by generation, xid, seq`;
  for await (const entries of readEntries(root, query))
    for (const entry of entries) {
      const leaf = leafHash(entry);
      const { stream, version } = parseEntry(entry);
      addItems(sketch, itemBytes(stream, version, leaf));
      digest.update(leaf);
      firsts.push(tiles!.hashes.indexOf(leaf) / HASH_BYTES);
    }
  const leaves_sketch = sketch.toString('base64');
  const events = firsts.length;
  const facts = {
    events,
    sketch: leaves_sketch,
    leaves_sketch,
    leaves_sha256: digest.digest('hex'),
  };
  const [whole] = await root<{ sql: string }[]>`
    select pg_get_functiondef('runledger.detach_month'::regproc) as sql`;
  const without = whole!.sql.replace(
    'perform refuse_contents(month, facts, firsts, counts, sealed.generation, sealed.to_xid);',
    '',
  );
  if (without === whole!.sql) throw new Error('the check of detach_month has another form');
  await root.unsafe(without);
  await root`
    select runledger.detach_month(${month}, ${JSON.stringify(facts)}::text::jsonb, ${`{${firsts}}`}::text::bigint[],
      ${`{${firsts.map(() => 1)}}`}::text::bigint[])`;
  await root.unsafe(whole!.sql);
  return `detached events_${month} ${events} ${facts.leaves_sha256}`;
}

/** What the auditor allows, because the operator said so. */
let allowed = '';

const isElsewhere = (partition: string, rows: number) =>
  new RegExp(`^${rows} rows of ${partition} belong to another partition, the first of `);

export const rowManipulations: readonly Manipulation[] = [
  {
    name: 'a submission is moved to the table of another month',
    does: ({ root }, { ids, purged_ids }) =>
      moveRows(root, { table: 'submissions', column: 'id', id: ids[8]!, like: purged_ids[0]! }),
    says: isElsewhere('submissions_\\d{4}_\\d\\d', 1),
  },
  {
    name: 'a delivery is moved to the table of another month',
    does: ({ root }, { ids, purged_ids }) =>
      moveRows(root, { table: 'deliveries', column: 'id', id: ids[7]!, like: purged_ids[0]! }),
    says: isElsewhere('deliveries_\\d{4}_\\d\\d', 1),
  },
  {
    name: 'bytes of a submission are moved to the table of another month',
    does: ({ root }, { judged_id, purged_ids }) =>
      moveRows(root, {
        table: 'payloads',
        column: 'stream',
        id: judged_id,
        like: purged_ids[0]!,
      }),
    says: isElsewhere('payloads_\\d{4}_\\d\\d', 5),
  },
  {
    name: 'a submission is moved to the tables of the month that is detached next, and the auditor allows that month',
    does: async ({ root }, { ids, purged_ids, partition }) => {
      const like = purged_ids[0]!;
      const to = (await nameOf(root, 'submissions', 'id', like)).replace('submissions', 'events');
      await moveEvents(root, { from: partition, to, id: ids[1]! });
      await moveRows(root, { table: 'payloads', column: 'stream', id: ids[1]!, like });
      await moveRows(root, { table: 'deliveries', column: 'id', id: ids[1]!, like });
      await moveRows(root, { table: 'submissions', column: 'id', id: ids[1]!, like });
      allowed = await detach(root, like);
    },
    with: { allow: () => parseRemovals(allowed) },
    says: /^events_\d{4}_\d\d was detached with events of \S+, which is not of that month/,
  },
  {
    name: 'a submission is moved to the table of what has no month',
    does: async ({ root }, { ids }) =>
      moveInto(root, {
        from: await nameOf(root, 'submissions', 'id', ids[8]!),
        to: 'submissions_default',
        column: 'id',
        id: ids[8]!,
      }),
    says: isElsewhere('submissions_default', 1),
  },
  {
    name: 'the bytes of a test set are moved to the table of what has no month',
    does: ({ root }, { set_id }) =>
      moveInto(root, {
        from: 'payloads_permanent',
        to: 'payloads_default',
        column: 'stream',
        id: set_id,
      }),
    says: isElsewhere('payloads_default', 1),
  },
  {
    name: 'the events of a submission are moved to the table of what has no month',
    does: ({ root }, { ids, partition }) =>
      moveEvents(root, { from: partition, to: 'events_default', id: ids[8]! }),
    says: /^stream \S+ is in events_default, which is not its partition/,
  },
  {
    name: 'a submission is there twice, in a table that is said to be large',
    does: async ({ root }, { ids }) => {
      const table = await nameOf(root, 'submissions', 'id', ids[8]!);
      await twice(root, table, `id = '${ids[8]}'`);
      await root.unsafe(
        `update pg_class set reltuples = 1000000, relpages = 1 where relname ~ '^submissions_20' and relkind = 'r'`,
      );
    },
    says: hasTwice('submissions_\\S+_pkey'),
  },
  {
    name: 'a delivery is there twice',
    does: async ({ root }, { ids }) =>
      twice(root, await nameOf(root, 'deliveries', 'id', ids[1]!), `id = '${ids[1]}'`),
    says: hasTwice('deliveries_\\S+_pkey'),
  },
  {
    name: 'bytes of a submission are there twice',
    does: async ({ root }, { ids }) =>
      twice(root, await nameOf(root, 'payloads', 'stream', ids[8]!), `stream = '${ids[8]}'`),
    says: hasTwice('payloads_\\S+_pkey'),
  },
  {
    name: 'the bytes of its tests are there twice',
    does: async ({ root }, { judged_id }) =>
      twice(
        root,
        await nameOf(root, 'payloads', 'stream', judged_id),
        `stream = '${judged_id}' and kind = 'tests'`,
      ),
    says: hasTwice('payloads_\\S+_pkey'),
  },
  ...[
    ...['accounts', 'keys', 'key_secrets', 'tiers', 'test_sets', 'test_set_contents'],
    ...['log_sketch', 'cosignatures', 'generations', 'key_usage', 'account_usage'],
  ].map(wholeTwice),
  {
    name: 'each row of keys is there twice, and their index is not called unique any more',
    does: async ({ root }) => {
      await twice(root, 'keys');
      await notUnique(root, 'keys');
    },
    says: hasTwice('keys_pkey'),
  },
  {
    name: 'a submission is there twice, and the index of its month is not called unique any more',
    does: async ({ root }, { ids }) => {
      const table = await nameOf(root, 'submissions', 'id', ids[8]!);
      await twice(root, table, `id = '${ids[8]}'`);
      await notUnique(root, table);
    },
    says: hasTwice('submissions_\\S+_pkey'),
  },
  {
    name: 'a refusal without a key is counted in two rows',
    does: async ({ root }) => {
      await root.unsafe(`insert into runledger.refusals (hour, error, requests, last_at, last_request_id, key_prefix)
        values (date_trunc('hour', now()), 'unauthorized', 1, now(), 'x', 'rl_x')`);
      await twice(root, 'refusals');
    },
    says: hasTwice('refusals_key_id_hour_error_key_prefix_key'),
  },
  {
    name: 'an idempotency key is there twice',
    does: async ({ root }) => {
      await root.unsafe(`insert into runledger.idempotency (account_id, key, submission_id, created_at, request_digest)
        select account_id, gen_random_uuid(), id, created_at, sha256('x') from runledger.submissions limit 1`);
      await twice(root, 'idempotency');
    },
    says: hasTwice('idempotency_pkey'),
  },
  {
    name: 'a migration was not applied',
    does: statements(
      `delete from runledger.migrations where name = (select max(name) from runledger.migrations where name ~ '^0')`,
    ),
    says: /^the database lacks the migration \d{6}_\w+\.sql of this release/,
  },
  {
    name: 'a migration of another text was applied',
    does: statements(
      `update runledger.migrations set sha256 = encode(sha256('x'), 'hex') where name ~ '^000001'`,
    ),
    says: /^the migration 000001_ledger\.sql was applied with another text/,
  },
  {
    name: 'a migration of no release was applied',
    does: statements(
      `insert into runledger.migrations (name, sha256) values ('999999_x.sql', 'x')`,
    ),
    says: /^the database has the migration 999999_x\.sql, which this release has not/,
  },
];
