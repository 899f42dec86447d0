create or replace view runledger.audit_accounts as
select id as account_id, name as account, created_at from runledger.accounts;

comment on view runledger.audit_accounts is 'Every account.';
comment on column runledger.audit_accounts.account_id is 'The id of the account.';
comment on column runledger.audit_accounts.account is 'The name of the account.';
comment on column runledger.audit_accounts.created_at is 'When its first key was made.';
