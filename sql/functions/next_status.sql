-- The states of a submission and the events that change them. This is the only definition: live writes, rebuild, verify
-- and audit_state_at all use it, and `./runledger states` prints it.
--
-- A status of null is that of a stream without events. The answer is null for an event that must not follow in that
-- status; next_submission() then rejects the event.
create or replace function runledger.next_status(status text, type text) returns text
language sql immutable parallel safe
as $$
  select case type
    when 'submission.accepted' then case when status is null then 'pending' end
    when 'execution.started' then case status when 'pending' then 'running' end
    when 'execution.lost' then case status when 'running' then 'pending' end
    when 'submission.completed' then case status when 'running' then 'completed' end
    when 'submission.failed' then case when status in ('pending', 'running') then 'error' end
    when 'submission.cancelled' then case when status in ('pending', 'running') then 'cancelled' end
    -- a late report changes nothing, whatever the status is
    when 'execution.refused' then status
    -- a delivery belongs to a submission that has ended
    when 'delivery.requested' then case when status in ('completed', 'error', 'cancelled') then status end
    when 'delivery.attempted' then case when status in ('completed', 'error', 'cancelled') then status end
    when 'delivery.ended' then case when status in ('completed', 'error', 'cancelled') then status end
  end
$$;
