-- What of graphile-worker's schema is not as our functions need it; null if all is well. Each process asks this at its start.
-- test/queue/graphile_worker.test.ts checks how these columns and functions behave.
create or replace function runledger.queue_schema_problem() returns text
language sql stable security definer set search_path = runledger, pg_temp
as $$
  with columns(relation, name, type) as (
    values ('_private_jobs', 'id', 'bigint'), ('_private_jobs', 'task_id', 'integer'), ('_private_jobs', 'payload', 'json'),
      ('_private_jobs', 'priority', 'smallint'), ('_private_jobs', 'run_at', 'timestamp with time zone'),
      ('_private_jobs', 'attempts', 'smallint'), ('_private_jobs', 'max_attempts', 'smallint'), ('_private_jobs', 'last_error', 'text'),
      ('_private_jobs', 'key', 'text'), ('_private_jobs', 'locked_at', 'timestamp with time zone'), ('_private_jobs', 'locked_by', 'text'),
      ('_private_jobs', 'is_available', 'boolean'),
      ('_private_tasks', 'id', 'integer'), ('_private_tasks', 'identifier', 'text'),
      ('jobs', 'id', 'bigint'), ('jobs', 'task_identifier', 'text'), ('jobs', 'priority', 'smallint'), ('jobs', 'attempts', 'smallint'),
      ('jobs', 'max_attempts', 'smallint'), ('jobs', 'locked_at', 'timestamp with time zone'), ('jobs', 'locked_by', 'text'),
      ('job_spec', 'identifier', 'text'), ('job_spec', 'payload', 'json'), ('job_spec', 'queue_name', 'text'),
      ('job_spec', 'run_at', 'timestamp with time zone'), ('job_spec', 'max_attempts', 'smallint'), ('job_spec', 'job_key', 'text'),
      ('job_spec', 'priority', 'smallint'), ('job_spec', 'flags', 'text[]')
  ), functions(signature) as (
    values ('add_jobs(graphile_worker.job_spec[],boolean)'), ('remove_job(text)'), ('complete_jobs(bigint[])'),
      ('reschedule_jobs(bigint[],timestamp with time zone,integer,integer,integer)'), ('force_unlock_workers(text[])')
  )
  select string_agg(x.missing, ', ' order by x.missing) from (
    select format('%s.%s %s', c.relation, c.name, c.type) as missing from columns c
    where not exists (
      select from pg_class r join pg_namespace n on n.oid = r.relnamespace and n.nspname = 'graphile_worker'
      join pg_attribute a on a.attrelid = r.oid and not a.attisdropped
      where r.relname = c.relation and a.attname = c.name and format_type(a.atttypid, null) = c.type)
    union all
    select f.signature from functions f where to_regprocedure('graphile_worker.' || f.signature) is null
  ) x
$$;
