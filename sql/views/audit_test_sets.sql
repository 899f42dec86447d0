create or replace view runledger.audit_test_sets as
select c.stream as test_set_id, a.id as account_id, a.name as account, runledger.as_whole(c.facts -> 'tests') as tests,
  runledger.as_whole(c.facts -> 'groups') as groups, runledger.as_whole(c.facts #> '{files,count}') as files,
  runledger.as_whole(c.facts #> '{files,size_bytes}') as size_bytes, c.at as created_at,
  runledger.actor_of(c.type, c.facts) as created_by, c.facts ->> 'request_id' as request_id,
  d.at as deleted_at, case when d.stream is not null then runledger.actor_of(d.type, d.facts) end as deleted_by
from runledger.log c
left join runledger.log d on d.stream = c.stream and d.type = 'test_set.deleted'
  and d.stream >= 'f0000000-0000-0000-0000-000000000000'
left join runledger.accounts a on a.id = (c.facts ->> 'account_id')::uuid
where c.stream >= 'f0000000-0000-0000-0000-000000000000' and c.type = 'test_set.created';

comment on view runledger.audit_test_sets is 'Every test set that an account stored, those that were deleted included. Names, tests and programs of a set are not shown.';
comment on column runledger.audit_test_sets.test_set_id is 'The id of the test set, which begins with f.';
comment on column runledger.audit_test_sets.account_id is 'The id of the account.';
comment on column runledger.audit_test_sets.account is 'The name of the account.';
comment on column runledger.audit_test_sets.tests is 'How many tests it has.';
comment on column runledger.audit_test_sets.groups is 'How many groups of tests it has.';
comment on column runledger.audit_test_sets.files is 'How many different files its tests and programs have.';
comment on column runledger.audit_test_sets.size_bytes is 'The bytes of these files.';
comment on column runledger.audit_test_sets.created_at is 'When it was stored.';
comment on column runledger.audit_test_sets.created_by is 'Who stored it: see actor in audit_timeline.';
comment on column runledger.audit_test_sets.request_id is 'The X-Request-Id of the request.';
comment on column runledger.audit_test_sets.deleted_at is 'When it was deleted, with all its bytes. Null: it is there.';
comment on column runledger.audit_test_sets.deleted_by is 'Who deleted it: a key of its account, or an operator.';
