/**
 * The reads that a replica may answer. Each has an answer that no lag can make wrong, and asks the primary for every other one:
 *
 * - A result is final when its submission has ended and, where this deployment seals, has its place in the log.
 * - A page of a list is final when it is older than what may still be on its way, and everything on it has ended.
 *
 * The key is always checked on the primary, and its rate spent there, so that a revoked key ends at once.
 */
import { hasEnded } from '../domain/statuses.ts';
import { type ListQuery, type Lists, readPage } from './lists.ts';
import type { Replica } from './replica.ts';
import { type Results, readRecord } from './results.ts';

/**
 * A submission gets its time before its commit, and is not stored if that takes half as long (submit_many.sql). So a replica that
 * has everything before some time has every submission that is so much older.
 */
const ON_ITS_WAY_US = 60_000_000;

export type ReplicaReads = { look: Results['look']; page: Lists['page'] };

export function createReplicaReads(
  replica: Replica,
  { results, lists, seals }: { results: Results; lists: Lists; seals: boolean },
): ReplicaReads {
  return {
    async look(secret_digest, id) {
      const spent = await results.spend(secret_digest);
      if (spent.kind !== 'spent') return spent;
      const { caller } = spent;
      const there = await replica.ask('result', async (db, beat) => {
        const record = await readRecord(db, caller.account_id, id, beat);
        const is_final =
          record !== null && hasEnded(record.status) && (!seals || record.proof !== null);
        return is_final ? record : null;
      });
      const record = there ?? (await results.own(caller.account_id, id));
      return record === null ? { kind: 'not_found', caller } : { kind: 'found', caller, record };
    },
    async page(account_id, query) {
      const there = await replica.ask('list', async (db, beat) => {
        if (endOf(query) > beat.beat_us - ON_ITS_WAY_US) return null;
        const page = await readPage(db, account_id, query, beat);
        return page?.settled ? page : null;
      });
      return there ?? lists.page(account_id, query);
    },
  };
}

/** No row of the page is younger, in microseconds since 1970. */
const endOf = ({ to, after }: ListQuery): number =>
  Math.min(to === null ? Infinity : (Date.parse(to) + 1) * 1e3, after?.at_us ?? Infinity);
