-- No digest of a secret, and no sketch, is in the facts.
create or replace view runledger.audit_commands as
select l.at, runledger.actor_of(l.type, l.facts) as actor, l.type, l.stream as about, o.name as operator, a.id as account_id, a.name as account,
  case when l.type like 'key.%' then l.stream end as key_id,
  case when l.type = 'tier.set' then l.facts ->> 'name' else l.facts ->> 'tier' end as tier,
  (l.facts ->> 'submission_id')::uuid as submission_id,
  l.facts - '{operator,account_id,tier,submission_id,digest,sketch,leaves_sketch}'::text[] as facts,
  l.version
from runledger.log l
left join runledger.keys k on k.id = l.stream
left join runledger.operators o on o.id = l.stream
left join runledger.accounts a on a.id = case
  when l.type like 'test\_set.%' then (
    select (c.facts ->> 'account_id')::uuid from runledger.log c where c.stream = l.stream and c.type = 'test_set.created')
  else coalesce(k.account_id, (l.facts ->> 'account_id')::uuid, l.stream) end
where l.stream >= 'f0000000-0000-0000-0000-000000000000' and (l.type not like 'test\_set.%' or not l.facts ? 'key_id')
union all
select e.at, runledger.actor_of(e.type, e.facts), e.type, e.stream, null, a.id, a.name, null, null, e.stream, e.facts - '{operator}'::text[],
  e.version
from runledger.events e
join runledger.submissions s on s.id = e.stream
join runledger.accounts a on a.id = s.account_id
where e.type = 'delivery.requested' and (e.facts ->> 'replay') is not null;

comment on view runledger.audit_commands is 'Every command of an operator that changed something, and the changes that follow from it: one row is one event of an account, a key, a tier or the log itself, a test set that an operator deleted, a delivery that was requested again, or a sign-in to the console, the end of one, and whose submission was seen there.';
comment on column runledger.audit_commands.at is 'When it was done.';
comment on column runledger.audit_commands.actor is 'Who did it: operator USER@HOST, where USER is the user on the machine where the command ran; or operator console:NAME, where NAME is that of the key that signed in to the console. Events from before names were recorded have operator alone.';
comment on column runledger.audit_commands.type is 'The type of the event.';
comment on column runledger.audit_commands.about is 'The stream of the event: the id of what it was done to, such as an account, a key, a tier, an operator, a test set, a submission, or the log itself.';
comment on column runledger.audit_commands.operator is 'The name of the operator whose key for the console it was done to, or who was in the console.';
comment on column runledger.audit_commands.account_id is 'The id of the account that it was done to, or whose key, test set or submissions.';
comment on column runledger.audit_commands.account is 'The name of that account.';
comment on column runledger.audit_commands.key_id is 'The key that was created, rotated or revoked.';
comment on column runledger.audit_commands.tier is 'The tier that was set, or that the key got.';
comment on column runledger.audit_commands.submission_id is 'The submission whose webhook was requested again, or that an operator saw in the console.';
comment on column runledger.audit_commands.facts is 'The other facts of the event, without digests of secrets and without sketches.';
comment on column runledger.audit_commands.version is 'The number of the event in the stream that `about` names, from 1.';
