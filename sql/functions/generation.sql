-- The generation of this cluster, which migrate() sets; the log's order is (generation, xid, seq). The statements on the hot
-- path read the table themselves, because the call costs more than the read.
create or replace function runledger.generation() returns smallint
language sql stable
as $$ select max(generation) from runledger.generations $$;

-- Called by migrate: a cluster that this log has not run on before gets the next generation.
create or replace function runledger.ensure_generation() returns void
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  cluster bigint := (select system_identifier from pg_control_system());
begin
  if cluster is distinct from (select system_identifier from generations order by generation desc limit 1) then
    insert into generations
    select coalesce(max(generation), 0) + 1, cluster, clock() from generations;
  end if;
end
$$;
