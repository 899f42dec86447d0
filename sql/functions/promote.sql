-- Makes jobs for each key's oldest gated submissions, as many as its limit allows now. The caller has locked the keys' rows,
-- in the order (account, key) as everywhere.
create or replace function runledger.promote(key_ids uuid[]) returns integer
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  k record;
  progress record;
  chosen uuid[];
  ids uuid[] := '{}';
  rounds bigint[] := '{}';
begin
  for k in
    select u.key_id, u.round, gate(t.concurrent) - u.dispatched as free
    from key_usage u join keys on keys.id = u.key_id join tiers t on t.name = keys.tier
    where u.key_id = any (key_ids) and u.gated > 0 and u.dispatched < gate(t.concurrent)
  loop
    if progress is null then
      select * into progress from queue_progress();
    end if;
    select array_agg(submission_id) into chosen from (
      select h.submission_id from gated h where h.key_id = k.key_id and h.aside is null order by h.submission_id limit k.free
    ) x;
    continue when chosen is null;
    delete from gated h where h.key_id = k.key_id and h.submission_id = any (chosen);
    ids := ids || chosen;
    select rounds || array_agg(greatest(progress.round, k.round + 1) + n - 1) into rounds from generate_subscripts(chosen, 1) n;
    update key_usage u set dispatched = u.dispatched + cardinality(chosen), gated = u.gated - cardinality(chosen),
      round = rounds[cardinality(rounds)]
    where u.key_id = k.key_id;
  end loop;
  if cardinality(ids) > 0 then
    perform enqueue_executions(ids,
      array_agg(s.language order by o), array_agg(round_priority(rd, progress.round_base) order by o),
      array_agg(s.deaths > 0 order by o))
    from unnest(ids, rounds) with ordinality x(id, rd, o) join submissions s on s.id = x.id;
  end if;
  return cardinality(ids);
end
$$;
