-- Why an execution can end without a report. release_many() accepts no other reason. A reason stays in this list for as
-- long as a log may hold it.
--
--   counts       the submission may be the cause: the loss is one of its deaths, and it runs alone from then on
--   ends_after   the submission ends in `error` at this number of deaths (where counts) or of losses for this very reason
--   failed_for   the word for that in the evidence of submission.failed
create or replace view runledger.loss_reasons as
select * from (values
  ('worker_died', true, 3, 'deaths', 'the worker''s process has ended; or its database lock became free and no heartbeat came for 5 s, so it has probably ended'),
  ('launcher_died', true, 3, 'deaths', 'the launcher ended while it ran the program'),
  ('execution_failed', true, 3, 'deaths', 'the worker failed to compile or run the program, and nothing shows what caused it'),
  ('worker_silent', false, 20, 'silence', 'no heartbeat for 5 s, and nothing shows that the worker has ended: it hangs, or is cut off from the database'),
  ('database_away', false, null, null, 'the database was away or was restarted, so the worker''s lease ended'),
  ('answer_lost', false, null, null, 'the connection broke before the worker had the answer to the statement that started the execution'),
  ('no_slot', false, null, null, 'the worker had prefetched the job, and no slot became free in time; or its machine lacked what the program needed: disk, memory, a process, the launcher, or the language of its checker'),
  ('shutdown', false, null, null, 'the worker stopped and gave the execution back')
) reasons (reason, counts, ends_after, failed_for, description);
