-- Who may call what. Laid anew with the functions and views, last.
--
--   owner    migrates, and is the operator's login for commands. Even for it the log's triggers hold.
--   web      takes submissions, reads results, delivers webhooks, maintains: through functions, and its own jobs.
--   worker   starts, completes, gives back: through functions, and its own jobs. It sits beside hostile code, so it
--            reads no other table, submits nothing, and sees nothing of keys, webhooks or jobs that are not to run.
--   auditor  reads the audit views, which show no secret, no digest and nothing that a user sent.
--
-- No role may touch a table of the ledger itself: functions run as the owner, with a fixed search_path.
-- Where the roles are missing (sql/roles.sql), everyone is the owner and the log is guarded by its triggers alone; doctor
-- says so.

revoke all on schema runledger from public;
revoke all on all tables in schema runledger from public;
revoke all on all functions in schema runledger from public;

do $$
declare
  web constant text[] := '{submit_many,settle,spend,read_result,results_of,records_of,service_health,
    delivery_due,delivery_open,append_delivery_attempt,put_back_delivery,
    register_consumer,heartbeat,advance_epoch,sweep,retire_consumer,free_orphaned_jobs,free_jobs,queue_facts,ensure_partitions,
    expire_pending,forget_idempotency,rebase_rounds,seal_window,seal_leaves,put_seal,last_seal}';
  worker constant text[] := '{start_many,complete_many,release_many,register_consumer,heartbeat,advance_epoch,sweep,retire_consumer,free_orphaned_jobs,free_jobs}';
  -- views call these as whoever reads the view; they read nothing
  auditor constant text[] := '{current_schema_of,upgrade_facts,audit_state_at}';
  grants record;
  f record;
begin
  for grants in
    select 'runledger_' || g.role as role, g.functions
    from (values ('web', web), ('worker', worker), ('auditor', auditor)) g(role, functions)
    where exists (select from pg_roles where rolname = 'runledger_' || g.role)
  loop
    execute format('revoke all on all tables in schema runledger from %1$I; revoke all on all functions in schema runledger from %1$I;
      grant usage on schema runledger to %1$I', grants.role);
    for f in
      select p.oid::regprocedure as signature from pg_proc p
      where p.pronamespace = 'runledger'::regnamespace and p.proname = any (grants.functions)
    loop
      execute format('grant execute on function %s to %I', f.signature, grants.role);
    end loop;
  end loop;
end
$$;

do $$
declare
  v record;
begin
  if exists (select from pg_roles where rolname = 'runledger_auditor') then
    for v in
      select c.oid::regclass as name from pg_class c
      where c.relnamespace = 'runledger'::regnamespace and c.relkind = 'v' and c.relname like 'audit\_%'
    loop
      execute format('grant select on %s to runledger_auditor', v.name);
    end loop;
  end if;
end
$$;

-- The queue's tables belong to graphile-worker and are closed by its row level security. Each of our two roles sees the
-- jobs of its own tasks: those that execute for worker, all others for web. The list of task ids is made once a
-- statement. Jobs are added by our functions alone, as the owner.
create or replace function runledger.is_execution(identifier text) returns boolean
language sql immutable
as $$ select identifier like 'execute\_%' $$;
revoke all on function runledger.is_execution(text) from public;

do $$
declare
  kind record;
begin
  for kind in
    select * from (values ('runledger_web', 'not'), ('runledger_worker', '')) k(role, negation)
    where exists (select from pg_roles where rolname = k.role)
  loop
    execute format($grants$
      grant execute on function runledger.is_execution(text) to %1$I;
      grant usage on schema graphile_worker to %1$I;
      grant select on graphile_worker.migrations, graphile_worker._private_job_queues to %1$I;
      grant select, insert on graphile_worker._private_tasks to %1$I;
      grant select, update, delete on graphile_worker._private_jobs to %1$I;
      -- graphile-worker names the table of queues in its statements, though no job of ours is in one
      grant update on graphile_worker._private_job_queues to %1$I;
      drop policy if exists %1$s on graphile_worker._private_tasks;
      create policy %1$s on graphile_worker._private_tasks to %1$I
        using (%2$s runledger.is_execution(identifier)) with check (%2$s runledger.is_execution(identifier));
      drop policy if exists %1$s on graphile_worker._private_jobs;
      create policy %1$s on graphile_worker._private_jobs to %1$I
        using (task_id = any ((select array_agg(t.id) from graphile_worker._private_tasks t where %2$s runledger.is_execution(t.identifier))::integer[]))
    $grants$, kind.role, kind.negation);
  end loop;
  if exists (select from pg_roles where rolname = 'runledger_web') then
    grant select, insert, update on graphile_worker._private_known_crontabs to runledger_web;
    drop policy if exists runledger_web on graphile_worker._private_known_crontabs;
    create policy runledger_web on graphile_worker._private_known_crontabs to runledger_web using (true) with check (true);
  end if;
end
$$;
