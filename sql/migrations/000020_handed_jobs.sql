-- What is handed over has a random number (hand_over.sql).
drop sequence handed_jobs;
