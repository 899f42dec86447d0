-- Who held which key when: one row for each secret that a key ever had, and when it was good. A secret ends by a
-- rotation (after its grace) or when the key is revoked, whichever is first; null: it is good now.
create or replace view runledger.audit_keys as
select k.id as key_id, k.account_id, a.name as account, k.tier, k.prefix,
  row_number() over (partition by k.id order by s.created_at) as secret,
  s.created_at as valid_from, least(s.expires_at, k.revoked_at) as valid_until,
  k.created_at as key_created_at, k.revoked_at as key_revoked_at
from runledger.keys k
join runledger.accounts a on a.id = k.account_id
join runledger.key_secrets s on s.key_id = k.id;
