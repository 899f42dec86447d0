/**
 * Holds what retention claims against what is gone: every gap in the tree belongs to a month that an event says was detached,
 * with the number and the digest of its leaves; the month had ended; none of its streams is back; and the removals that the
 * auditor allows (src/domain/removals.ts) have it. What is in the schema runledger_detached must be what was sealed.
 */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';
import { allowsDetached, allowsPurge, type Removals } from '../domain/removals.ts';
import { ENTRY_COLUMNS } from '../proof/entry.ts';
import { leafHash } from '../proof/merkle.ts';
import { readEntries } from './entries.ts';
import type { LogClaim } from './entry_check.ts';
import type { Problems } from './problems.ts';
import type { GapDigest } from './verify_log.ts';
import { monthOf } from './verify_shape.ts';

export type DetachedMonth = {
  readonly partition: string;
  readonly events: number;
  readonly leaves_sha256: string | null;
  readonly at: Date;
};

export const detachedMonths = (claims: readonly LogClaim[]): DetachedMonth[] =>
  claims
    .filter(({ type }) => type === 'log.detached')
    .map(({ facts, at }) => ({
      partition: String(facts['partition']),
      events: Number(facts['events']),
      leaves_sha256: (facts['leaves_sha256'] as string | undefined) ?? null,
      at,
    }));

/** `removals`: null without a policy, where nobody says what is allowed. */
export function checkRemovals(
  claims: readonly LogClaim[],
  gaps: readonly GapDigest[],
  removals: Removals | null,
  problems: Problems,
): DetachedMonth[] {
  const months = detachedMonths(claims);
  const byPartition = Map.groupBy(months, ({ partition }) => partition);
  for (const { partition, count, sha256 } of gaps) {
    const claimed = byPartition.get(partition)?.[0];
    if (!claimed)
      problems.add(
        'removals',
        `${count} sealed events of ${partition} are gone, and no event says that it was detached`,
      );
    else if (claimed.leaves_sha256 === null)
      problems.add(
        'removals',
        `${count} sealed events of ${partition} are gone, and its detachment names no leaves`,
      );
    else if (claimed.leaves_sha256 !== sha256)
      problems.add(
        'removals',
        `the leaves that are gone from ${partition} are not those that its detachment names`,
      );
    else if (claimed.events !== count)
      problems.add(
        'removals',
        `${count} sealed events of ${partition} are gone, and its detachment counts ${claimed.events}`,
      );
  }
  const gone = new Set(gaps.map(({ partition }) => partition));
  for (const [partition, [claimed, ...again]] of byPartition) {
    if (again.length > 0)
      problems.add('removals', `${partition} was detached ${again.length + 1} times`);
    checkMonth(claimed!, gone, removals, problems);
  }
  for (const { at, facts } of claims.filter(({ type }) => type === 'payloads.purged')) {
    const ended_before = new Date(String(facts['ended_before']));
    if (removals && !allowsPurge(removals, ended_before, at))
      problems.add(
        'removals',
        `the log claims a removal that the policy does not allow: payloads purged at ${at.toISOString()}, of submissions that ended before ${ended_before.toISOString()}`,
      );
    if (ended_before > at)
      problems.add(
        'removals',
        `the purge at ${at.toISOString()} names a time that was still to come`,
      );
  }
  return months;
}

function checkMonth(
  month: DetachedMonth,
  gone: ReadonlySet<string>,
  removals: Removals | null,
  problems: Problems,
): void {
  const { partition, events, leaves_sha256, at } = month;
  if (removals && !allowsDetached(removals, month))
    problems.add(
      'removals',
      `the log claims a removal that the policy does not allow: ${partition} detached with ${events} events, leaves ${leaves_sha256 ?? '-'}`,
    );
  const ends = monthOf(partition)?.ends;
  if (!ends) problems.add('removals', `${partition} was detached, and is no month`);
  else if (ends > at)
    problems.add(
      'removals',
      `${partition} was detached at ${at.toISOString()}, before its month had ended`,
    );
  if (leaves_sha256 !== null && events > 0 && !gone.has(partition))
    problems.add('removals', `${partition} was detached, and the tree has no gap for it`);
}

/** In the database: streams that are back, and detached tables that are still there. */
export async function checkDetached(
  db: Db,
  months: readonly DetachedMonth[],
  problems: Problems,
): Promise<void> {
  for (const { partition, leaves_sha256, events } of months) {
    const month = monthOf(partition);
    if (!month) continue;
    const [back] = await db<{ stream: string }[]>`
      select stream from runledger.events where stream >= ${month.low} and stream < ${month.high} order by stream limit 1`;
    if (back)
      problems.add(
        'removals',
        `${partition} was detached, and its stream ${back.stream} is in the log again`,
      );
    const kept = await detachedTable(db, partition);
    if (kept && !kept.plain)
      problems.add('removals', `runledger_detached.${partition} is no plain table`);
    if (leaves_sha256 === null || !kept?.plain) continue;
    const digest = createHash('sha256');
    let count = 0;
    const query = `select ${ENTRY_COLUMNS} from only runledger_detached.${quoted(partition)} order by generation, xid, seq`;
    for await (const entries of readEntries(db, query))
      for (const entry of entries) {
        digest.update(leafHash(entry));
        count++;
      }
    if (count !== events || digest.digest('hex') !== leaves_sha256)
      problems.add(
        'removals',
        `runledger_detached.${partition} does not hold the events that were sealed`,
      );
  }
}

/** Null if nothing of that name is there. Our own triggers stay on a table that was detached. */
async function detachedTable(db: Db, partition: string): Promise<{ plain: boolean } | null> {
  const [row] = await db<{ plain: boolean }[]>`
    select c.relkind = 'r' and not (c.relhasrules or c.relrowsecurity or c.relforcerowsecurity or c.relispartition)
      and not exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent))
      and not exists (
        select from pg_trigger g join pg_proc p on p.oid = g.tgfoid
        where g.tgrelid = c.oid and p.pronamespace <> 'runledger'::regnamespace) as plain
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'runledger_detached' and c.relname = ${partition}`;
  return row ?? null;
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
