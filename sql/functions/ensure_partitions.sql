-- The lowest UUIDv7 of an instant; that of 1970 for those before, which no UUIDv7 has.
create or replace function runledger.uuid_floor(instant timestamptz) returns uuid
language sql immutable
as $$
  select (lpad(to_hex(case when extract(epoch from instant) < 0 then 0 else (extract(epoch from instant) * 1000)::bigint end), 12, '0')
    || '00000000000000000000')::uuid
$$;

-- Creates the partitions of this month and the next ones, the permanent and the default one. It may be called repeatedly,
-- and by several processes at once.
create or replace function runledger.ensure_partitions(months_ahead integer default 2) returns void
language plpgsql security definer set search_path = runledger, pg_temp set timezone = 'UTC'
-- Less than deadlock_timeout: in a deadlock this call gives up, and the next call tries again.
set lock_timeout = '500ms'
as $$
declare
  parent text;
  month timestamptz;
begin
  perform pg_advisory_xact_lock(hashtext('runledger partitions'));
  foreach parent in array array['events', 'payloads', 'submissions', 'deliveries'] loop
    if parent in ('events', 'payloads') then
      perform ensure_partition(parent, 'permanent',
        'for values from (''f0000000-0000-0000-0000-000000000000'') to (maxvalue)');
    end if;
    perform ensure_partition(parent, 'default', 'default');
    for ahead in 0 .. months_ahead loop
      month := date_trunc('month', clock()) + make_interval(months => ahead);
      perform ensure_partition(parent, to_char(month, 'YYYY_MM'),
        format('for values from (%L) to (%L)', uuid_floor(month), uuid_floor(month + interval '1 month')));
    end loop;
  end loop;
end
$$;

create or replace function runledger.ensure_partition(parent text, suffix text, bounds text) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  name text := parent || '_' || suffix;
begin
  if to_regclass('runledger.' || quote_ident(name)) is not null then
    return;
  end if;
  execute format('create table %I partition of %I %s', name, parent, bounds);
  if parent = 'events' then
    execute format('create trigger refuse_truncate before truncate on %I for each statement execute function refuse_change()', name);
    execute format('alter table %I enable always trigger refuse_truncate', name);
  elsif parent in ('submissions', 'deliveries') then
    -- Leaves room on the page for later versions of a row.
    execute format('alter table %I set (fillfactor = 60)', name);
  end if;
exception when check_violation then
  -- The default partition holds ids of that month already, from a clock that ran ahead. All ids of that month stay there.
  raise notice 'partition % was not created: ids of its range are in %_default', name, parent;
when lock_not_available then
  raise notice 'partition % was not created yet: % is in use', name, parent;
end
$$;

comment on function runledger.uuid_floor is 'The lowest id that a submission of that time can have: submission_id >= uuid_floor(TIME) finds those of a time by their ids.';
