/** The state of the service as a whole, for health answers. It holds nothing of a single account. */
import type { Db } from '../db.ts';

export type ServiceHealth = {
  /** Submissions that no worker has started yet. */
  pending: number;
  running: number;
  workers: number;
  slots: number;
  /** Languages that the live workers can run. */
  languages: string[];
  isolation: string[];
  /** At least one worker runs without the isolation that production requires. */
  degraded: boolean;
  /** What the workers' machines lack for full isolation, and how to get it. */
  missing: string[];
};

export type Health = { read(): Promise<ServiceHealth>; ping(): Promise<void> };

type Row = Omit<ServiceHealth, 'pending' | 'running'> & { pending: string; running: string };

export function createHealth(db: Db): Health {
  return {
    async read() {
      const [row] = await db<Row[]>`select * from runledger.service_health()`;
      return { ...row!, pending: Number(row!.pending), running: Number(row!.running) };
    },
    async ping() {
      await db`select 1`;
    },
  };
}
