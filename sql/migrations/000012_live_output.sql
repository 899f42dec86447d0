-- What running programs print, for those who follow them. None of it is part of the record, and a crash of the server may
-- forget it.

-- Submissions whose output somebody follows.
create unlogged table output_watches (
  submission_id uuid primary key,
  until timestamptz not null
) with (fillfactor = 50);

-- Rows are added in order, and deleted seconds later.
create unlogged table output_pieces (
  n bigint generated always as identity primary key,
  submission_id uuid not null,
  attempt integer not null,
  is_stderr boolean not null,
  -- where in its stream it begins
  begins_at integer not null,
  bytes bytea not null,
  shown_at timestamptz not null
);
create index output_pieces_submission on output_pieces (submission_id, n);
alter table output_pieces alter column bytes set storage external;
