/** Mutants of what auditors rely on: the bounds of their login, actors, counts of rejected requests, indexes, poolers. */
import { inFile, type Mutant } from './mutant.ts';

const LOGIN = 'test/sql/auditor_login.test.ts';
const QUESTIONS = 'test/sql/audit.test.ts';
const PLANS = 'test/audit/plans.test.ts';
const REFUSALS = 'test/store/refusals.test.ts';
const POOLER = 'test/store/pooler.test.ts';

export const auditMutants: readonly Mutant[] = [
  ...inFile(
    'sql/administrator/auditor_login.sql',
    LOGIN,
    ['an auditor gets no transaction id', "'pg_current_xact_id', ", ''],
    ['an auditor writes no large object', "p.proname ~ '^(lo_|loread$|lowrite$)' or ", ''],
    ['an auditor takes no advisory lock', "p.proname ~ '^pg_(try_)?advisory_'", 'false'],
    [
      'a web process may end sessions of the auditor',
      "execute format('grant runledger_auditor to %I', owner);",
      '',
    ],
  ),
  ...inFile(
    'sql/functions/end_long_audits.sql',
    LOGIN,
    ['a session with a transaction id ends', '      or a.backend_xid is not null\n', ''],
    [
      'a session that idles in a transaction ends',
      'a.state_change < clock_timestamp() - idle',
      'false',
    ],
    ['a session with a long statement ends', 'a.query_start < clock_timestamp() - active', 'false'],
    ['sessions of other logins go on', "a.usename = 'runledger_auditor' and ", ''],
  ),
  ...inFile(
    'sql/functions/actor_of.sql',
    QUESTIONS,
    ['a submission is made by its key', "'key ' || (facts ->> 'key_id')", "'service'"],
    ['a command names its operator', "'operator ' || (facts ->> 'operator')", "'operator'"],
    [
      'the end of an execution is its worker’s',
      "coalesce(facts ->> 'consumer', started_by::text) is not null",
      "facts ->> 'consumer' is not null",
    ],
  ),
  ...inFile('sql/functions/append_submissions.sql', 'test/http/refusals.test.ts', [
    'a submission says in which request it was made',
    "'request_id', b -> 'request_id', ",
    '',
  ]),
  ...inFile('sql/migrations/000016_requests_index.sql', PLANS, [
    'requests are found by id',
    "  (facts ->> 'request_id') text_bloom_ops,",
    "  (facts ->> 'language') text_bloom_ops,",
  ]),
  ...inFile(
    'sql/migrations/000008_audit.sql',
    PLANS,
    [
      'losses are found by time',
      'create index events_losses on events (at)',
      'create index events_losses on events (version)',
    ],
    [
      'an account is read by time',
      'on submissions (account_id, created_at)',
      'on submissions (key_id)',
    ],
  ),
  ...inFile(
    'sql/functions/refusals.sql',
    REFUSALS,
    ['strangers do not fill the table', 'where place <= 100\n', 'where place <= 100000\n'],
    [
      'a key that was revoked is still named',
      'substr(s.digest, 1, 12) = substr(d, 1, 12) and s.digest = d',
      'false',
    ],
    ['counts add up', 'requests = r.requests + excluded.requests', 'requests = excluded.requests'],
  ),
  ...inFile(
    'src/store/refusals.ts',
    REFUSALS,
    [
      'counts wait for the database',
      'for (const entry of batch.values()) add(entry);',
      'void batch;',
    ],
    ['strangers do not fill the memory', 'const ENTRIES_MAX = 1_000;', 'const ENTRIES_MAX = 1e9;'],
  ),
  ...inFile(
    'src/store/pooler.ts',
    POOLER,
    [
      'two connections with one backend have no sessions',
      'if (theirs === ours) throw noSessions();',
      '',
    ],
    [
      'a pooler is recognised',
      "if (first.announced === first.actual) return 'direct';",
      "return 'direct';",
    ],
  ),
  ...inFile('src/db.ts', POOLER, [
    'a pooler gets no parameters that it rejects',
    '...(pooled ? {} : STARTUP),',
    '...STARTUP,',
  ]),
  ...inFile('sql/functions/consumers.sql', 'test/store/executions.test.ts', [
    'a consumer takes no lock of the service',
    'lock_key between -2147483648 and 4294967295',
    'lock_key between 1 and 0',
  ]),
  ...inFile('sql/functions/append_submissions.sql', QUESTIONS, [
    'judging says nothing else of a submission',
    "(b -> 'judging') - facts_of_request",
    "(b -> 'judging')",
  ]),
  ...inFile('sql/functions/read_result.sql', QUESTIONS, [
    'a record has nothing of what was sent',
    "\n    and p.kind in ('stdout', 'stderr', 'tests', 'files', 'transcript') loop",
    ' loop',
  ]),
  ...inFile('sql/functions/complete_many.sql', QUESTIONS, [
    'a report does not name another consumer',
    "'facts') - 'consumer' ||",
    "'facts') ||",
  ]),
  ...inFile('sql/functions/cancel.sql', QUESTIONS, [
    'a request does not say who cancels',
    "request_facts(request) || jsonb_build_object('attempt', before.attempts, 'key_id', key_id)",
    "jsonb_build_object('attempt', before.attempts, 'key_id', key_id) || request",
  ]),
  ...inFile('src/local/child.ts', 'test/local/child.test.ts', [
    'what has run is started again',
    ' && !was_ready;',
    ';',
  ]),
  ...inFile('src/local/secrets.ts', 'test/local/secrets.test.ts', [
    'a password is hexadecimal',
    'if (!PASSWORD.test(password))',
    'if (password === role)',
  ]),
  ...inFile('src/store/schema_version.ts', 'test/store/backup.test.ts', [
    'nobody uses what is being restored',
    "if (await isRestoring(db)) return 'restoring';",
    '',
  ]),
  ...inFile(
    'src/http/api/event_streams.ts',
    'test/http/event_streams.test.ts',
    ['a key has a part of the connections', 'connections_max * PART_OF_KEY', 'connections_max'],
    ['streams have a part of the connections', 'connections_max * PART_OF_ALL', 'connections_max'],
  ),
  ...inFile('src/http/api/parse_submission.ts', 'test/http/parse_submission.test.ts', [
    'mistakes within a form are named',
    'if (!inside || inside.length === 0) return [issue];',
    'return [issue];',
  ]),
];
