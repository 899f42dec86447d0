/**
 * Builds the projections from the log again, beside the live ones, and swaps them in while the service runs.
 *
 * 1. Create tables of the same shape in a schema of their own, and fill them by folding the log (fold_submissions,
 *    fold_deliveries: the same functions that compute the rows of live writes).
 * 2. Fold the streams again that got events since the fill began, until few are left.
 * 3. Swap, in one short transaction: wait for the writers of the projections and make new ones wait, fold the last streams,
 *    and exchange the partitions. The parent tables stay, so nothing that names them breaks. A writer appends an event and
 *    stores its row in one transaction, so no writer is between the two when the swap has its locks.
 * 4. Correct the rows of test sets, which are read from manifests: that takes longer than the swap may.
 * 5. Recount the counters that are not in the log (of keys, accounts and the queue).
 *
 * No verify runs during the swap (beside_verify.ts). The swap requests its locks with a time limit and tries again, so it never
 * makes the service wait for long. An event that must not follow (RL422) ends the rebuild, and the live projections stay as they
 * are.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type postgres from 'postgres';
import type { Db } from '../db.ts';
import { Fault } from '../fault.ts';
import { EXCHANGE_LOCK, waitForVerify } from './beside_verify.ts';
import { PERMANENT } from './stream_kinds.ts';

export type Rebuilt = {
  events: number;
  rows: number;
  /** Streams that were folded again because they got events during the rebuild; those of them that the swap folded. */
  caught_up: number;
  swapped_late: number;
  /** Counters that were wrong. */
  recounted: number;
  fill_ms: number;
  /** How long the swap made others wait. */
  locked_ms: number;
  total_ms: number;
};

type Small = { readonly table: string; readonly key: string };

const NEW = 'runledger_rebuild';
const OLD = 'runledger_replaced';
/** The large tables, whose partitions are exchanged. In the small ones single rows are corrected. */
const EXCHANGED = ['submissions', 'deliveries'];
const SMALL: readonly Small[] = [
  { table: 'accounts', key: 'id' },
  { table: 'tiers', key: 'id' },
  { table: 'keys', key: 'id' },
  { table: 'key_secrets', key: 'key_id, digest' },
  { table: 'operators', key: 'id' },
];
const OF_TEST_SETS: readonly Small[] = [
  { table: 'test_sets', key: 'id' },
  { table: 'test_set_contents', key: 'test_set_id, content_id' },
];
const LOCK = 0x52_4c_52_42;
const FEW_STREAMS = 200;
const MAX_PASSES = 20;
const MAX_SWAPS = 60;
const SWAP_LOCK_MS = 500;

export async function rebuild(db: Db, say: (line: string) => void = () => {}): Promise<Rebuilt> {
  // Without a query for types (db_arrays.ts), postgres.js never reserves a connection that it would have to open first.
  await db`select`;
  const alone = await db.reserve();
  try {
    const [lock] = await alone<{ free: boolean }[]>`select pg_try_advisory_lock(${LOCK}) as free`;
    if (!lock!.free) throw new Fault('another rebuild is running', 'wait until it has ended');
    try {
      return await rebuildAlone(alone, say);
    } catch (error) {
      await dropTables(alone).catch(() =>
        say(`the schemas ${NEW} and ${OLD} are left, and take room: the next rebuild drops them`),
      );
      throw error;
    }
  } finally {
    // A connection that was lost is not ours any more.
    await alone`select pg_advisory_unlock(${LOCK})`.then(
      () => alone.release(),
      () => {},
    );
  }
}

async function rebuildAlone(
  db: postgres.ReservedSql,
  say: (line: string) => void,
): Promise<Rebuilt> {
  const began = performance.now();
  await makeTables(db);
  let seen = await snapshot(db);
  const { events, rows } = await fill(db);
  const fill_ms = performance.now() - began;
  await boundPartitions(db);
  say(`${events} events folded into ${rows} rows in ${Math.round(fill_ms)} ms`);
  let caught_up = 0;
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const next = await snapshot(db);
    const streams = await foldSince(db, seen);
    seen = next;
    caught_up += streams;
    if (streams < FEW_STREAMS) break;
  }
  const { late, locked_ms, ...waited } = await swapWithRetries(db, seen, say);
  caught_up += waited.caught_up;
  await dropTables(db);
  await db`begin`;
  try {
    await db`select runledger.lock_test_sets()`;
    for (const small of OF_TEST_SETS) await correctRows(db, small);
    await db`commit`;
  } catch (error) {
    await db`rollback`;
    throw error;
  }
  const [row] = await db<{ recounted: number }[]>`select runledger.recount() as recounted`;
  return {
    events,
    rows,
    caught_up: caught_up + late,
    swapped_late: late,
    recounted: row!.recounted,
    fill_ms,
    locked_ms,
    total_ms: performance.now() - began,
  };
}

type Partition = {
  parent: string;
  name: string;
  bounds: string;
  check: string | null;
  is_default: boolean;
};

const partitionsOf = (db: postgres.ReservedSql): Promise<Partition[]> =>
  db<Partition[]>`
    select p.relname as parent, c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bounds,
      pg_get_partition_constraintdef(c.oid) as check, pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT' as is_default
    from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
    where p.relnamespace = 'runledger'::regnamespace and p.relname in ${db(EXCHANGED)}
    order by is_default, c.relname`;

async function dropTables(db: postgres.ReservedSql): Promise<void> {
  await db
    .unsafe(`drop schema if exists ${NEW} cascade; drop schema if exists ${OLD} cascade`)
    .simple();
}

async function makeTables(db: postgres.ReservedSql): Promise<void> {
  await dropTables(db);
  const parts = await partitionsOf(db);
  const statements = [
    `create schema ${NEW}; create schema ${OLD}`,
    ...EXCHANGED.map(
      (table) =>
        `create table ${NEW}.${table} (like runledger.${table} including all) partition by range (id)`,
    ),
    ...parts.map(
      ({ parent, name, bounds }) =>
        `create table ${NEW}.${name} partition of ${NEW}.${parent} ${bounds} with (fillfactor = 60)`,
    ),
  ];
  await db.unsafe(statements.join(';\n')).simple();
}

async function snapshot(db: postgres.ReservedSql): Promise<string> {
  const [row] = await db<{ snapshot: string }[]>`select pg_current_snapshot()::text as snapshot`;
  return row!.snapshot;
}

async function fill(db: postgres.ReservedSql): Promise<{ events: number; rows: number }> {
  let rows = 0;
  await db`set work_mem = '256MB'`;
  for (const table of EXCHANGED) {
    const filled = await db.unsafe(
      `insert into ${NEW}.${table} select * from runledger.fold_${table}()`,
    );
    rows += filled.count;
  }
  await db`reset work_mem`;
  for (const table of EXCHANGED) await db.unsafe(`analyze ${NEW}.${table}`);
  const [row] = await db<{ events: number }[]>`
    select count(*)::integer as events from runledger.events`;
  return { events: row!.events, rows };
}

/** With these constraints, attaching a partition needs no scan of its rows. This scan takes long, so it is made before the swap. */
async function boundPartitions(db: postgres.ReservedSql): Promise<void> {
  const parts = await partitionsOf(db);
  const made = await madeTables(db);
  for (const { name, check } of parts.filter(({ name }) => made.has(name)))
    if (check) await db.unsafe(`alter table ${NEW}.${name} add constraint bounds check (${check})`);
}

const madeTables = async (db: postgres.ReservedSql): Promise<Set<string>> =>
  new Set(
    (
      await db<{ name: string }[]>`
        select relname as name from pg_class where relnamespace = ${NEW}::regnamespace`
    ).map(({ name }) => name),
  );

/** Folds the streams that have events which the snapshot does not see. */
async function foldSince(db: postgres.ReservedSql, seen: string): Promise<number> {
  const [changed] = await db<{ ids: string; count: number }[]>`
    select coalesce(array_agg(distinct stream), '{}')::text as ids, count(distinct stream)::integer as count
    from runledger.events
    where generation = runledger.generation()
      and xid >= pg_snapshot_xmin(${seen}::text::pg_snapshot)
      and not pg_visible_in_snapshot(xid, ${seen}::text::pg_snapshot)
      and stream < ${PERMANENT}`;
  if (changed!.count === 0) return 0;
  for (const table of EXCHANGED) {
    await db.unsafe(
      `delete from ${NEW}.${table} t using unnest($1::text::uuid[]) given(id) where t.id = given.id`,
      [changed!.ids],
    );
    await db.unsafe(
      `insert into ${NEW}.${table} select * from runledger.fold_${table}($1::text::uuid[])`,
      [changed!.ids],
    );
  }
  return changed!.count;
}

async function swapWithRetries(
  db: postgres.ReservedSql,
  since: string,
  say: (line: string) => void,
): Promise<{ caught_up: number; late: number; locked_ms: number }> {
  let seen = since;
  let caught_up = 0;
  for (let attempt = 1; ; attempt++) {
    await waitForVerify(db, say);
    const next = await snapshot(db);
    caught_up += await foldSince(db, seen);
    seen = next;
    await db`begin`;
    try {
      const swapped = await swap(db, seen);
      await db`commit`;
      return { caught_up, late: swapped.late, locked_ms: performance.now() - swapped.locked_at };
    } catch (error) {
      await db`rollback`;
      const { code } = error as { code?: string };
      // lock_not_available, deadlock_detected: another transaction holds the tables for longer.
      if ((code !== '55P03' && code !== '40P01') || attempt === MAX_SWAPS) throw error;
      if (attempt === 1) say('waiting for a moment to swap');
      await wait(SWAP_LOCK_MS * (0.5 + Math.random()));
    }
  }
}

async function swap(
  db: postgres.ReservedSql,
  seen: string,
): Promise<{ late: number; locked_at: number }> {
  const parts = await partitionsOf(db);
  const made = await madeTables(db);
  if (parts.some(({ name }) => !made.has(name)))
    throw new Fault('a partition was created during the rebuild', 'run it again');
  await db.unsafe(`set local lock_timeout = ${SWAP_LOCK_MS}`);
  await db.unsafe(EXCHANGE_LOCK);
  const locked_at = performance.now();
  for (const table of EXCHANGED)
    await db.unsafe(`lock table runledger.${table} in access exclusive mode`);
  for (const { table } of SMALL)
    await db.unsafe(`lock table runledger.${table} in share row exclusive mode`);
  const late = await foldSince(db, seen);
  await db.unsafe(exchange(parts).join(';\n')).simple();
  for (const small of SMALL) await correctRows(db, small);
  return { late, locked_at };
}

/** The default partition is detached while the others are attached, so that it is not scanned for rows of theirs. */
function exchange(parts: readonly Partition[]): string[] {
  return [
    ...parts.flatMap(({ parent, name }) => [
      `alter table runledger.${parent} detach partition runledger.${name}`,
      `alter table runledger.${name} set schema ${OLD}`,
      `alter table ${NEW}.${parent} detach partition ${NEW}.${name}`,
      `alter table ${NEW}.${name} set schema runledger`,
    ]),
    ...parts.flatMap(({ parent, name, bounds, check }) => [
      `alter table runledger.${parent} attach partition runledger.${name} ${bounds}`,
      ...(check ? [`alter table runledger.${name} drop constraint bounds`] : []),
    ]),
  ];
}

/** For small tables that every request reads: replaces the rows that differ. Readers see the old ones until the commit. */
async function correctRows(db: postgres.ReservedSql, { table, key }: Small): Promise<void> {
  await db.unsafe(`
    delete from runledger.${table} where ctid in (
      select t.ctid from runledger.${table} t left join runledger.${table}_from_log l using (${key}) where l is distinct from t)`);
  await db.unsafe(`
    insert into runledger.${table} select * from runledger.${table}_from_log on conflict do nothing`);
}
