-- Ends sessions of the auditor's login that are over their time, or that hold what would hold up the service: a transaction id
-- (sealing waits for it) or an advisory lock. A web process calls this every few seconds, so no setting of the session can
-- avoid it. idle, active and whole: how long a transaction may do nothing, a statement may run, and a transaction may last.
-- It looks at every database of the server, because a transaction id counts in all of them. Answers how many it ended.
--
-- Needs the membership that sql/administrator/auditor_login.sql grants. Without it this does nothing, and doctor reports that.
create or replace function runledger.end_long_audits() returns integer
language sql security definer set search_path = runledger, pg_temp
as $$ select end_audits('30 seconds', '5 minutes', '10 minutes') $$;

-- Only the owner says when: with shorter times, a login of web could keep auditors out.
create or replace function runledger.end_audits(idle interval, active interval, whole interval) returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  if not exists (select from pg_roles where rolname = 'runledger_auditor')
    or not pg_has_role(current_user, 'runledger_auditor', 'usage') then
    return 0;
  end if;
  return (
    select count(pg_terminate_backend(a.pid)) from pg_stat_activity a
    where a.usename = 'runledger_auditor' and a.backend_type = 'client backend' and (
      (a.state like 'idle in transaction%' and a.state_change < clock_timestamp() - idle)
      or (a.state = 'active' and a.query_start < clock_timestamp() - active)
      or a.xact_start < clock_timestamp() - whole
      or a.backend_xid is not null
      or exists (select from pg_locks l where l.pid = a.pid and l.locktype = 'advisory')));
end
$$;
