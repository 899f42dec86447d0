-- Every submission as it stood at a time. The definition of the projection itself, over the log up to then: its text is
-- taken from the catalogue, so that there are not two of them.
create or replace function runledger.audit_state_at(at timestamptz)
returns table (
  submission_id uuid, account_id uuid, key_id uuid, language text, status text, verdict text, exit_code integer, signal text,
  attempts integer, deaths integer, created_at timestamptz, started_at timestamptz, completed_at timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  definition text := rtrim(pg_get_viewdef('runledger.submissions_from_log'::regclass), ';');
  over_all constant text := 'FROM runledger.log';
begin
  if position(over_all in definition) = 0 then
    raise exception 'submissions_from_log does not read runledger.log as audit_state_at expects';
  end if;
  return query execute format(
    'select s.id, s.account_id, s.key_id, s.language, s.status, s.verdict, s.exit_code, s.signal, s.attempts, s.deaths,
       s.created_at, s.started_at, s.completed_at
     from (%s) s',
    replace(definition, over_all, 'FROM (select * from runledger.log l where l.at <= $1) log'))
  using at;
end
$$;
