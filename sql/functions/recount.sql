-- Recounts the counters that are not in the log: the concurrency of keys, the queue places of accounts and of the whole queue,
-- and which submissions may be gated. It takes the locks of all these counters, in the usual order, so that none of them
-- changes while it counts. Submitting waits for these locks. So it looks for the submissions that have not ended before it takes
-- them, and reads only these and those that were accepted since under them. What a corrected counter lets through goes to the
-- queue: nothing else would, if no submission of its key ends. Returns how many rows were wrong.
create or replace function runledger.recount() returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_column
declare
  wrong integer := 0;
  n integer;
  seen pg_snapshot;
  candidates uuid[];
  -- those that wait or run
  unended submissions[];
begin
  seen := pg_current_snapshot();
  candidates := array(select s.id from submissions s where s.status in ('pending', 'running'));

  perform from queue_state for update;
  perform from key_usage u join keys k on k.id = u.key_id order by k.account_id, u.key_id for update of u;
  perform from account_usage a order by a.account_id for update;
  candidates := candidates || array(select a from accepted_since(seen) a);
  select array_agg(s) into unended from submissions s where s.id = any (candidates) and s.status in ('pending', 'running');

  insert into key_usage (key_id) select k.id from keys k on conflict do nothing;
  get diagnostics n = row_count; wrong := wrong + n;
  insert into account_usage (account_id) select a.id from accounts a on conflict do nothing;
  get diagnostics n = row_count; wrong := wrong + n;
  delete from gated h where not exists (
    select from unnest(unended) s where s.id = h.submission_id and s.key_id = h.key_id and s.status = 'pending');
  get diagnostics n = row_count; wrong := wrong + n;

  update key_usage u set dispatched = c.dispatched, gated = c.gated
  from (
    select k.id, (count(s.id) filter (where h.submission_id is null))::integer as dispatched,
      (count(h.submission_id) filter (where h.aside is null))::integer as gated
    from keys k
    left join unnest(unended) s on s.key_id = k.id
    left join gated h on h.key_id = s.key_id and h.submission_id = s.id
    group by k.id
  ) c where u.key_id = c.id and (u.dispatched, u.gated) is distinct from (c.dispatched, c.gated);
  get diagnostics n = row_count; wrong := wrong + n;

  update account_usage a set pending = c.pending
  from (
    select x.id, count(s.id)::integer as pending from accounts x
    left join unnest(unended) s on s.account_id = x.id and s.status = 'pending' and s.attempts = 0 group by x.id
  ) c where a.account_id = c.id and a.pending <> c.pending;
  get diagnostics n = row_count; wrong := wrong + n;

  update queue_state q set accepted = p.started + c.waiting
  from queue_progress() p, (select count(*) as waiting from unnest(unended) s where s.status = 'pending' and s.attempts = 0) c
  where q.accepted <> p.started + c.waiting;
  get diagnostics n = row_count; wrong := wrong + n;

  perform promote(array(select u.key_id from key_usage u where u.gated > 0));
  return wrong;
end
$$;
