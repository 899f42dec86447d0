create or replace view runledger.audit_verdicts_daily as
select (s.created_at at time zone 'UTC')::date as day, s.language, s.verdict, count(*) as submissions
from runledger.submissions s
where s.completed_at is not null
group by 1, 2, 3;

comment on view runledger.audit_verdicts_daily is 'How many submissions got each verdict.';
comment on column runledger.audit_verdicts_daily.day is 'The day (UTC) on which they were accepted.';
comment on column runledger.audit_verdicts_daily.language is 'Their language.';
comment on column runledger.audit_verdicts_daily.verdict is 'Their verdict. Null: they were cancelled.';
comment on column runledger.audit_verdicts_daily.submissions is 'How many.';
