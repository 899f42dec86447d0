-- Facts as values of a type; null where they are none. A login of web or of a worker can put any value into its reports. If a cast
-- of it failed, the whole view would fail for everybody.
create or replace function runledger.as_uuid(value text) returns uuid
language sql immutable parallel safe
as $$ select case when value ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then value::uuid end $$;

create or replace function runledger.as_number(value jsonb) returns double precision
language sql immutable parallel safe
as $$
  select case when jsonb_typeof(value) = 'number' and abs(value::numeric) < 1e300 then value::numeric::double precision end
$$;

-- A whole number of up to so much.
create or replace function runledger.as_whole(value jsonb, most numeric default 9223372036854775807) returns bigint
language sql immutable parallel safe
as $$
  select case when jsonb_typeof(value) = 'number' and abs(value::numeric) <= most and value::numeric = trunc(value::numeric)
    then value::numeric::bigint end
$$;

-- An empty list if the bytes are no JSON.
create or replace function runledger.as_json(bytes bytea) returns json
language plpgsql immutable
as $$
begin
  return replace(convert_from(bytes, 'UTF8'), '\u0000', '\ufffd')::json;
exception when others then
  return '[]';
end
$$;

comment on function runledger.as_uuid is 'The UUID that the text is; null if it is none. The views call it.';
comment on function runledger.as_number is 'The number that the fact is; null if it is none. The views call it.';
comment on function runledger.as_whole is 'The whole number that the fact is; null if it is none, or too large. The views call it.';
comment on function runledger.as_json is 'The JSON that the bytes are; an empty list if they are none. The views call it.';
