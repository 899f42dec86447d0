/** Looks at the server of RUNLEDGER_READ_DATABASE_URL as a web process does: with the same login, and beside the primary. */
import { databaseAddress } from '../../config/database_tls.ts';
import { connect, type Db } from '../../db.ts';
import { BEHIND_MAX_MS } from '../../store/replica.ts';
import { type Check, type Finding, fail, ok, warn } from './finding.ts';

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
      return [await compare(primary, db)];
    } catch (error) {
      const found = `it does not answer web's login, so the primary answers all: ${(error as Error).message}`;
      return [
        warn('replica', found, `start it, or correct RUNLEDGER_READ_DATABASE_URL (${SECTION})`),
      ];
    } finally {
      void db.end({ timeout: 1 });
    }
  },
};

async function compare(primary: Db, db: Db): Promise<Finding> {
  const system = (of: Db) =>
    of<{ id: string; in_recovery: boolean }[]>`
      select system_identifier::text as id, pg_is_in_recovery() as in_recovery from pg_control_system()`;
  const [[ours], [theirs]] = [await system(primary), await system(db)];
  const name_one = `name a replica of the primary in RUNLEDGER_READ_DATABASE_URL (${SECTION})`;
  if (ours!.id !== theirs!.id)
    return fail('replica', 'it is of another installation, so the primary answers all', name_one);
  if (!theirs!.in_recovery)
    return fail(
      'replica',
      'it is not in recovery: it is the primary itself, or was promoted',
      name_one,
    );
  // Fails where the login has not web's rights.
  await db`select runledger.replica_facts(null)`;
  const [{ position }] = (await primary`select pg_current_wal_flush_lsn()::text as position`) as [
    { position: string },
  ];
  const [lag] = await db<{ bytes: string; seconds: number | null }[]>`
    select greatest(${position}::text::pg_lsn - pg_last_wal_replay_lsn(), 0)::text as bytes,
      extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::double precision as seconds`;
  const { bytes, seconds } = lag!;
  if (bytes === '0') return ok('replica', 'it is in recovery, and has everything');
  const behind_s = Math.max(seconds ?? Infinity, 0);
  const age =
    seconds === null ? 'of unknown age' : `the last commit there is ${behind_s.toFixed(1)} s old`;
  const found = `it is in recovery, ${bytes} bytes behind: ${age}`;
  if (behind_s * 1e3 <= BEHIND_MAX_MS) return ok('replica', found);
  return warn('replica', found, `see whether it receives and replays the log (${SECTION})`);
}
