-- The index by X-Request-Id and by Idempotency-Key, so that the planner takes it for certain.
--
-- Both values are random, so their order has nothing to do with that of the rows. The planner takes this correlation from a
-- sample, as a number that is near 0 by chance, and divides by it: sometimes it expects to read the whole log, and then reads it.
-- It uses the largest correlation of the columns that a query names. Events are appended in the order of their times, so the
-- time is a column, and runledger.audit_requests names it.
drop index events_requests;
create index events_requests on events using brin (
  at timestamptz_minmax_ops,
  (facts ->> 'request_id') text_bloom_ops,
  encode(sha256(uuid_send((facts ->> 'idempotency_key')::uuid)), 'hex') text_bloom_ops
) with (pages_per_range = 32, autosummarize = on) where type = 'submission.accepted';
