-- The generation of this cluster, which migrate() sets; the log's order is (generation, xid, seq). The statements on the hot
-- path read the table themselves, because the call costs more than the read.
create or replace function runledger.generation() returns smallint
language sql stable
as $$ select max(generation) from runledger.generations $$;

-- Whether this cluster is one that the log has not run on before, and needs the next generation. So does one that has gone back
-- to an older copy of itself, as a machine does from a snapshot, before the log was restored into it. New events would come
-- between the old ones: the numbers of transactions that the log has are still to come, and its identifier may not show that.
create or replace function runledger.lacks_generation() returns boolean
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  newest record;
begin
  select g.generation, g.system_identifier into newest from generations g order by g.generation desc limit 1;
  if newest.system_identifier is distinct from (select system_identifier from pg_control_system()) then
    return true;
  end if;
  -- Each of these compares with the snapshot that it reads in. A later one sees what has just been written.
  if exists (
    select from events e
    where e.generation = newest.generation and e.xid >= pg_snapshot_xmax(pg_current_snapshot())
      and e.xid is distinct from pg_current_xact_id_if_assigned()) then
    return true;
  end if;
  -- A restore begins with the tables of the backup's version, which may have none of these.
  if to_regclass('runledger.checkpoints') is null then
    return false;
  end if;
  return exists (
    select from (select c.generation, c.to_xid from checkpoints c order by c.number desc limit 1) c
    where c.generation = newest.generation and c.to_xid > pg_snapshot_xmax(pg_current_snapshot()));
end
$$;

-- Called by migrate and restore.
create or replace function runledger.ensure_generation() returns void
language sql set search_path = runledger, pg_temp
as $$
  insert into generations
  select coalesce(max(g.generation), 0) + 1, (select system_identifier from pg_control_system()), clock() from generations g
  having lacks_generation()
$$;
