-- The language of a submission that is set aside (set_aside.sql). Null: it waits for the limit of its key.
alter table gated add column aside text;
create index gated_aside on gated (aside, submission_id) where aside is not null;
