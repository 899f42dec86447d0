-- Decides whether one request of a key is within its rate: at most per_minute in any 60 s, by the times of its last
-- requests. Up to 600 a minute the times are exact. Above that, requests are counted by the second, and a second leaves the
-- window as a whole, 60 s after its end, so that the limit is never exceeded. Rejected requests are not counted. 0 is
-- unlimited. Both kinds are summed, so that a change of the limit across 600 forgets nothing.
create or replace function runledger.spend_rate(
  inout hits_us bigint[], inout buckets bigint[], per_minute integer, now_us bigint,
  out allowed boolean, out remaining integer, out reset_us bigint
)
language plpgsql immutable
as $$
declare
  window_us constant bigint := 60000000;
  bucket_span constant bigint := 1048576;
  exact_up_to constant integer := 600;
  second bigint := now_us / 1000000;
  first integer := 1;
  used integer;
  newest bigint;
begin
  allowed := true; remaining := 0; reset_us := 0;
  if per_minute = 0 then
    return;
  end if;
  -- Of a clock that was set back since. As they are, they would count until it has caught up.
  if hits_us[cardinality(hits_us)] > now_us + window_us then
    hits_us := array(select least(hit, now_us) from unnest(hits_us) with ordinality x(hit, n) order by n);
  end if;
  if buckets[cardinality(buckets)] / bucket_span > second + 61 then
    buckets := array(
      select (least(b / bucket_span, second) * bucket_span + sum(b % bucket_span))::bigint
      from unnest(buckets) b group by least(b / bucket_span, second) order by 1);
  end if;
  while first <= cardinality(hits_us) and hits_us[first] <= now_us - window_us loop
    first := first + 1;
  end loop;
  if first > 1 then
    hits_us := hits_us[first:];
  end if;
  used := cardinality(hits_us);
  if cardinality(buckets) > 0 then
    first := 1;
    while first <= cardinality(buckets) and buckets[first] / bucket_span <= second - 61 loop
      first := first + 1;
    end loop;
    if first > 1 then
      buckets := buckets[first:];
    end if;
    used := used + coalesce((select sum(b % bucket_span) from unnest(buckets) b), 0);
  end if;

  allowed := used < per_minute;
  if allowed and per_minute <= exact_up_to then
    -- A clock that stepped back must not break the order.
    hits_us := hits_us || greatest(now_us, hits_us[cardinality(hits_us)]);
  elsif allowed then
    newest := buckets[cardinality(buckets)];
    if newest / bucket_span >= second then
      buckets[cardinality(buckets)] := newest + 1;
    else
      buckets := buckets || (second * bucket_span + 1);
    end if;
  end if;
  used := used + allowed::integer;
  remaining := greatest(per_minute - used, 0);
  -- The time until so many requests have left the window that one more than now may pass.
  if cardinality(buckets) = 0 then
    reset_us := greatest(hits_us[greatest(used - per_minute + 1, 1)] + window_us - now_us, 0);
  else
    reset_us := greatest(least((buckets[1] / bucket_span + 61) * 1000000, hits_us[1] + window_us) - now_us, 0);
  end if;
end
$$;
