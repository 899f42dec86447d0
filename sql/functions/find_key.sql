-- The key that a secret's SHA-256 belongs to, or no row. The first 12 bytes of the digest find a candidate. Then the whole
-- digests are compared blinded: both are hashed with a nonce of this call, so the time that the comparison takes says
-- nothing about the stored digest. Without a candidate the same comparison is made with zeros.
create or replace function runledger.find_key(digest bytea, at timestamptz)
returns table (key_id uuid, account_id uuid, per_minute integer, concurrent integer)
language sql stable
as $$
  select k.id, k.account_id, t.per_minute, t.concurrent
  from (select uuid_send(gen_random_uuid()) as nonce) blind
  left join runledger.key_secrets s on substr(s.digest, 1, 12) = substr(find_key.digest, 1, 12)
  left join runledger.keys k on k.id = s.key_id
  left join runledger.tiers t on t.name = k.tier
  where sha256(nonce || coalesce(s.digest, '\x0000000000000000000000000000000000000000000000000000000000000000'::bytea))
      = sha256(nonce || find_key.digest)
    and k.revoked_at is null and k.id is not null and (s.expires_at is null or s.expires_at > find_key.at)
$$;
