-- The rows of submissions as their events give them: all, or those of the given ids. Rebuild stores them and verify
-- compares them with the table. An event that must not follow raises RL422 (next_submission.sql).
create or replace function runledger.fold_submissions() returns setof runledger.submissions
language sql stable
as $$
  select (x.s).* from (
    select runledger.submission_of(l.stream, l.version, l.type, l.at, l.facts) as s
    from (
      select * from runledger.log
      where stream < 'f0000000-0000-0000-0000-000000000000'
      order by stream, version
    ) l
    group by l.stream
  ) x
$$;

-- Of the given ids. PostgreSQL inlines these functions, so that one condition for both cases would parse the list for every
-- event of the log.
create or replace function runledger.fold_submissions(ids uuid[]) returns setof runledger.submissions
language sql stable
as $$
  select (x.s).* from (
    select runledger.submission_of(l.stream, l.version, l.type, l.at, l.facts) as s
    from (
      select e.* from (select distinct pg_catalog.unnest(ids) as id) given join runledger.log e on e.stream = given.id
      where stream < 'f0000000-0000-0000-0000-000000000000'
      order by stream, version
    ) l
    group by l.stream
  ) x
$$;
