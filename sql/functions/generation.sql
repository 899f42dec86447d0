-- The generation of this cluster, which migrate() sets; the log's order is (generation, xid, seq). The statements on the hot
-- path read the table themselves, because the call costs more than the read.
create or replace function runledger.generation() returns smallint
language sql stable
as $$ select max(generation) from runledger.generations $$;

-- Called by migrate and restore: a cluster that this log has not run on before gets the next generation. So does one that has gone
-- back to an older copy of itself, as a machine does from a snapshot, before the log was restored into it: new events would come
-- between the old ones. It has not given the numbers of transactions that the log has, and its identifier does not show that.
create or replace function runledger.ensure_generation() returns void
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  cluster bigint := (select system_identifier from pg_control_system());
  newest record;
  is_new boolean;
begin
  select g.generation, g.system_identifier into newest from generations g order by g.generation desc limit 1;
  -- Each of these compares with the snapshot that it reads in. A later one sees what has just been written.
  is_new := cluster is distinct from newest.system_identifier or exists (
    select from events e
    where e.generation = newest.generation and e.xid >= pg_snapshot_xmax(pg_current_snapshot())
      and e.xid is distinct from pg_current_xact_id_if_assigned());
  -- A restore begins with the tables of the backup's version, which may have none of these.
  if not is_new and to_regclass('runledger.checkpoints') is not null then
    is_new := exists (
      select from (select c.generation, c.to_xid from checkpoints c order by c.number desc limit 1) c
      where c.generation = newest.generation and c.to_xid > pg_snapshot_xmax(pg_current_snapshot()));
  end if;
  if is_new then
    insert into generations
    select coalesce(max(generation), 0) + 1, cluster, clock() from generations;
  end if;
end
$$;
