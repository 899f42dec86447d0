-- How a pool's death is told from its silence: whether it held its lock at its last heartbeat, and since when a sweep
-- has seen that lock free.
alter table pools
  add column locked boolean not null default false,
  add column lock_free_since timestamptz;
create index leases_job on leases (job_id);
