-- How far each witness (the name and the id of its key) is with the newest checkpoint's log: the largest tree that it
-- cosigned, the leaves that it has not, and for how long there has been a checkpoint that it has not cosigned.
create or replace function runledger.cosigned(witnesses text[])
returns table (witness text, size bigint, behind bigint, behind_s double precision)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select w.name, coalesce(s.size, 0), n.size - coalesce(s.size, 0), coalesce(extract(epoch from clock() - (
    select c.sealed_at from checkpoints c where c.origin = n.origin and c.size > coalesce(s.size, 0) order by c.size limit 1)), 0)
  from (select c.origin, c.size from checkpoints c order by c.number desc limit 1) n
  cross join unnest(cosigned.witnesses) w(name)
  left join lateral (
    select max(c.size) as size from cosignatures c where c.origin = n.origin and c.witness = w.name
  ) s on true
$$;

-- The checkpoint of the largest tree that, by its row, this witness has cosigned, and its line. Nobody believes the row.
create or replace function runledger.last_cosigned(origin text, witness text)
returns table (note text, line text)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select c.note, s.line
  from cosignatures s join checkpoints c on c.origin = s.origin and c.size = s.size
  where s.origin = last_cosigned.origin and s.witness = last_cosigned.witness order by s.size desc limit 1
$$;
