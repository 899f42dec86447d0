-- What bounds the auditor's login and only an administrator of the server can set. Run it once in Runledger's database,
-- after the first migration, as a superuser:
--
--   psql postgres://SUPERUSER@HOST/DATABASE -f sql/administrator/auditor_login.sql
--
-- The embedded PostgreSQL does it at each start. It may be run again, and then changes only what is not yet so.
--
--   * The settings are defaults: a session may set them otherwise. They stop mistakes. temp_file_limit is the exception: only a
--     superuser may raise it, so the login cannot fill the disk with temporary files.
--   * The revoked functions stop the login for good: it cannot write large objects or messages into the write-ahead log, take
--     advisory locks, or get a transaction id, which would hold up sealing. They are revoked from everybody in this
--     database, and granted to the owner. Web and worker keep pg_notify.
--   * The membership lets a web process end the auditor's sessions that are over their time, whatever they have set
--     (end_long_audits).
do $$
declare
  owner text := (select pg_get_userbyid(datdba) from pg_database where datname = current_database());
  others text[] := array(
    select owner union select rolname from pg_roles where rolname in ('runledger_web', 'runledger_worker'));
  other text;
  f record;
begin
  -- The roles are those of the whole server. A second database finds the grant below there, and PostgreSQL would say so.
  perform set_config('client_min_messages', 'warning', true);
  -- Its settings too are those of the whole server. If another database sets them at the same time, this waits for it.
  lock table pg_catalog.pg_authid in share row exclusive mode;
  alter role runledger_auditor set default_transaction_read_only = on;
  alter role runledger_auditor set statement_timeout = '5min';
  alter role runledger_auditor set idle_in_transaction_session_timeout = '30s';
  alter role runledger_auditor set lock_timeout = '10s';
  alter role runledger_auditor set temp_file_limit = '1GB';
  alter role runledger_auditor connection limit 10;
  execute format('grant runledger_auditor to %I', owner);
  execute format('revoke create, temporary on database %I from public', current_database());
  for f in
    select p.oid, p.proname, p.oid::regprocedure as signature from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and (
      p.proname ~ '^(lo_|loread$|lowrite$)' or p.proname ~ '^pg_(try_)?advisory_'
      or p.proname in ('pg_notify', 'pg_logical_emit_message', 'pg_current_xact_id', 'txid_current'))
  loop
    if has_function_privilege('public', f.oid, 'execute') then
      execute format('revoke execute on function %s from public', f.signature);
    end if;
    foreach other in array others loop
      -- The services call the others in functions of the owner alone. A stolen login could stop the service with their locks.
      if other = owner or f.proname = 'pg_notify' then
        if not has_function_privilege(other, f.oid, 'execute') then
          execute format('grant execute on function %s to %I', f.signature, other);
        end if;
      elsif has_function_privilege(other, f.oid, 'execute') then
        execute format('revoke execute on function %s from %I', f.signature, other);
      end if;
    end loop;
  end loop;
end
$$;
