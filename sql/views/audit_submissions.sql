-- Every submission and its state, without what the user sent and received.
create or replace view runledger.audit_submissions as
select s.id as submission_id, s.account_id, a.name as account, s.key_id, s.language, s.status, s.verdict, s.exit_code, s.signal,
  s.cpu_time_us, s.wall_time_us, s.memory_peak_bytes, s.attempts, s.deaths, s.has_webhook, s.created_at, s.started_at, s.completed_at
from runledger.submissions s join runledger.accounts a on a.id = s.account_id;
