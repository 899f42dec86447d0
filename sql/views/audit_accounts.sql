-- Every account.
create or replace view runledger.audit_accounts as
select id as account_id, name as account, created_at from runledger.accounts;
