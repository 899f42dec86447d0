-- Which role may call which function. Applied after the functions and views, whenever one of them has changed.
--
--   owner    migrates, and is the operator's login for commands. The log's triggers hold for it, too.
--   web      accepts submissions, reads results, delivers webhooks and does maintenance, through functions; has its own jobs.
--            What the console shows and changes needs the digest of an operator's session besides (operators.sql).
--   worker   starts, completes and releases executions, through functions; has its own jobs. It is next to hostile code: it
--            submits nothing, and cannot see keys, webhooks or jobs that are no executions.
--   auditor  reads the audit views, which show no secret, no digest of one, and of the bytes that users sent or received only
--            names of tests, messages of checkers and hosts of webhooks.
--
-- No role may use a table of the ledger itself: functions run as the owner, with a fixed search_path. Web and worker read which
-- migrations there are, and web the events that it seals through the view `entries`. Where the roles are missing
-- (sql/roles.sql), every process is the owner and only the triggers protect the log; doctor reports it.

revoke all on schema runledger from public;
revoke all on all tables in schema runledger from public;
revoke all on all functions in schema runledger from public;

do $$
declare
  web constant text[] := '{hear,submit_many,cancel_submission,list_submissions,summaries_of,read_submissions,settle,is_key,spend,spend_many,read_result,read_results,account_record,record_slices,read_receipt,receipt_tiles,results_of,records_of,submission_events,service_health,
    delivery_due,delivery_open,append_delivery_attempt,put_back_delivery,put_back_early_delivery,
    queue_schema_problem,lacks_generation,register_consumer,heartbeat,replica_facts,replica_has,advance_epoch,sweep,retire_consumer,add_locker,remove_locker,free_orphaned_jobs,move_future_jobs,collect_progress,
    queue_facts,database_facts,alive_languages,ensure_partitions,
    retention_facts,begin_retention,purge_due,month_due,detach_due,drop_due,end_retention,
    stored_contents,put_pieces,drop_arrived,create_test_set,remove_test_set,list_test_sets,forget_arrived,
    follow_output,forget_output,
    expire_pending,forget_idempotency,count_refusals,forget_refusals,end_long_audits,rebase_rounds,set_aside,take_back,
    has_operators,sign_in,sign_out,find_session,console_now,console_search,console_submission,console_bytes,console_deliveries,
    console_accounts,console_account,console_tiers,console_log,console_commands,console_create_key,console_rotate_key,console_revoke_key,console_set_tier,console_replay,
    seal_window,read_tiles,leaf_tile,put_checkpoint,last_checkpoint,last_sketch,put_cosignature,cosigned,last_cosigned}';
  worker constant text[] := '{fetch_executions,finish_jobs,return_job,start_many,orders_of,complete_many,release_many,cancelled_of,read_pieces,report_progress,followed_of,show_output,
    hear,queue_schema_problem,lacks_generation,register_consumer,worker_heartbeat,advance_epoch,sweep,retire_consumer}';
  -- Views call all but the last as the role that reads the view. Only unsealed_events reads tables: it counts, and says no more.
  auditor constant text[] := '{current_schema_of,upgrade_facts,actor_of,as_uuid,as_number,as_whole,as_json,uuid_floor,unsealed_events,audit_state_at}';
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
  if exists (select from pg_roles where rolname = 'runledger_web') then
    grant select on runledger.entries, runledger.migrations to runledger_web;
  end if;
  if exists (select from pg_roles where rolname = 'runledger_worker') then
    grant select on runledger.migrations to runledger_worker;
  end if;
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

-- The queue's tables belong to graphile-worker and are closed by its row level security. A worker has no right on them:
-- it fetches, finishes and returns jobs by functions. A web process runs graphile-worker's own runner for deliveries, so
-- it sees the jobs of every task that is not an execution. The list of task ids is made once a statement. Jobs are added
-- by our functions alone, as the owner.
create or replace function runledger.is_execution(identifier text) returns boolean
language sql immutable
as $$ select identifier like 'execute\_%' $$;
revoke all on function runledger.is_execution(text) from public;

do $$
begin
  if exists (select from pg_roles where rolname = 'runledger_worker') then
    revoke all on all tables in schema graphile_worker from runledger_worker;
    revoke all on schema graphile_worker from runledger_worker;
    drop policy if exists runledger_worker on graphile_worker._private_tasks;
    drop policy if exists runledger_worker on graphile_worker._private_jobs;
  end if;
  if exists (select from pg_roles where rolname = 'runledger_web') then
    grant execute on function runledger.is_execution(text) to runledger_web;
    grant usage on schema graphile_worker to runledger_web;
    grant select on graphile_worker.migrations, graphile_worker._private_job_queues to runledger_web;
    grant select, insert on graphile_worker._private_tasks to runledger_web;
    grant select, update, delete on graphile_worker._private_jobs to runledger_web;
    -- graphile-worker names the table of queues in its statements, though no job of ours is in a queue
    grant update on graphile_worker._private_job_queues to runledger_web;
    grant select, insert, update on graphile_worker._private_known_crontabs to runledger_web;
    drop policy if exists runledger_web on graphile_worker._private_tasks;
    create policy runledger_web on graphile_worker._private_tasks to runledger_web
      using (not runledger.is_execution(identifier)) with check (not runledger.is_execution(identifier));
    drop policy if exists runledger_web on graphile_worker._private_jobs;
    create policy runledger_web on graphile_worker._private_jobs to runledger_web using (task_id = any (
      (select array_agg(t.id) from graphile_worker._private_tasks t where not runledger.is_execution(t.identifier))::integer[]));
    drop policy if exists runledger_web on graphile_worker._private_known_crontabs;
    create policy runledger_web on graphile_worker._private_known_crontabs to runledger_web using (true) with check (true);
  end if;
end
$$;
