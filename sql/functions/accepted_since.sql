-- The submissions whose acceptance the snapshot does not see, read along the index of the feed. So a function can read all
-- submissions before it takes a lock, and only the few new ones under it: it takes the snapshot with a statement before that read,
-- and calls this under the lock. An ended submission never waits or runs again.
create or replace function runledger.accepted_since(seen pg_snapshot) returns setof uuid
language sql stable
as $$
  select e.stream from runledger.events e
  where e.generation = runledger.generation() and e.xid >= pg_snapshot_xmin(seen) and not pg_visible_in_snapshot(e.xid, seen)
    and e.type = 'submission.accepted'
$$;
