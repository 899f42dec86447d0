-- The database's size and connections, for metrics and doctor. A login sees of the sessions of others only their number, their
-- databases and their users. A session with both is a client's, or a helper of one (a parallel worker).
create or replace function runledger.database_facts(
  out size_bytes bigint, out connections integer, out connections_here integer, out connections_max integer
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select pg_database_size(current_database()), count(*)::integer,
    (count(*) filter (where a.datname = current_database()))::integer,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
      - coalesce(current_setting('reserved_connections', true), '0')::integer
  from pg_stat_activity a where a.datid is not null and a.usesysid is not null
$$;
