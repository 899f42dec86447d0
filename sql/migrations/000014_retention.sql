-- What retention does by itself, and how its newest round went. The owner sets the schedule (migrate), so web can remove nothing
-- that is younger, and nothing at all without one.
create table retention (
  only_row boolean primary key default true check (only_row),
  -- null: for ever
  keep_bytes interval check (keep_bytes >= interval '1 day'),
  keep_events interval check (keep_events >= interval '1 day'),
  set_at timestamptz not null,
  began_at timestamptz,
  ended_at timestamptz,
  -- why the newest round did not remove all that was due
  problem text
);
insert into retention (set_at) values (now());
