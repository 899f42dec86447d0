-- What operators did (runledger.audit_commands), in the order of its times: the page Log of the console reads it from any place on.
-- Test sets that users send and delete are left out. It replaces an index of the deliveries alone that were requested again.
drop index events_replays;
create index events_commands on events (at, seq)
where (stream >= 'f0000000-0000-0000-0000-000000000000' and (type not like 'test\_set.%' or not facts ? 'key_id'))
  or (type = 'delivery.requested' and (facts ->> 'replay') is not null);
