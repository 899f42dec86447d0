-- A pool's connections live and die together (links). The number of those that it has now: what still arrives by the ones
-- before takes nothing any more.
alter table pools add column link integer not null default 1;
