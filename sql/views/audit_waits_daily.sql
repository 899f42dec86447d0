-- The first start is in the log alone when there was more than one. A submission that was cancelled or failed can have waited after its
-- last run was lost: then its run has no end. offset 0: the times are computed once for all columns.
create or replace view runledger.audit_waits_daily as
select (s.created_at at time zone 'UTC')::date as day, s.language, count(*) as submissions,
  (percentile_cont('{0.5,0.9,0.99}'::double precision[]) within group (order by w.wait_s))[1] as wait_p50_s,
  (percentile_cont('{0.5,0.9,0.99}'::double precision[]) within group (order by w.wait_s))[2] as wait_p90_s,
  (percentile_cont('{0.5,0.9,0.99}'::double precision[]) within group (order by w.wait_s))[3] as wait_p99_s,
  max(w.wait_s) as wait_max_s,
  (percentile_cont('{0.5,0.9,0.99}'::double precision[]) within group (order by w.run_s))[1] as run_p50_s,
  (percentile_cont('{0.5,0.9,0.99}'::double precision[]) within group (order by w.run_s))[2] as run_p90_s,
  (percentile_cont('{0.5,0.9,0.99}'::double precision[]) within group (order by w.run_s))[3] as run_p99_s,
  max(w.run_s) as run_max_s
from runledger.submissions s
cross join lateral (
  select date_part('epoch', case when s.attempts = 1 then s.started_at else (
      select e.at from runledger.events e where e.stream = s.id and e.type = 'execution.started'
      order by e.version limit 1) end - s.created_at) as wait_s,
    case when s.status = 'completed' or (
      select e.type from runledger.events e where e.stream = s.id and e.type in ('execution.started', 'execution.lost')
      order by e.version desc limit 1) = 'execution.started'
    then date_part('epoch', s.completed_at - s.started_at) end as run_s
  offset 0
) w
where s.attempts > 0
group by 1, 2;

comment on view runledger.audit_waits_daily is 'How long submissions waited for their first start, and how long their last run took, unless it was lost.';
comment on column runledger.audit_waits_daily.day is 'The day (UTC) on which they were accepted.';
comment on column runledger.audit_waits_daily.language is 'Their language.';
comment on column runledger.audit_waits_daily.submissions is 'How many of them were started.';
comment on column runledger.audit_waits_daily.wait_p50_s is 'The time from acceptance to first start: the median, in seconds.';
comment on column runledger.audit_waits_daily.wait_p90_s is 'The time from acceptance to first start: 90 % are at most this, in seconds.';
comment on column runledger.audit_waits_daily.wait_p99_s is 'The time from acceptance to first start: 99 % are at most this, in seconds.';
comment on column runledger.audit_waits_daily.wait_max_s is 'The time from acceptance to first start: the longest, in seconds.';
comment on column runledger.audit_waits_daily.run_p50_s is 'The time from last start to end: the median, in seconds.';
comment on column runledger.audit_waits_daily.run_p90_s is 'The time from last start to end: 90 % are at most this, in seconds.';
comment on column runledger.audit_waits_daily.run_p99_s is 'The time from last start to end: 99 % are at most this, in seconds.';
comment on column runledger.audit_waits_daily.run_max_s is 'The time from last start to end: the longest, in seconds.';
