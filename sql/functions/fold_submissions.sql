-- The rows of submissions as their events give them: all, or those of the given ids. Rebuild stores them and verify
-- compares them with the table. An event that must not follow raises RL422 (next_submission.sql).
create or replace function runledger.fold_submissions(ids uuid[] default null) returns setof runledger.submissions
language sql stable
as $$
  select (x.s).* from (
    select runledger.submission_of(l.stream, l.version, l.type, l.at, l.facts) as s
    from (
      select * from runledger.log
      where stream < 'f0000000-0000-0000-0000-000000000000' and (ids is null or stream = any (ids))
      order by stream, version
    ) l
    group by l.stream
  ) x
$$;
