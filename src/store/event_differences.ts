/** Turns the differences of a sketch into changed, removed and inserted events, with what the log still has of each. */
import type { Db } from '../db.ts';
import type { Differences, Item } from '../domain/sketch.ts';

export type EventDifference = {
  kind: 'changed' | 'removed' | 'inserted';
  stream: string;
  version: number;
  /** What the log has there now; null for a removed event. */
  type: string | null;
  at: Date | null;
};

export async function eventDifferences(db: Db, found: Differences): Promise<EventDifference[]> {
  // A partial reading names no wrong event, but it would hide how many there are.
  if (!found.complete) return [];
  const inserted = new Map(found.inserted.map((item) => [keyOf(item), item]));
  const kinds = found.removed.map((item) => ({
    item,
    kind: inserted.delete(keyOf(item)) ? ('changed' as const) : ('removed' as const),
  }));
  const all = [
    ...kinds,
    ...[...inserted.values()].map((item) => ({ item, kind: 'inserted' as const })),
  ];
  const standing = await eventsAt(
    db,
    all.map(({ item }) => item),
  );
  return all
    .map(({ item: { stream, version }, kind }) => {
      const event = kind === 'removed' ? undefined : standing.get(keyOf({ stream, version }));
      return { kind, stream, version, type: event?.type ?? null, at: event?.at ?? null };
    })
    .sort((a, b) => (a.stream === b.stream ? a.version - b.version : a.stream < b.stream ? -1 : 1));
}

const keyOf = ({ stream, version }: Pick<Item, 'stream' | 'version'>) => `${stream} ${version}`;

type Standing = { stream: string; version: number; type: string; at: Date };

async function eventsAt(db: Db, items: readonly Item[]): Promise<Map<string, Standing>> {
  const rows = await db<Standing[]>`
    select e.stream, e.version, e.type, e.at
    from unnest(${`{${items.map(({ stream }) => stream)}}`}::text::uuid[],
      ${`{${items.map(({ version }) => version)}}`}::text::integer[]) x(stream, version)
    join runledger.events e on e.stream = x.stream and e.version = x.version`;
  return new Map(rows.map((row) => [keyOf(row), row]));
}
