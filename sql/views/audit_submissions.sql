create or replace view runledger.audit_submissions as
select s.id as submission_id, s.account_id, a.name as account, s.key_id, s.language, s.status, s.verdict, s.exit_code, s.signal,
  s.cpu_time_us, s.wall_time_us, s.memory_peak_bytes, s.attempts, s.deaths, s.has_webhook, s.created_at, s.started_at, s.completed_at,
  s.test_set as test_set_id, s.score
from runledger.submissions s join runledger.accounts a on a.id = s.account_id;

comment on view runledger.audit_submissions is 'Every submission and its present state, without what the user sent and received.';
comment on column runledger.audit_submissions.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_submissions.account_id is 'The id of the account.';
comment on column runledger.audit_submissions.account is 'The name of the account.';
comment on column runledger.audit_submissions.key_id is 'The key that submitted it.';
comment on column runledger.audit_submissions.language is 'The canonical name of the language.';
comment on column runledger.audit_submissions.status is 'pending, running, completed, error or cancelled.';
comment on column runledger.audit_submissions.verdict is 'The verdict. Null: it has not ended, or was cancelled.';
comment on column runledger.audit_submissions.exit_code is 'The exit code of the program; 128 + N after signal N. Null: it did not run, or has not ended.';
comment on column runledger.audit_submissions.signal is 'The signal that ended the program. Null: none.';
comment on column runledger.audit_submissions.cpu_time_us is 'CPU time of the run in microseconds.';
comment on column runledger.audit_submissions.wall_time_us is 'Wall time of the run in microseconds.';
comment on column runledger.audit_submissions.memory_peak_bytes is 'The peak of its memory in bytes.';
comment on column runledger.audit_submissions.attempts is 'How many executions were started.';
comment on column runledger.audit_submissions.deaths is 'How many losses count as its deaths.';
comment on column runledger.audit_submissions.has_webhook is 'True: its result is delivered to a webhook.';
comment on column runledger.audit_submissions.created_at is 'When it was accepted.';
comment on column runledger.audit_submissions.started_at is 'When its last execution was started.';
comment on column runledger.audit_submissions.completed_at is 'When it ended.';
comment on column runledger.audit_submissions.test_set_id is 'The stored test set that it is judged by. Null: none.';
comment on column runledger.audit_submissions.score is 'Its score, where its test set gives one.';
