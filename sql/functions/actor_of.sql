-- Who caused an event: the fact that says it, in one form for all types. Audit views call this as the role that reads them,
-- so it reads no table. started_by: for the end of an execution or of a delivery, the consumer of the event before it, which
-- an end does not repeat.
create or replace function runledger.actor_of(type text, facts jsonb, started_by uuid default null) returns text
language sql immutable parallel safe
as $$
  select case
    -- Only of types that say who gave the command: a worker that is not ours may put any fact into its reports.
    when facts ->> 'operator' is not null and type in ('submission.accepted', 'account.created', 'tier.set', 'key.created', 'key.rotated', 'key.revoked',
      'operator.created', 'operator.revoked', 'operator.signed_in', 'operator.signed_out', 'operator.viewed', 'delivery.requested',
      'test_set.deleted', 'payloads.purged', 'payloads.forgotten', 'log.detached', 'log.repaired', 'log.retention_set') then 'operator ' || (facts ->> 'operator')
    -- Retention's own schedule.
    when facts ? 'scheduled' and type in ('payloads.purged', 'log.detached') then 'service'
    when type in ('submission.accepted', 'submission.cancelled', 'test_set.created', 'test_set.deleted') and facts ? 'key_id' then 'key ' || (facts ->> 'key_id')
    -- Found by the sweep of another process, or ended by a rule.
    when type = 'execution.lost' and facts -> 'evidence' ? 'found_at' or type = 'submission.failed' and facts -> 'evidence' ? 'failed_for' then 'service'
    when coalesce(facts ->> 'consumer', started_by::text) is not null then 'consumer ' || coalesce(facts ->> 'consumer', started_by::text)
    when type in ('account.created', 'tier.set', 'key.created', 'key.rotated', 'key.revoked', 'operator.created', 'operator.revoked', 'test_set.deleted', 'payloads.purged', 'payloads.forgotten', 'log.detached', 'log.repaired', 'log.retention_set')
      or type = 'delivery.requested' and facts ->> 'replay' is not null then 'operator'
    else 'service' end
$$;
comment on function runledger.actor_of is 'Who caused an event: key ID, operator USER@HOST (a command) or operator console:NAME (the console; operator alone for events from before their names were recorded), consumer ID (a worker, or a web process that delivers), or service.';
