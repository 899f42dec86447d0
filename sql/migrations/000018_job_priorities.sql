-- The lowest two priorities are for deliveries alone. A job that waited for long may have one of them.
update graphile_worker._private_jobs j set priority = -32766 where j.priority < -32766;
-- Deliveries come before executions in the index of jobs, so that a search for executions does not read them (gate.sql).
update graphile_worker._private_jobs j set priority = -32768
where j.locked_at is null and j.task_id = (select t.id from graphile_worker._private_tasks t where t.identifier = 'deliver_webhook');
