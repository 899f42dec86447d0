/**
 * The states of a submission as a page: a chart, what each event does in each status, and the reasons for a lost
 * execution. Read from SQL, which alone decides them (next_status, loss_reasons).
 */
import type { Db } from '../db.ts';
import { eventTypes } from '../domain/events.ts';
import { STATUS_NAMES } from '../domain/statuses.ts';

type Transition = { status: string | null; type: string; next: string | null };
type Reason = { reason: string; counts: boolean; ends_after: number | null; description: string };

export async function stateChart(db: Db): Promise<string> {
  const list = (names: readonly string[]) => `{${names.join(',')}}`;
  const transitions = await db<Transition[]>`
    select s.status, t.type, runledger.next_status(s.status, t.type) as next
    from unnest(array[null] || ${list(STATUS_NAMES)}::text::text[]) with ordinality s(status, n)
    cross join unnest(${list(Object.keys(eventTypes))}::text::text[]) with ordinality t(type, n)
    order by s.n, t.n`;
  const reasons = await db<Reason[]>`
    select reason, counts, ends_after, description from runledger.loss_reasons`;
  return [
    ...chartOf(transitions),
    '',
    ...tableOf(
      ['event', 'none', ...STATUS_NAMES],
      eventsOf(transitions).map((type) => [
        `\`${type}\``,
        ...[null, ...STATUS_NAMES].map((status) => nextOf(transitions, status, type) ?? ''),
      ]),
    ),
    '',
    ...tableOf(
      ['reason for a loss', 'counts', 'ends after', 'when'],
      reasons.map(({ reason, counts, ends_after, description }) => [
        `\`${reason}\``,
        counts ? 'yes' : 'no',
        String(ends_after ?? 'never'),
        description,
      ]),
    ),
  ].join('\n');
}

/** One arrow for each pair of statuses that an event leads from and to; events that leave a status have no arrow. */
function chartOf(transitions: readonly Transition[]): string[] {
  const arrows = new Map<string, string[]>();
  for (const { status, type, next } of transitions) {
    if (next === null || next === status) continue;
    const arrow = `${status ?? '[*]'} --> ${next}`;
    arrows.set(arrow, [...(arrows.get(arrow) ?? []), type]);
  }
  const leaves = new Set(
    transitions.filter(({ status, next }) => next && next !== status).map(({ status }) => status),
  );
  const ends = STATUS_NAMES.filter((status) => !leaves.has(status));
  return [
    '```mermaid',
    'stateDiagram-v2',
    ...[...arrows].map(([arrow, types]) => `  ${arrow}: ${types.join(' or ')}`),
    ...ends.map((status) => `  ${status} --> [*]`),
    '```',
  ];
}

/** The types of a submission's events: those that may come in some status. */
const eventsOf = (transitions: readonly Transition[]) =>
  Object.keys(eventTypes).filter((type) =>
    transitions.some((one) => one.type === type && one.next !== null),
  );

const nextOf = (transitions: readonly Transition[], status: string | null, type: string) =>
  transitions.find((one) => one.status === status && one.type === type)!.next;

const tableOf = (names: readonly string[], rows: readonly (readonly string[])[]) =>
  [names, names.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
