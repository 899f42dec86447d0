/**
 * Holds what retention claims against what is gone: every gap in the tree belongs to a month that an event says was detached,
 * with the number and the digest of its leaves; the month had ended; none of its streams is back; and the removals that the
 * auditor allows (src/domain/removals.ts) have it. What is in the schema runledger_detached must be what was sealed.
 */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';
import { timeText } from '../domain/clocks.ts';
import {
  allowsDetached,
  allowsForgotten,
  allowsPurge,
  allowsRepair,
  type Forgotten,
  isId,
  type Purge,
  type Removals,
} from '../domain/removals.ts';
import { ENTRY_COLUMNS } from '../proof/entry.ts';
import { leafHash } from '../proof/merkle.ts';
import type { Policy } from '../proof/policy.ts';
import { readEntries } from './entries.ts';
import { type LogClaim, nameOf } from './entry_check.ts';
import type { Problems } from './problems.ts';
import { RERUNS_OF } from './reruns.ts';
import { canBeDetached, isOfMonth, monthOf } from './uuid_months.ts';
import type { GapDigest } from './verify_log.ts';
import { quoted } from './verify_places.ts';
import { checkSchedule } from './verify_schedule.ts';

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

/**
 * Returns what the log claims of each partition, the first claim of it: anybody can append many of one name. `removals`: null
 * without a policy, where nobody says what is allowed.
 */
export function checkRemovals(
  claims: readonly LogClaim[],
  gaps: readonly GapDigest[],
  removals: Removals | null,
  problems: Problems,
): DetachedMonth[] {
  const byPartition = Map.groupBy(detachedMonths(claims), ({ partition }) => partition);
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
  for (const purge of purgesOf(claims)) {
    const { at, ended_before, last_id } = purge;
    const up_to = last_id === null ? ', up to no id' : '';
    if (removals && !allowsPurge(removals, purge))
      problems.add(
        'removals',
        `the log claims a removal that the policy does not allow: payloads purged at ${timeText(at)}, of submissions that ended before ${timeText(ended_before)}${up_to}`,
      );
  }
  for (const claim of forgottenIn(claims))
    if (removals && !allowsForgotten(removals, claim))
      problems.add(
        'removals',
        `the log claims a removal that the policy does not allow: ${claim.submissions.length} submissions forgotten at ${timeText(claim.at)}, of ${claim.account_id ?? claim.submissions[0]}`,
      );
  checkSchedule(claims, problems);
  for (const claim of claims) {
    const problem = claimProblem(claim);
    if (problem !== null) problems.add('removals', problem);
    else if (claim.type === 'test_set.deleted') checkSet(claim, removals, problems);
  }
  return [...byPartition.values()].map(([claimed]) => claimed!);
}

/** What is wrong with a claim whatever else is in the log; null if nothing is. */
export function claimProblem({ stream, type, at, facts }: LogClaim): string | null {
  const isNot = (time: unknown) => !(new Date(String(time)) <= at);
  if (type === 'payloads.purged' && isNot(facts['ended_before']))
    return `the purge at ${timeText(at)} names a time that was still to come, or none: ${timeText(new Date(String(facts['ended_before'])))}`;
  if (type === 'test_set.deleted' && facts['key_id'] === undefined && isNot(facts['unused_since']))
    return `test set ${stream} was deleted at ${timeText(at)} by no key, and not because it was unused since a time before`;
  // Sets of ids are compared as text. The service writes them in lower case.
  const odd = type === 'payloads.forgotten' ? idsOf(facts).find((id) => !isId(id)) : undefined;
  if (odd !== undefined)
    return `the log claims that ${odd} was forgotten at ${timeText(at)}, and this is no id in lower case`;
  if (type !== 'log.detached') return null;
  const partition = String(facts['partition']);
  if (!canBeDetached(partition)) return `${partition} was detached, and is no month`;
  const { ends } = monthOf(partition)!;
  return ends <= at
    ? null
    : `${partition} was detached at ${timeText(at)}, before its month had ended`;
}

/** A set that an operator deleted must be allowed like a purge of submissions that ended when the set was used last. */
function checkSet(
  { stream, at, facts }: LogClaim,
  removals: Removals | null,
  problems: Problems,
): void {
  if (facts['key_id'] !== undefined || removals?.forgotten.has(stream)) return;
  const ended_before = new Date(String(facts['unused_since']));
  if (removals && !allowsPurge(removals, { at, ended_before, last_id: stream }))
    problems.add(
      'removals',
      `the log claims a removal that the policy does not allow: test set ${stream} deleted at ${timeText(at)}, unused since ${timeText(ended_before)}`,
    );
}

export const purgesOf = (claims: readonly LogClaim[]): Purge[] =>
  claims
    .filter(({ type }) => type === 'payloads.purged')
    .map(({ at, facts }) => ({
      at,
      ended_before: new Date(String(facts['ended_before'])),
      last_id: (facts['last_id'] as string | undefined) ?? null,
    }));

/** Facts that are not of their schema are a problem of their own, and claim nothing. */
export const forgottenIn = (claims: readonly LogClaim[]): Forgotten[] =>
  claims
    .filter(({ type }) => type === 'payloads.forgotten')
    .map(({ at, facts }) => ({
      at,
      account_id: (facts['account_id'] as string | undefined) ?? null,
      submissions: idsOf(facts),
    }));

const idsOf = ({ submissions }: LogClaim['facts']): string[] =>
  Array.isArray(submissions) ? submissions.map(String) : [];

/**
 * An auditor may allow an account, and not each submission. So a claim that names one must be of its submissions alone, and of
 * their reruns. Of a month that was detached nobody can say.
 */
export async function checkForgotten(
  db: Db,
  claims: readonly LogClaim[],
  problems: Problems,
): Promise<void> {
  for (const { at, account_id, submissions } of forgottenIn(claims)) {
    if (account_id === null) continue;
    const ids = submissions.filter(isId);
    const foreign = await db<{ stream: string; account_id: string | null }[]>`
      select e.stream, e.facts ->> 'account_id' as account_id from runledger.events e
      where e.stream = any (${`{${ids}}`}::text::uuid[]) and e.version = 1 and e.facts ->> 'account_id' is distinct from ${account_id}
        and not exists (
          select from runledger.events a where a.stream = (e.facts ->> 'account_id')::uuid and a.version = 1
            and a.type = 'account.created' and a.facts ->> 'name' = ${RERUNS_OF + account_id})
      order by e.stream`;
    for (const one of foreign)
      problems.add(
        'removals',
        `the log claims that ${account_id} had ${one.stream} forgotten at ${timeText(at)}, and it is of ${one.account_id}`,
      );
  }
}

/**
 * A repair under a new name says that the checkpoints of the earlier name are not of these events any more. Where the policy
 * believes that name, the auditor must allow it: otherwise a repair would excuse any change.
 */
export function checkRepairs(
  claims: readonly LogClaim[],
  policy: Policy | null,
  removals: Removals | null,
  problems: Problems,
): void {
  if (!policy || !removals) return;
  for (const { type, at, facts } of claims) {
    const before = facts['before'] as { origin: string; size: number } | undefined;
    if (type !== 'log.repaired' || !before) continue;
    if (!policy.logs.some(({ key }) => key.name === before.origin)) continue;
    if (!allowsRepair(removals, before))
      problems.add(
        'removals',
        `the repair at ${timeText(at)} gives up ${before.origin} over ${before.size} events, whose checkpoints the policy believes: the removals have no line "repaired ${before.origin} ${before.size}"`,
      );
  }
}

function checkMonth(
  month: DetachedMonth,
  gone: ReadonlySet<string>,
  removals: Removals | null,
  problems: Problems,
): void {
  const { partition, events, leaves_sha256 } = month;
  if (removals && !allowsDetached(removals, month))
    problems.add(
      'removals',
      `the log claims a removal that the policy does not allow: ${partition} detached with ${events} events, leaves ${leaves_sha256 ?? '-'}`,
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
    let foreign: string | null = null;
    const query = `select ${ENTRY_COLUMNS} from only runledger_detached.${quoted(partition)} order by generation, xid, seq`;
    for await (const entries of readEntries(db, query))
      for (const entry of entries) {
        digest.update(leafHash(entry));
        count++;
        const { stream } = nameOf(entry);
        if (!isOfMonth(stream, month)) foreign = stream;
      }
    if (foreign !== null)
      problems.add(
        'removals',
        `${partition} was detached with events of ${foreign}, which is not of that month`,
      );
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
