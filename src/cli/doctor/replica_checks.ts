/** Looks at the server of RUNLEDGER_READ_DATABASE_URL as a web process does: with the same login, and beside the primary. */
import { databaseAddress } from '../../config/database_tls.ts';
import { connect, type Db } from '../../db.ts';
import { BEHIND_MAX_MS, within } from '../../store/replica.ts';
import { type Check, type Finding, fail, ok, warn } from './finding.ts';

/** A server may let us in and then be silent. */
const PATIENCE_MS = 20_000;
const SECTION = 'OPERATING.md, "A replica for reads"';

export const replica: Check = {
  name: 'replica',
  look: async (context) => {
    const { config } = context;
    if (config.read_database_url === null) return [ok('replica', 'none: the primary answers all')];
    const primary = await context.database();
    const address = databaseAddress(
      { ...config, database_pooled: false },
      config.read_database_url,
    );
    const db = connect(address, { name: 'runledger doctor', max: 1 });
    try {
      return [await within(PATIENCE_MS, compare(primary, db))];
    } catch (error) {
      const found = `it does not answer web's login, so the primary answers all: ${(error as Error).message}`;
      return [
        warn('replica', found, `start it, or correct RUNLEDGER_READ_DATABASE_URL (${SECTION})`),
      ];
    } finally {
      void db.end({ timeout: 1 }).catch(() => {});
    }
  },
};

async function compare(primary: Db, db: Db): Promise<Finding> {
  const [ours, theirs] = [await serverOf(primary), await serverOf(db)];
  const name_one = `name a replica of the primary in RUNLEDGER_READ_DATABASE_URL (${SECTION})`;
  if (ours.id !== theirs.id)
    return fail('replica', 'it is of another installation, so the primary answers all', name_one);
  if (!theirs.in_recovery)
    return fail(
      'replica',
      'it is not in recovery: it is the primary itself, or was promoted',
      name_one,
    );
  // A server that was promoted, and its replicas, have what the primary never had.
  const consumer_id = await aliveAt(primary);
  const position = await flushedOf(primary);
  const { bytes, seconds, replayed } = await lagOf(db, position);
  if (await isBefore(primary, replayed))
    return fail('replica', 'it has what the primary has not: it has gone on alone', name_one);
  // Fails where the login has not web's rights.
  const [there] = await db<{ beat_us: string | null }[]>`
    select beat_us::text from runledger.replica_facts(${consumer_id})`;
  if (bytes === '0' && consumer_id !== null && there!.beat_us === null)
    return fail('replica', 'it lacks the heartbeats of the primary: another log', name_one);
  if (theirs.is_owner)
    return warn(
      'replica',
      `web reads it as ${theirs.login}, which may change everything on the primary`,
      `use web's login (${SECTION})`,
    );
  if (bytes === '0') return ok('replica', 'it is in recovery, and has everything');
  const behind_s = Math.max(seconds ?? Infinity, 0);
  const age =
    seconds === null ? 'of unknown age' : `the last commit there is ${behind_s.toFixed(1)} s old`;
  const found = `it is in recovery, ${bytes} bytes behind: ${age}`;
  if (behind_s * 1e3 <= BEHIND_MAX_MS) return ok('replica', found);
  return warn('replica', found, `see whether it receives and replays the log (${SECTION})`);
}

type Seen = {
  /** Of the cluster and the database. */
  id: string;
  in_recovery: boolean;
  login: string;
  is_owner: boolean;
};

async function serverOf(db: Db): Promise<Seen> {
  const [row] = await db<Seen[]>`
    select c.system_identifier || '/' || d.oid as id, pg_is_in_recovery() as in_recovery, current_user as login,
      (select rolsuper from pg_roles where rolname = current_user) or exists (
        select from pg_namespace where nspname = 'runledger' and pg_has_role(nspowner, 'usage')) as is_owner
    from pg_control_system() c, pg_database d where d.datname = current_database()`;
  return row!;
}

/** Whose heartbeat came last. */
async function aliveAt(primary: Db): Promise<string | null> {
  const [alive] = await primary<{ id: string }[]>`
    select id from runledger.consumers where ended_at is null order by heartbeat_at desc limit 1`;
  return alive?.id ?? null;
}

async function flushedOf(primary: Db): Promise<string> {
  const [row] = await primary<{ position: string }[]>`
    select pg_current_wal_flush_lsn()::text as position`;
  return row!.position;
}

/** How much it lacks of what the primary had at `position`. */
async function lagOf(db: Db, position: string) {
  const [row] = await db<{ bytes: string; seconds: number | null; replayed: string }[]>`
    select greatest(${position}::text::pg_lsn - pg_last_wal_replay_lsn(), 0)::text as bytes,
      extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::double precision as seconds,
      pg_last_wal_replay_lsn()::text as replayed`;
  return row!;
}

async function isBefore(primary: Db, replayed: string): Promise<boolean> {
  const [row] = await primary<{ before: boolean }[]>`
    select pg_current_wal_flush_lsn() < ${replayed}::text::pg_lsn as before`;
  return row!.before;
}
