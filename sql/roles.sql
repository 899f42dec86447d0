-- The roles of privileges.sql, created where the owner may create roles. They have no login; the server's administrator
-- gives them one: alter role runledger_web login password '…'. A hosted database with a single login has none of them. Run
-- at each migration: if roles have appeared since the last one, the privileges are applied again.
do $$
declare
  role text;
begin
  foreach role in array array['web', 'worker', 'auditor'] loop
    if not exists (select from pg_roles where rolname = 'runledger_' || role) then
      begin
        execute format('create role %I', 'runledger_' || role);
      exception when insufficient_privilege or unique_violation or duplicate_object then
        null; -- not allowed, or the migration of another database on this server has created it
      end;
    end if;
  end loop;
end
$$;
