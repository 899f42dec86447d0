-- The only source of time for decisions. Tests replace this function.
create or replace function runledger.clock() returns timestamptz
language sql volatile
as $$ select clock_timestamp() $$;
