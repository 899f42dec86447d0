-- A submission that no living worker can run must not take a place of its key: the key's others would wait for as long as no
-- such worker comes. So where others of its key are gated, it is set aside: it has no job, and its key counts it neither as
-- dispatched nor as gated. When a worker of its language comes, it is gated as before, and the key's oldest goes first. While no
-- worker lives at all, nothing is set aside, because nothing else could run. A worker that has just gone may be starting again.
--
-- Both functions are a chore of web processes. They answer how many submissions they moved; at `most`, there may be more.

create or replace function runledger.set_aside(most integer default 200) returns integer
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '1s'
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  -- the toolchains of each worker
  workers jsonb[];
  languages text[];
  -- those that none of them fits
  tasks integer[];
  keys uuid[];
  jobs bigint[];
  moved integer;
  others integer;
begin
  if not exists (select from alive_workers()) or not pg_try_advisory_xact_lock(x'524c4153'::bigint) then
    return 0;
  end if;
  -- The keys that have gated submissions: one look into the index for each.
  with recursive waiting as (
    (select g.key_id from gated g where g.aside is null order by g.key_id limit 1)
    union all
    select (select g.key_id from gated g where g.key_id > w.key_id and g.aside is null order by g.key_id limit 1)
    from waiting w where w.key_id is not null
  )
  select array_agg(w.key_id) into keys from waiting w where w.key_id is not null;
  if keys is null then
    return 0;
  end if;
  workers := array(select distinct c.toolchains from consumers c
    where c.kind = 'worker' and greatest(c.heartbeat_at, c.ended_at) > clock() - interval '30 seconds');
  languages := array(select distinct l from unnest(workers) w, jsonb_object_keys(w) l);
  tasks := array(select t.id from graphile_worker._private_tasks t
    where is_execution(t.identifier) and not exists (select from unnest(workers) w where fits(t.identifier, tasks_of(w))));
  select array_agg(x.id), array_agg(distinct x.key_id) into jobs, keys from (
    select j.id, s.key_id from graphile_worker._private_jobs j join submissions s on s.id = (j.payload ->> 'id')::uuid
    where j.task_id = any (tasks) and j.is_available = true and s.key_id = any (keys) and s.status = 'pending'
    limit most
  ) x;
  if jobs is null then
    return 0;
  end if;
  perform from key_usage u join keys k on k.id = u.key_id where u.key_id = any (keys)
  order by k.account_id, u.key_id for update of u;
  -- A statement of its own: the next one sees what was fetched before these locks.
  jobs := lock_jobs(jobs);
  -- The rounds of these jobs are given back, or the key's others would come behind them.
  with left_over as (
    delete from graphile_worker._private_jobs j where j.id = any (jobs) and j.locked_at is null
    returning (j.payload ->> 'id')::uuid as id, j.task_id
  ), put as (
    -- An older version could leave two jobs of one submission.
    insert into gated (key_id, submission_id, aside)
    select distinct on (s.id) s.key_id, s.id, replace(t.identifier, execution_task(''), '') from left_over l
    join submissions s on s.id = l.id join graphile_worker._private_tasks t on t.id = l.task_id where s.status = 'pending'
    order by s.id, t.identifier
    on conflict do nothing
    returning key_id
  ), counted as (
    update key_usage u set dispatched = u.dispatched - p.n, round = u.round - p.n
    from (select key_id, count(*)::integer as n from put group by 1) p where u.key_id = p.key_id returning p.n
  )
  select coalesce(sum(n), 0) into moved from counted;
  -- Otherwise the next of their language would get these places.
  with put as (
    update gated g set aside = x.language
    from (
      select g.key_id, g.submission_id, s.language from gated g join submissions s on s.id = g.submission_id
      where g.key_id = any (keys) and g.aside is null and s.language <> all (languages) limit most
    ) x where g.key_id = x.key_id and g.submission_id = x.submission_id
    returning g.key_id
  ), counted as (
    update key_usage u set gated = u.gated - p.n
    from (select key_id, count(*)::integer as n from put group by 1) p where u.key_id = p.key_id returning p.n
  )
  select coalesce(sum(n), 0) into others from counted;
  -- Also where there are more of their language: a key without a job would get none. What is promoted of them is set aside next.
  perform promote(keys);
  return moved + others;
end
$$;

create or replace function runledger.take_back(most integer default 200) returns integer
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '1s'
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  ids uuid[];
  keys uuid[];
  asides text[];
  moved integer;
begin
  if not exists (select from gated g where g.aside is not null) or not pg_try_advisory_xact_lock(x'524c4153'::bigint) then
    return 0;
  end if;
  -- One look into the index for each.
  with recursive found as (
    (select g.aside from gated g where g.aside is not null order by g.aside limit 1)
    union all
    select (select g.aside from gated g where g.aside > f.aside order by g.aside limit 1) from found f where f.aside is not null
  )
  select array_agg(f.aside) into asides from found f
  where has_worker(execution_task(f.aside));
  select array_agg(x.submission_id), array_agg(distinct x.key_id) into ids, keys from (
    select g.submission_id, g.key_id from gated g
    where g.aside = any (asides) order by g.aside, g.submission_id limit most
  ) x;
  if ids is null then
    return 0;
  end if;
  perform from key_usage u join keys k on k.id = u.key_id where u.key_id = any (keys)
  order by k.account_id, u.key_id for update of u;
  with back as (
    update gated g set aside = null where g.key_id = any (keys) and g.submission_id = any (ids) and g.aside is not null
    returning g.key_id
  ), counted as (
    update key_usage u set gated = u.gated + b.n
    from (select key_id, count(*)::integer as n from back group by 1) b where u.key_id = b.key_id returning b.n
  )
  select coalesce(sum(n), 0) into moved from counted;
  perform promote(keys);
  return moved;
end
$$;
