/** Which database is it, and has a log begun there? */
import type { Db } from '../db.ts';

export type LogDatabase = {
  /** Of the cluster, the database and the tables: another one after any of them was made again. */
  id: string;
  /** Something of it was signed: by checkpoints, or by the seals of an older version. */
  is_signed: boolean;
};

export async function logDatabase(db: Db): Promise<LogDatabase> {
  const [row] = await db<LogDatabase[]>`
    select concat_ws('/', c.system_identifier, d.oid, 'runledger.checkpoints'::regclass::oid) as id,
      exists (select from runledger.checkpoints) or exists (select from runledger.seals) as is_signed
    from pg_control_system() c, pg_database d where d.datname = current_database()`;
  return row!;
}
