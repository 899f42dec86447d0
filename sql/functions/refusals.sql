-- Rejected requests, counted by key and hour. A web process collects them and calls this every few seconds.
--
-- What must stay true: the number of rows is bounded, whatever strangers send. Known keys have a row for each hour and error;
-- of the digests that belong to no key, an hour has at most 100 prefixes, and the rest is counted as 'others'.
--
-- batch: [{hour, error, key_id, digest, requests, last_at, last_request_id}]; digest is the hex SHA-256 of a presented key,
-- null where it was not well formed, and 'others' for callers that the process counted together.
create or replace function runledger.count_refusals(batch jsonb) returns void
language sql security definer set search_path = runledger, pg_temp
as $$
  with given as (
    select x.*, coalesce(x.key_id, (
        select s.key_id from key_secrets s, decode(nullif(x.digest, 'others'), 'hex') d
        where substr(s.digest, 1, 12) = substr(d, 1, 12) and s.digest = d
      )) as known
    from jsonb_to_recordset(batch) x(
      hour timestamptz, error text, key_id uuid, digest text, requests bigint, last_at timestamptz, last_request_id text)
  ), named as (
    select g.*, case when known is null then coalesce(substr(digest, 1, 8), 'none') end as prefix from given g
  ), strangers as (
    select n.hour, n.prefix, exists (select from refusals r where r.key_id is null and r.hour = n.hour and r.key_prefix = n.prefix) as there
    from named n where n.prefix is not null and n.prefix not in ('none', 'others') group by 1, 2
  ), admitted as (
    select hour, prefix from (
      select s.*, row_number() over (partition by hour order by prefix)
        + (select count(distinct r.key_prefix) from refusals r where r.key_id is null and r.hour = s.hour) as place
      from strangers s where not there
    ) x where place <= 100
    union all select hour, prefix from strangers where there
  ), counted as (
    select n.known, case when n.known is null and n.prefix <> 'none' and a.prefix is null then 'others' else n.prefix end as prefix, n.hour, n.error,
      sum(n.requests) as requests, max(n.last_at) as last_at, (array_agg(n.last_request_id order by n.last_at desc))[1] as last_request_id
    from named n left join admitted a on a.hour = n.hour and a.prefix = n.prefix
    group by 1, 2, 3, 4
  )
  insert into refusals as r (key_id, key_prefix, hour, error, requests, last_at, last_request_id)
  select known, prefix, hour, error, requests, last_at, last_request_id from counted
  -- In one order, so that two processes that store the same rows don't wait for each other in a circle.
  order by known, hour, error, prefix
  on conflict (key_id, hour, error, key_prefix) do update set
    requests = r.requests + excluded.requests, last_at = greatest(r.last_at, excluded.last_at),
    last_request_id = case when excluded.last_at >= r.last_at then excluded.last_request_id else r.last_request_id end
$$;

-- A rejected request is of interest to support for a while.
create or replace function runledger.forget_refusals() returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  -- A variable, because a comparison with clock() itself uses no index.
  old constant timestamptz := clock() - interval '90 days';
  gone integer;
begin
  delete from refusals r where r.hour < old;
  get diagnostics gone = row_count;
  return gone;
end
$$;
