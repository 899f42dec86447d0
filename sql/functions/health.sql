-- The state of the service as a whole, for health answers. It holds nothing that belongs to one account.
create or replace function runledger.service_health(
  out pending bigint, out running bigint, out workers integer, out slots integer,
  out toolchains jsonb, out isolation text[], out degraded boolean, out missing text[],
  out unsealed bigint, out checkpoint_age_s double precision, out retention_problem text
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  with alive as (select * from alive_workers()),
  lag as (select * from sealing_lag(10000))
  select (select q.accepted - p.started from queue_state q, queue_progress() p),
    (select count(*) from leases),
    count(*)::integer, coalesce(sum(a.slots), 0)::integer,
    (select coalesce(jsonb_object_agg(v.language, v.versions), '{}') from (
      select t.key as language, jsonb_agg(distinct t.value) as versions from alive, jsonb_each_text(alive.toolchains) t group by t.key
    ) v),
    array(select distinct coalesce(alive.isolation ->> 'kind', 'unknown') k from alive order by k),
    coalesce(bool_or((a.isolation ->> 'degraded')::boolean), false),
    array(select distinct alive.isolation ->> 'missing' m from alive where alive.isolation ->> 'missing' is not null order by m),
    (select l.unsealed from lag l), (select l.checkpoint_age_s from lag l), (select r.problem from retention_facts() r)
  from alive a
$$;
