-- The names by which graphile-worker's own runners lock jobs for a consumer. A runner chooses its name at random, so it is
-- recorded here: when the consumer dies, its jobs can be found.
alter table consumers add column lockers text[] not null default '{}';
