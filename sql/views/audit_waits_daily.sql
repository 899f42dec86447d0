-- How long submissions waited for their first start and how long their runs took, in seconds, by the day (UTC) on which they
-- were accepted and by language. A run is the time from the last start to the end.
create or replace view runledger.audit_waits_daily as
select (s.created_at at time zone 'UTC')::date as day, s.language, count(*) as submissions,
  percentile_cont(0.5) within group (order by w.wait_s) as wait_p50_s,
  percentile_cont(0.9) within group (order by w.wait_s) as wait_p90_s,
  percentile_cont(0.99) within group (order by w.wait_s) as wait_p99_s,
  max(w.wait_s) as wait_max_s,
  percentile_cont(0.5) within group (order by w.run_s) as run_p50_s,
  percentile_cont(0.9) within group (order by w.run_s) as run_p90_s,
  percentile_cont(0.99) within group (order by w.run_s) as run_p99_s,
  max(w.run_s) as run_max_s
from runledger.submissions s
cross join lateral (
  select extract(epoch from min(e.at) - s.created_at)::double precision as wait_s,
    extract(epoch from s.completed_at - max(e.at))::double precision as run_s
  from runledger.events e where e.stream = s.id and e.type = 'execution.started'
) w
where w.wait_s is not null
group by 1, 2;
