create or replace view runledger.audit_keys as
select k.id as key_id, k.account_id, a.name as account, k.tier, k.prefix,
  row_number() over (partition by k.id order by s.created_at) as secret,
  s.created_at as valid_from, least(s.expires_at, k.revoked_at) as valid_until,
  k.created_at as key_created_at, k.revoked_at as key_revoked_at
from runledger.keys k
join runledger.accounts a on a.id = k.account_id
join runledger.key_secrets s on s.key_id = k.id;

comment on view runledger.audit_keys is 'Which secrets a key had, and when each was valid. One row is one secret.';
comment on column runledger.audit_keys.key_id is 'The id of the key.';
comment on column runledger.audit_keys.account_id is 'The id of the account.';
comment on column runledger.audit_keys.account is 'The name of the account.';
comment on column runledger.audit_keys.tier is 'The tier of the key.';
comment on column runledger.audit_keys.prefix is 'The prefix with which the key was made; it is the first word of the key.';
comment on column runledger.audit_keys.secret is 'The number of the secret, from 1. A rotation adds one.';
comment on column runledger.audit_keys.valid_from is 'When the secret was made.';
comment on column runledger.audit_keys.valid_until is 'When the secret ended or will end: after the grace period of a rotation, or when the key was revoked. Null: it is valid now.';
comment on column runledger.audit_keys.key_created_at is 'When the key was created.';
comment on column runledger.audit_keys.key_revoked_at is 'When the key was revoked. Null: it was not.';
