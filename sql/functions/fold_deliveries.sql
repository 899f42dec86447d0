-- The rows of deliveries as their events give them: all, or those of the given ids (see fold_submissions.sql).
create or replace function runledger.fold_deliveries() returns setof runledger.deliveries
language sql stable
as $$
  select (x.d).* from (
    select runledger.delivery_of(l.stream, l.version, l.type, l.at, l.facts) as d
    from (
      select * from runledger.log
      where type like 'delivery.%'
      order by stream, version
    ) l
    group by l.stream
  ) x
$$;

-- Of the given ids. PostgreSQL inlines these functions, so that one condition for both cases would parse the list for every
-- event of the log.
create or replace function runledger.fold_deliveries(ids uuid[]) returns setof runledger.deliveries
language sql stable
as $$
  select (x.d).* from (
    select runledger.delivery_of(l.stream, l.version, l.type, l.at, l.facts) as d
    from (
      select e.* from (select distinct pg_catalog.unnest(ids) as id) given join runledger.log e on e.stream = given.id
      where type like 'delivery.%'
      order by stream, version
    ) l
    group by l.stream
  ) x
$$;
