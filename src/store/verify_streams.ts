/**
 * What the order of the feed does not show: that the versions of each stream run from 1 without a gap, that its events are of
 * one kind of thing, that each stream is in the partition of its month, and that the partitions hold no event that reading by
 * the index did not give. So this reads the tables themselves, and no index.
 */
import type { Db } from '../db.ts';
import type { Problems } from './problems.ts';
import { BY_PAGES, reading } from './scans.ts';
import { KIND, PERMANENT } from './stream_kinds.ts';
import { partitionsOf, quoted, staysIn } from './verify_places.ts';

const SHOWN = 100;

/** Returns how many events the tables hold. */
export async function checkStreams(db: Db, problems: Problems): Promise<number> {
  const names = await partitionsOf(db, 'events');
  return reading(db, BY_PAGES, async () => {
    let events = 0;
    for (const name of names)
      events += await checkPartition(db, name, staysIn(name, names, 'stream'), problems);
    return events;
  });
}

type Broken = { stream: string; count: string; newest: number; place: boolean; alike: boolean };

const ALIKE = `min(${KIND}) = max(${KIND}) and (min(${KIND}) = 'submission') = (stream < '${PERMANENT}')`;

async function checkPartition(
  db: Db,
  name: string,
  stays: string,
  problems: Problems,
): Promise<number> {
  const [row] = await db.unsafe<{ events: string; broken: string; first: Broken[] | null }[]>(`
    with streams as (
      select stream, count(*) as count, max(version) as newest, min(version) as oldest, ${stays} as place, ${ALIKE} as alike
      from only runledger.${quoted(name)} group by stream
    ), wrong as (
      select * from streams where count <> newest or oldest <> 1 or not place or not alike
    )
    select coalesce((select sum(count) from streams), 0) as events, (select count(*) from wrong) as broken,
      (select jsonb_agg(to_jsonb(w)) from (select stream, count::text, newest, place, alike from wrong order by stream limit ${SHOWN}) w) as first`);
  const { events, broken, first } = row!;
  for (const { stream, count, newest, place, alike } of first ?? []) {
    if (!place)
      problems.add('streams', `stream ${stream} is in ${name}, which is not its partition`);
    else if (!alike)
      problems.add('streams', `stream ${stream} has events of a type that it cannot have`);
    else problems.add('streams', `stream ${stream} has ${count} events up to version ${newest}`);
  }
  problems.addMore('streams', Number(broken) - (first?.length ?? 0));
  return Number(events);
}
