/** Mutants of reads from a replica. */
import { inFile, type Mutant } from './mutant.ts';

const REPLICA = 'test/http/replica.test.ts';

export const replicaMutants: readonly Mutant[] = [
  ...inFile(
    'src/store/replica_reads.ts',
    REPLICA,
    ['a result that has not ended is asked of the primary', 'hasEnded(record.status) && ', ''],
    [
      'what the replica has not is asked of the primary',
      'there ?? (await results.own(caller.account_id, id))',
      'there',
    ],
    [
      'the newest page is the primary’s',
      'if (endOf(query) > beat.beat_us - ON_ITS_WAY_US) return null;',
      '',
    ],
    ['a page that can change is the primary’s', 'page?.settled ? page : null', 'page'],
  ),
  ...inFile('src/store/results.ts', REPLICA, [
    'a server that was promoted is not read',
    'ifThere(db, beat)',
    'ifThere(db, null)',
  ]),
  ...inFile('sql/functions/consumers.sql', REPLICA, [
    'a server that has not the heartbeat is not read',
    '(extract(epoch from p.heartbeat_at) * 1000000)::bigint >= beat_us)',
    'true)',
  ]),
  ...inFile(
    'src/store/replica.ts',
    REPLICA,
    ['a replica without our heartbeat is not used', 'there.beat_us === null', 'false'],
    ['a failure is no answer', "return [null, 'failed'];", 'throw error;'],
  ),
  ...inFile('src/http/api/read_result.ts', REPLICA, [
    'a request that waits asks the primary',
    'wish.timeout_ms === null ? web.results.look : web.results.read',
    'web.results.look',
  ]),
];
