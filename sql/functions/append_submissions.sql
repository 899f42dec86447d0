-- Stores the bytes, the first event and the row of each accepted submission of a batch. Empty bytes are not stored: facts
-- that name no stdin mean an empty one.
--
-- Call it only from functions that set plan_cache_mode and the like (enqueue.sql says why): it plans as they do, and does
-- not set them again for speed.
create or replace function runledger.append_submissions(
  batch jsonb, codes bytea[], stdins bytea[], expecteds bytea[], judgings bytea[],
  ns integer[], ids uuid[], accounts uuid[], keys uuid[], ats timestamptz[]
) returns void
language plpgsql
as $$
declare
  -- Judging says none of these.
  facts_of_request constant text[] :=
    '{account_id,key_id,language,bytes,limits,webhook,idempotency_key,request_id,traceparent}';
begin
  with parts as materialized (
    select a.*, p.kind, uuid_send(gen_random_uuid()) as salt, p.bytes
    from unnest(ns, ids, accounts, keys, ats) a(n, id, account_id, key_id, at) cross join lateral (values
      ('code', codes[a.n]),
      ('stdin', nullif(stdins[a.n], '')),
      ('expected_output', expecteds[a.n]),
      ('args', convert_to(nullif(batch -> (a.n - 1) ->> 'args', '[]'), 'UTF8')),
      ('webhook_url', convert_to(batch -> (a.n - 1) ->> 'webhook_url', 'UTF8')),
      ('judging', judgings[a.n])
    ) p(kind, bytes)
    where p.bytes is not null
  ), stored as (
    insert into payloads (stream, kind, salt, bytes) select id, kind, salt, bytes from parts
  ), accepted as (
    select id, account_id, key_id, at, batch -> (n - 1) as b,
      jsonb_object_agg(kind, jsonb_build_object('size', length(bytes), 'sha256', encode(sha256(salt || bytes), 'hex'))) as bytes
    from parts group by n, id, account_id, key_id, at
  ), appended as (
    insert into events (stream, version, type, at, generation, facts)
    select a.id, 1, 'submission.accepted', a.at, (select max(generation) from generations),
      short_facts('submission.accepted', jsonb_strip_nulls(jsonb_build_object(
        'account_id', a.account_id, 'key_id', a.key_id, 'language', b -> 'language', 'bytes', a.bytes,
        'compare', b -> 'compare', 'limits', b -> 'limits', 'webhook', b -> 'webhook_url' <> 'null',
        'idempotency_key', b -> 'idempotency_key', 'request_id', b -> 'request_id', 'traceparent', b -> 'traceparent'))
        || coalesce((b -> 'judging') - facts_of_request, '{}'))
    from accepted a
    returning stream, at, facts
  )
  insert into submissions select (accepted_submission(e.stream, e.at, e.facts)).* from appended e;

  if batch @? '$[*].webhook.key_id' then
    insert into webhook_secrets (submission_id, encryption_key_id, nonce, ciphertext)
    select id, w ->> 'key_id', decode(w ->> 'nonce', 'hex'), decode(w ->> 'ciphertext', 'hex')
    from unnest(ns, ids) x(n, id) cross join lateral (select batch -> (x.n - 1) -> 'webhook') row(w)
    where jsonb_typeof(w) = 'object';
  end if;
end
$$;
