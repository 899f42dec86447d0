/** The works of verify. One that the database rejects, or that cannot be read, is a problem, and the rest goes on. */
import type { Db } from '../db.ts';
import type { Run } from './lanes.ts';
import type { Group, Problems } from './problems.ts';

/** `problems`: those of this work alone, because it may be done twice. */
export type Attempt = <T>(
  group: Group,
  what: string,
  problems: Problems,
  work: (db: Db, problems: Problems) => Promise<T>,
  otherwise: T,
) => Promise<T>;

export const attempts =
  (run: Run): Attempt =>
  (group, what, problems, work, otherwise) =>
    run(
      (db) => {
        problems.clear();
        return work(db, problems);
      },
      (error) => {
        problems.add(group, `${what} could not be checked: ${error.message}`);
        return otherwise;
      },
    );
