/**
 * What the order of the feed does not show: that the versions of each stream run from 1 without a gap, that each stream is in
 * the partition of its month, and that the partitions hold no event that reading by the index did not give. So this reads the
 * tables themselves, and no index.
 */
import type { Db } from '../db.ts';
import type { Problems } from './problems.ts';
import { BY_PAGES, reading } from './scans.ts';
import { monthOf } from './verify_shape.ts';

const SHOWN = 100;
/** Streams from here on are no submissions. */
const PERMANENT = 'f0000000-0000-0000-0000-000000000000';

/** Returns how many events the tables hold. */
export async function checkStreams(db: Db, problems: Problems): Promise<number> {
  const partitions = await db<{ name: string }[]>`
    select c.relname as name
    from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
    where p.relnamespace = 'runledger'::regnamespace and p.relname = 'events'
      and c.relnamespace = 'runledger'::regnamespace and c.relkind = 'r' order by 1`;
  return reading(db, BY_PAGES, async () => {
    let events = 0;
    for (const { name } of partitions) events += await checkPartition(db, name, problems);
    return events;
  });
}

type Broken = { stream: string; count: string; newest: number; place: boolean };

async function checkPartition(db: Db, name: string, problems: Problems): Promise<number> {
  const month = monthOf(name);
  const stays = month
    ? `stream >= '${month.low}' and stream < '${month.high}'`
    : name === 'events_permanent'
      ? `stream >= '${PERMANENT}'`
      : `stream < '${PERMANENT}'`;
  const quoted = `"${name.replaceAll('"', '""')}"`;
  const [row] = await db.unsafe<{ events: string; broken: string; first: Broken[] | null }[]>(`
    with streams as (
      select stream, count(*) as count, max(version) as newest, min(version) as oldest, ${stays} as place
      from only runledger.${quoted} group by stream
    ), wrong as (
      select * from streams where count <> newest or oldest <> 1 or not place
    )
    select coalesce((select sum(count) from streams), 0) as events, (select count(*) from wrong) as broken,
      (select jsonb_agg(to_jsonb(w)) from (select stream, count::text, newest, place from wrong order by stream limit ${SHOWN}) w) as first`);
  const { events, broken, first } = row!;
  for (const { stream, count, newest, place } of first ?? []) {
    if (!place)
      problems.add('streams', `stream ${stream} is in ${name}, which is not its partition`);
    else problems.add('streams', `stream ${stream} has ${count} events up to version ${newest}`);
  }
  problems.addMore('streams', Number(broken) - (first?.length ?? 0));
  return Number(events);
}
