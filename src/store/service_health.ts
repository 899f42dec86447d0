/** The state of the service as a whole, for health answers. It holds nothing of a single account. */
import type { Db } from '../db.ts';

export type ServiceHealth = {
  /** Submissions that no worker has started yet. */
  pending: number;
  running: number;
  workers: number;
  slots: number;
  /** Languages that the live workers can run, each with the versions that they have. */
  toolchains: Record<string, string[]>;
  isolation: string[];
  /** At least one worker runs without the isolation that production requires. */
  degraded: boolean;
  /** What the workers' machines lack for full isolation, and how to get it. */
  missing: string[];
  /** Events that no checkpoint covers; not more than 10,000 are counted. */
  unsealed: number;
  /** Null: there is no checkpoint. */
  checkpoint_age_s: number | null;
  /** Why old data that the schedule does not keep is still there; null if it is not. */
  retention_problem: string | null;
};

export type Health = {
  read(): Promise<ServiceHealth>;
  /** Why the database stores no submission; null: nothing is known that would prevent it. */
  problem(): Promise<string | null>;
};

type Counts = 'pending' | 'running' | 'unsealed';
type Row = Omit<ServiceHealth, Counts> & Record<Counts, string>;

export function createHealth(db: Db): Health {
  return {
    async read() {
      const [row] = await db<Row[]>`select * from runledger.service_health()`;
      const { pending, running, unsealed, ...rest } = row!;
      return {
        ...rest,
        pending: Number(pending),
        running: Number(running),
        unsealed: Number(unsealed),
      };
    },
    async problem() {
      const [row] = await db<{ standby: boolean; migrated: boolean }[]>`
        select pg_is_in_recovery() as standby, to_regclass('runledger.submissions') is not null as migrated`;
      if (row!.standby) return 'The database is read-only.';
      return row!.migrated ? null : 'The database has no schema: run `./runledger migrate`.';
    },
  };
}

export type SealingLag = {
  unsealed: number;
  /** So many are counted at most: there may be more. */
  unsealed_more: boolean;
  /** Age of the oldest of them. */
  unsealed_s: number;
  /** Null: there is no checkpoint. */
  checkpoint_age_s: number | null;
};

export async function sealingLag(db: Db): Promise<SealingLag> {
  const [row] = await db<(Omit<SealingLag, 'unsealed'> & { unsealed: string })[]>`
    select * from runledger.sealing_lag()`;
  return { ...row!, unsealed: Number(row!.unsealed) };
}

export const unsealedText = ({
  unsealed,
  unsealed_more,
}: Pick<SealingLag, 'unsealed' | 'unsealed_more'>): string =>
  `${unsealed.toLocaleString('en')}${unsealed_more ? ' or more' : ''}`;
