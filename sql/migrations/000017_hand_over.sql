-- An execution that the transaction of its submission has started: sql/functions/hand_over.sql says how.

-- The channel on which a worker hears of them. Null: it takes none now.
alter table consumers add column hand_to text;
-- The channel of the web process whose request waits for the result.
alter table leases add column reply_to text;
-- They have no job in graphile-worker's table. Their leases have numbers below 0 in its place.
create sequence handed_jobs increment by -1;
