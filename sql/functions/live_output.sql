-- What running programs print, on its way from the worker to those who follow it. A web process says what is followed, and
-- reads the pieces; a worker that runs it adds them.
--
-- What must stay true:
--   * A run that nobody follows costs nothing: no statement names it.
--   * Only web can have a run followed, and only the worker that has its lease can show its output. The NOTIFY is a hint: a
--     worker asks which of its submissions are followed.
--   * It is bounded: a watch ends unless it is renewed, and pieces are deleted after seconds.
--   * Pieces go through an unlogged table to which no auditor has a right, and not through NOTIFY, which every login can read
--     and send.

-- Follows the output of the submissions, and answers the pieces behind number after[i] of each, oldest first. After a crash
-- the numbers begin again: a number that was not given yet is one from before.
create or replace function runledger.follow_output(ids uuid[], after bigint[])
returns table (id uuid, n bigint, attempt integer, is_stderr boolean, begins_at integer, bytes bytea)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock();
  newest bigint := (select s.last_value from output_pieces_n_seq s);
  renewed uuid[];
begin
  perform set_config('synchronous_commit', 'off', true);
  select array_agg(a.id order by a.id) into renewed from unnest(ids) a(id)
  where not exists (select from output_watches w where w.submission_id = a.id and w.until > now_at + interval '5 seconds');
  if renewed is not null then
    insert into output_watches as w (submission_id, until) select a.id, now_at + interval '10 seconds' from unnest(renewed) a(id)
    on conflict (submission_id) do update set until = greatest(w.until, excluded.until);
    -- A notification has less than 8000 bytes.
    for i in 1..cardinality(renewed) by 200 loop
      perform pg_notify('runledger_watched', array_to_string(renewed[i:(i + 199)], ','));
    end loop;
  end if;
  return query
  select a.id, p.n, p.attempt, p.is_stderr, p.begins_at, p.bytes from unnest(ids, after) a(id, after)
  -- a second of a run's output, which web asks for several times a second
  cross join lateral (
    select * from output_pieces o
    where o.submission_id = a.id and o.n > case when a.after > newest then 0 else a.after end order by o.n limit 20) p
  order by p.n;
end
$$;

-- Those of the submissions that the consumer runs and that somebody follows.
create or replace function runledger.followed_of(consumer uuid, ids uuid[]) returns uuid[]
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select coalesce(array_agg(w.submission_id), '{}') from output_watches w join leases l using (submission_id)
  where w.submission_id = any (ids) and w.until > clock() and l.consumer_id = consumer
$$;

-- Adds what runs of the consumer have printed. pieces: [{id, attempt, is_stderr, begins_at}], and the bytes of each.
create or replace function runledger.show_output(consumer uuid, pieces jsonb, bytes bytea[]) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  insert into output_pieces (submission_id, attempt, is_stderr, begins_at, bytes, shown_at)
  select l.submission_id, l.attempt, x.is_stderr, x.begins_at, x.bytes, clock()
  from rows from (
    jsonb_to_recordset(pieces) as (id uuid, attempt integer, is_stderr boolean, begins_at integer), unnest(show_output.bytes)
  ) with ordinality x(id, attempt, is_stderr, begins_at, bytes, o)
  join leases l on l.submission_id = x.id and l.attempt = x.attempt and l.consumer_id = consumer
  order by x.o;
end
$$;

-- Deletes old pieces, up to 10,000, and watches that have ended. Returns how many pieces it deleted.
create or replace function runledger.forget_output() returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  pieces bigint[];
begin
  -- The oldest come first, so the rows that stay are not read.
  select array_agg(o.n) into pieces from (
    select o.n, o.shown_at from output_pieces o order by o.n limit 10000
  ) o where o.shown_at < clock() - interval '10 seconds';
  delete from output_pieces o where o.n = any (pieces);
  -- Those that are being renewed stay: follow_output() locks several, in another order.
  delete from output_watches w where w.submission_id in (
    select o.submission_id from output_watches o where o.until < clock() for update skip locked);
  return coalesce(cardinality(pieces), 0);
end
$$;
