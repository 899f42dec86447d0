-- All who seal read the newest checkpoint with its cosignatures, and a row can never be removed. So a login of web could end
-- sealing with a few lines of hundreds of megabytes. put_cosignature bounds their number.
alter table cosignatures add constraint short check (octet_length(line) <= 1024 and octet_length(witness) <= 1024) not valid;
