/** How verify's transactions begin: whatever the server, the role or the database has set, they read in one way. */
import type { Db } from '../db.ts';
import { PINNED, settingStatements } from '../db_settings.ts';

/** Reads with verify's settings, outside its snapshot. */
export async function readNow<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  const settings = await sessionSettings(db);
  return (await db.begin('read only', async (tx) => {
    await tx.unsafe(settings).simple();
    return work(tx as unknown as Db);
  })) as T;
}

/** For verify's transactions, as statements. */
export async function sessionSettings(db: Db): Promise<string> {
  const [server] = await db<{ version: string }[]>`
    select pg_catalog.current_setting('server_version_num') as version`;
  // First, because time is running.
  return `${Number(server!.version) >= 170_000 ? 'set local transaction_timeout = 0;' : ''} ${SESSION}`;
}

/**
 * Settings of the role or the database must not change what statements mean, how their answers are printed, or which plans
 * they get. pg_temp is named last, because otherwise it would come before pg_catalog.
 */
const SESSION = settingStatements(
  {
    ...PINNED,
    row_security: 'off',
    statement_timeout: 0,
    lock_timeout: 0,
    idle_in_transaction_session_timeout: 0,
    idle_session_timeout: 0,
    jit: 'off',
    work_mem: '64MB',
    ...Object.fromEntries(
      [
        'async_append bitmapscan gathermerge hashagg hashjoin incremental_sort indexonlyscan indexscan material memoize',
        'mergejoin nestloop parallel_append parallel_hash partition_pruning seqscan sort tidscan',
      ]
        .join(' ')
        .split(' ')
        .map((plan) => [`enable_${plan}`, 'on']),
    ),
    enable_partitionwise_join: 'off',
    enable_partitionwise_aggregate: 'off',
    seq_page_cost: 1,
    random_page_cost: 4,
    cpu_tuple_cost: 0.01,
    cpu_index_tuple_cost: 0.005,
    cpu_operator_cost: 0.0025,
    parallel_setup_cost: 1000,
    parallel_tuple_cost: 0.1,
    effective_cache_size: '4GB',
    plan_cache_mode: 'auto',
    constraint_exclusion: 'partition',
    cursor_tuple_fraction: 0.1,
    from_collapse_limit: 8,
    join_collapse_limit: 8,
    geqo: 'on',
    hash_mem_multiplier: 2,
  },
  'set local',
);
