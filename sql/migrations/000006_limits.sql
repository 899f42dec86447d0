-- The limits in force for the run, and the one that the program exceeded: facts of submission.completed. Null for submissions
-- that ended before these facts existed.
alter table submissions add column limits jsonb, add column limit_exceeded text;
