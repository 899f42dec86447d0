-- The roles that privileges.sql speaks of, made where the owner may make roles; without a login, which is given to them
-- by whoever runs the server: alter role runledger_web login password '…'. A hosted database with one login has none of
-- them. Run at each migration: when roles have appeared since the last one, privileges are laid anew.
do $$
declare
  role text;
begin
  foreach role in array array['web', 'worker', 'auditor'] loop
    if not exists (select from pg_roles where rolname = 'runledger_' || role) then
      begin
        execute format('create role %I', 'runledger_' || role);
      exception when insufficient_privilege or unique_violation or duplicate_object then
        null; -- may not, or the migration of another database of this server was quicker
      end;
    end if;
  end loop;
end
$$;
