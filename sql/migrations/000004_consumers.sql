-- One word for each thing. A process that takes jobs is a consumer (it was a pool); the number of its set of database
-- connections is its epoch (it was a link); a submission without a job because its key is at its concurrency limit is
-- gated (it was held); a webhook's secret is encrypted, and only the log is sealed.
alter table pools rename to consumers;
alter index pools_pkey rename to consumers_pkey;
alter index pools_alive rename to consumers_alive;
alter table consumers rename column link to epoch;
alter table consumers rename constraint pools_kind_check to consumers_kind_check;
alter table pool_progress rename to consumer_progress;
alter index pool_progress_pkey rename to consumer_progress_pkey;
alter table consumer_progress rename column pool_id to consumer_id;
alter table leases rename column pool_id to consumer_id;
alter index leases_pool rename to leases_consumer;
alter table held rename to gated;
alter index held_pkey rename to gated_pkey;
alter table key_usage rename column held to gated;
alter table webhook_secrets rename column sealing_key_id to encryption_key_id;
