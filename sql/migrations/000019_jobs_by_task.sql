-- Says at once whether a job waits for this worker, however many wait for others (hand_over.sql).
create index jobs_by_task on graphile_worker._private_jobs (task_id, run_at) where is_available;
