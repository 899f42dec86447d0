-- Tiles of a detached run have equal places after a repair. The leaf of an event is in the last of them.
drop index log_tiles_feed;
create index log_tiles_feed on log_tiles (generation, xid, seq, index) where level = 0;
