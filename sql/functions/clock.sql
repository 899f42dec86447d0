-- The one source of time for every decision. Tests put a function of their own in its place.
create or replace function runledger.clock() returns timestamptz
language sql volatile
as $$ select clock_timestamp() $$;
