-- Live projection: the rows of the given streams as the log tells them now. Called in the transaction that appended.
-- What happens to every submission (accepted, started, ended) makes the next row of the last one and of the event instead,
-- in the statement that appends it: reading a log back costs several times as much. verify holds both to be the same.
-- plpgsql keeps the plan, where an SQL function plans anew at each call; and the two bounds let a batch, which is of one
-- month as a rule, pass over the other partitions.
create or replace function runledger.project_submissions(ids uuid[]) returns void
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  bounds record := uuid_bounds(ids);
  first_id uuid := bounds.first_id;
  last_id uuid := bounds.last_id;
begin
  insert into submissions as s
  select l.* from submissions_from_log l where l.id = any (ids) and l.id >= first_id and l.id <= last_id
  on conflict (id) do update set
    version = excluded.version, status = excluded.status, verdict = excluded.verdict, exit_code = excluded.exit_code,
    signal = excluded.signal, cpu_time_us = excluded.cpu_time_us, wall_time_us = excluded.wall_time_us,
    memory_peak_bytes = excluded.memory_peak_bytes, stdout_truncated = excluded.stdout_truncated,
    stderr_truncated = excluded.stderr_truncated, compile = excluded.compile, attempts = excluded.attempts,
    deaths = excluded.deaths, started_at = excluded.started_at, completed_at = excluded.completed_at;
end
$$;

create or replace function runledger.uuid_bounds(ids uuid[], out first_id uuid, out last_id uuid)
language plpgsql immutable
as $$
declare
  id uuid;
begin
  foreach id in array ids loop
    if first_id is null or id < first_id then first_id := id; end if;
    if last_id is null or id > last_id then last_id := id; end if;
  end loop;
end
$$;

create or replace function runledger.project_deliveries(ids uuid[]) returns void
language sql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
  insert into deliveries as d
  select l.* from deliveries_from_log l where l.id = any (ids)
  on conflict (id) do update set
    status = excluded.status, attempts = excluded.attempts, failures = excluded.failures,
    next_at = excluded.next_at, ended_at = excluded.ended_at
$$;

-- Rows are updated in place: whoever waits for the lock of one must find it again.
create or replace function runledger.project_access(changed uuid) returns void
language sql set search_path = runledger, pg_temp
as $$
  insert into accounts select * from accounts_from_log where id = changed
  on conflict (id) do update set name = excluded.name;
  insert into tiers select * from tiers_from_log where id = changed
  on conflict (id) do update set per_minute = excluded.per_minute, concurrent = excluded.concurrent, changed_at = excluded.changed_at;
  insert into keys select * from keys_from_log where id = changed
  on conflict (id) do update set revoked_at = excluded.revoked_at;
  insert into key_secrets select * from key_secrets_from_log where key_id = changed
  on conflict (key_id, digest) do update set expires_at = excluded.expires_at;
$$;
