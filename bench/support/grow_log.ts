/** Makes a log long: the events of submissions that ended, as the service appends them, but for the bytes of payloads. */
import { randomBytes } from 'node:crypto';
import type { Db } from '../../src/db.ts';
import { uuidv7 } from '../../src/domain/ids.ts';

/** A submission that was refused once more after its end. */
export const EVENTS_OF_ONE = 4;

/** In transactions of `at_once` submissions, of the first key that there is. `at_ms`: the instant in their ids. */
export async function growLog(
  owner: Db,
  submissions: number,
  at_once: number,
  at_ms: () => number = Date.now,
): Promise<void> {
  const [key] = await owner<
    { id: string; account_id: string }[]
  >`select id, account_id from runledger.keys limit 1`;
  const newId = () => uuidv7(at_ms(), randomBytes(10));
  for (let left = submissions; left > 0; left -= at_once) {
    const ids = Array.from({ length: Math.min(left, at_once) }, newId).toSorted();
    await owner`
      insert into runledger.events (stream, version, type, schema, at, generation, facts)
      select id, v.version, v.type, runledger.current_schema_of(v.type), now(), runledger.generation(), v.facts
      from unnest(${`{${ids}}`}::text::uuid[]) id cross join lateral (values
        (1, 'submission.accepted', jsonb_build_object('account_id', ${key!.account_id}::text, 'key_id', ${key!.id}::text, 'language', 'python',
          'bytes', jsonb_build_object('code', jsonb_build_object('size', 100, 'sha256', encode(sha256(uuid_send(id)), 'hex'))),
          'compare', 'lenient', 'limits', '{}'::jsonb)),
        (2, 'execution.started', jsonb_build_object('attempt', 1, 'consumer', ${key!.id}::text)),
        (3, 'submission.completed', jsonb_build_object('attempt', 1, 'verdict', 'AC', 'exit_code', 0, 'signal', null, 'cpu_time_us', 1234,
          'wall_time_us', 2345, 'memory_peak_bytes', 9000000, 'stdout_truncated', false, 'stderr_truncated', false, 'compile', null,
          'evidence', jsonb_build_object('isolation', 'v2', 'oom_kills', 0),
          'bytes', jsonb_build_object('stdout', jsonb_build_object('size', 10, 'sha256', encode(sha256(uuid_send(id)), 'hex'))))),
        (4, 'execution.refused', jsonb_build_object('attempt', 1, 'consumer', ${key!.id}::text, 'verdict', 'AC'))
      ) v(version, type, facts) order by id, v.version`;
  }
  await owner.unsafe('analyze runledger.events');
}
