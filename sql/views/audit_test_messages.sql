-- Apart from audit_tests, because each row costs reading the bytes of all tests of its submission. They are JSON, of which
-- PostgreSQL can read all but U+0000.
create or replace view runledger.audit_test_messages as
select p.stream as submission_id, t.n::integer as n, t.test ->> 0 as test, t.test ->> 1 as test_group, t.test ->> 2 as message
from runledger.payloads p
cross join lateral (select runledger.as_json(p.bytes)) m(messages)
cross join lateral json_array_elements(case json_typeof(m.messages) when 'array' then m.messages else '[]' end) with ordinality t(test, n)
where p.kind = 'tests';

comment on view runledger.audit_test_messages is 'The name of every test and what its checker said, until retention purges them. Ask for single submissions: all tests of a submission are read for each row.';
comment on column runledger.audit_test_messages.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_test_messages.n is 'The number of the test, from 1, as in audit_tests.';
comment on column runledger.audit_test_messages.test is 'The name of the test, as the user wrote it.';
comment on column runledger.audit_test_messages.test_group is 'The name of its group; empty: it has none.';
comment on column runledger.audit_test_messages.message is 'The message of its checker or interactor to the judge. Null: none took part.';
