/** Mutants of what is stored of judged submissions and of test sets. */
import { inFile, type Mutant } from './mutant.ts';

const SETS = 'test/store/test_sets.test.ts';
const JUDGED = 'test/store/judged.test.ts';

export const judgedStoreMutants: readonly Mutant[] = [
  ...inFile(
    'sql/functions/test_sets.sql',
    SETS,
    [
      'an upload does not depend on the contents of others',
      'where r.content_id = c.id and t.account_id = account)',
      'where r.content_id = c.id)',
    ],
    ['a set has all of its contents', 'if missing is not null then', 'if false then'],
    [
      'a content has arrived when all of its bytes have',
      'and c.size = (select coalesce(sum(octet_length(p.bytes)), 0)',
      'and 0 <= (select coalesce(sum(octet_length(p.bytes)), 0)',
    ],
    [
      'a set belongs to its account',
      'where t.id = set_id and t.account_id = account) then',
      'where t.id = set_id) then',
    ],
    [
      'a content that another set needs stays',
      'where not exists (select from test_set_contents r where r.content_id = n.content_id and r.test_set_id <> set_id)',
      'where true',
    ],
    ['a revoked key stores nothing', 'and k.revoked_at is null) then', ') then'],
    [
      'a worker reads the contents of its own submissions alone',
      'where l.consumer_id = consumer)\n  order by p.n',
      ')\n  order by p.n',
    ],
  ),
  ...inFile('sql/functions/test_sets.sql', JUDGED, [
    'progress is reported by the holder of the lease',
    'and l.consumer_id = consumer and l.attempt = report_progress.attempt',
    'and l.attempt = report_progress.attempt',
  ]),
  ...inFile(
    'sql/functions/retention.sql',
    SETS,
    ['a set that was used since stays', '(s.created_at >= since or s.status', '(s.status'],
    ['a set that is used stays', " or s.status in ('pending', 'running'))", ')'],
  ),
  ...inFile('sql/functions/submit_many.sql', SETS, [
    'a submission names a set of its own account',
    "(given_judging ->> 'rerun_of')::uuid), submit_many.account_id)",
    "(given_judging ->> 'rerun_of')::uuid), t.account_id)",
  ]),
  ...inFile('sql/functions/complete_many.sql', JUDGED, [
    'a refused report stores no bytes, and each submission gets its own',
    '(found_rows[array_position(ns, p.n)]).id',
    '(found_rows[p.n]).id',
  ]),
  ...inFile('sql/functions/read_result.sql', JUDGED, [
    'progress is that of the attempt that runs',
    'p.submission_id = progress_of.id and p.attempt = progress_of.attempt',
    'p.submission_id = progress_of.id',
  ]),
  ...inFile('src/store/read_content.ts', SETS, [
    'bytes are those of their hash',
    "hash.digest('hex') !== sha256",
    'false',
  ]),
  ...inFile('src/store/executions.ts', JUDGED, [
    'a submission whose set is gone is no plain run',
    'request.test_set !== null && manifest === null',
    'false',
  ]),
];
