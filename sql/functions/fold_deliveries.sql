-- The rows of deliveries as their events give them: all, or those of the given ids (see fold_submissions.sql).
create or replace function runledger.fold_deliveries(ids uuid[] default null) returns setof runledger.deliveries
language sql stable
as $$
  select (x.d).* from (
    select runledger.delivery_of(l.stream, l.version, l.type, l.at, l.facts) as d
    from (
      select * from runledger.log
      where type like 'delivery.%' and (ids is null or stream = any (ids))
      order by stream, version
    ) l
    group by l.stream
  ) x
$$;
