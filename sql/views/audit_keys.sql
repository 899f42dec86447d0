-- Which secrets a key had, and when each was valid: one row for each secret. A secret ends by a rotation (after its grace
-- period) or when the key is revoked, whichever comes first. A valid_until of null: it is valid now.
create or replace view runledger.audit_keys as
select k.id as key_id, k.account_id, a.name as account, k.tier, k.prefix,
  row_number() over (partition by k.id order by s.created_at) as secret,
  s.created_at as valid_from, least(s.expires_at, k.revoked_at) as valid_until,
  k.created_at as key_created_at, k.revoked_at as key_revoked_at
from runledger.keys k
join runledger.accounts a on a.id = k.account_id
join runledger.key_secrets s on s.key_id = k.id;
