-- The same condition, as the server prints it of a dump that was restored: BETWEEN becomes an AND within an AND, which is
-- printed with parentheses, and these are gone when it is read again. So verify would see another constraint there.
alter table log_tiles
  drop constraint log_tiles_hashes_check,
  add constraint log_tiles_hashes_check
    check (octet_length(hashes) >= 32 and octet_length(hashes) <= 8192 and octet_length(hashes) % 32 = 0);
