create or replace view runledger.audit_tests as
select s.id as submission_id, s.account_id, t.n::integer as n, t.test ->> 'verdict' as verdict, runledger.as_whole(t.test -> 'exit_code', 2147483647)::integer as exit_code,
  t.test ->> 'signal' as signal, t.test ->> 'limit_exceeded' as limit_exceeded, runledger.as_whole(t.test -> 'cpu_time_us') as cpu_time_us,
  runledger.as_whole(t.test -> 'wall_time_us') as wall_time_us, runledger.as_whole(t.test -> 'memory_peak_bytes') as memory_peak_bytes,
  runledger.as_number(t.test -> 'score') as score
from runledger.submissions s
cross join lateral jsonb_array_elements(case jsonb_typeof(s.tests) when 'array' then s.tests else '[]' end) with ordinality t(test, n)
where s.tests is not null;

comment on view runledger.audit_tests is 'Every test of each submission that has ended and was judged by tests.';
comment on column runledger.audit_tests.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_tests.account_id is 'The id of the account.';
comment on column runledger.audit_tests.n is 'The number of the test, from 1.';
comment on column runledger.audit_tests.verdict is 'Its verdict. Null: it was not run.';
comment on column runledger.audit_tests.exit_code is 'The exit code of the program; 128 + N after signal N.';
comment on column runledger.audit_tests.signal is 'The signal that ended the program. Null: none.';
comment on column runledger.audit_tests.limit_exceeded is 'The limit that the program exceeded. Null: none.';
comment on column runledger.audit_tests.cpu_time_us is 'CPU time of the run in microseconds.';
comment on column runledger.audit_tests.wall_time_us is 'Wall time of the run in microseconds.';
comment on column runledger.audit_tests.memory_peak_bytes is 'The peak of its memory in bytes.';
comment on column runledger.audit_tests.score is 'The points that the checker gave. Null: it gave none.';
