-- Every submission as it stood at a time: the log up to then, folded as everywhere. Of a stream all events count up to the
-- first that is later than the time; so a clock that stepped back leaves no gap in the versions.
create or replace function runledger.audit_state_at(at timestamptz)
returns table (
  submission_id uuid, account_id uuid, key_id uuid, language text, status text, verdict text, exit_code integer, signal text,
  attempts integer, deaths integer, created_at timestamptz, started_at timestamptz, completed_at timestamptz
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select (x.s).id, (x.s).account_id, (x.s).key_id, (x.s).language, (x.s).status, (x.s).verdict, (x.s).exit_code, (x.s).signal,
    (x.s).attempts, (x.s).deaths, (x.s).created_at, (x.s).started_at, (x.s).completed_at
  from (
    select submission_of(l.stream, l.version, l.type, l.at, l.facts) as s
    from (
      select * from (
        select *, max(log.at) over (partition by stream order by version) as latest from log
        where stream < 'f0000000-0000-0000-0000-000000000000'
      ) w
      where w.latest <= audit_state_at.at
      order by stream, version
    ) l
    group by l.stream
  ) x
$$;

-- Of the submissions that were accepted between two times.
create or replace function runledger.audit_state_at(at timestamptz, accepted_from timestamptz)
returns table (
  submission_id uuid, account_id uuid, key_id uuid, language text, status text, verdict text, exit_code integer, signal text,
  attempts integer, deaths integer, created_at timestamptz, started_at timestamptz, completed_at timestamptz
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select (x.s).id, (x.s).account_id, (x.s).key_id, (x.s).language, (x.s).status, (x.s).verdict, (x.s).exit_code, (x.s).signal,
    (x.s).attempts, (x.s).deaths, (x.s).created_at, (x.s).started_at, (x.s).completed_at
  from (
    select submission_of(l.stream, l.version, l.type, l.at, l.facts) as s
    from (
      select * from (
        select log.*, max(log.at) over (partition by log.stream order by log.version) as latest
        from submissions c join log on log.stream = c.id
        where c.created_at >= accepted_from and c.created_at <= audit_state_at.at
      ) w
      where w.latest <= audit_state_at.at
      order by stream, version
    ) l
    group by l.stream
  ) x
$$;

comment on function runledger.audit_state_at(timestamptz) is 'Every submission as it stood at a time, folded from the log. Takes minutes in a large log. The columns are those of audit_submissions.';
comment on function runledger.audit_state_at(timestamptz, timestamptz) is 'The same for the submissions that were accepted from the second time to the first.';
