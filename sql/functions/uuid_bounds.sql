-- The first and the last of some ids. A statement that compares a partition key with these two does not need to look at the
-- partitions outside of them. A call costs 10 us, so what runs for each submission does not ask for the bounds of
-- a single id.
create or replace function runledger.uuid_bounds(ids uuid[], out first_id uuid, out last_id uuid)
language plpgsql immutable
as $$
declare
  id uuid;
begin
  foreach id in array ids loop
    if first_id is null or id < first_id then first_id := id; end if;
    if last_id is null or id > last_id then last_id := id; end if;
  end loop;
end
$$;
