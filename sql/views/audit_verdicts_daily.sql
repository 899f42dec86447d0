-- How many submissions got each verdict, by the day (UTC) on which they ended and by language.
create or replace view runledger.audit_verdicts_daily as
select (s.completed_at at time zone 'UTC')::date as day, s.language, s.verdict, count(*) as submissions
from runledger.submissions s
where s.completed_at is not null
group by 1, 2, 3;
