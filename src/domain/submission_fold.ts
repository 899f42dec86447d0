/**
 * What a submission's events say of it: the row that its record is rendered from, without its output. It does what
 * sql/functions/next_submission.sql does, for a checker that has the events and no database. A test holds the two together.
 * Facts that are not of an event's schema, which only a changed log has, are left out here.
 */
import { eventTypes, hasFact, isKnown } from './events.ts';
import type { ResultRow } from './record.ts';
import { hasEnded, STATUS_NAMES, type Status } from './statuses.ts';

/** An event as it was appended, in any schema that its type ever had. */
export type AppendedEvent = {
  readonly stream: string;
  readonly version: number;
  readonly type: string;
  readonly schema: number;
  readonly at: Date;
  readonly facts: Facts;
};
export type Facts = Readonly<Record<string, unknown>>;

/** The events do not follow each other as those of a submission. */
export class BadHistory extends Error {}

type Before = Status | 'none';
const ENDED = STATUS_NAMES.filter(hasEnded);
const stays = (...all: Status[]) => Object.fromEntries(all.map((status) => [status, status]));

/** The status after an event, by its type and the status before. No entry: the event cannot come in that status. */
const NEXT: Readonly<Record<string, Partial<Record<Before, Status>>>> = {
  'submission.accepted': { none: 'pending' },
  'execution.started': { pending: 'running' },
  'execution.lost': { running: 'pending' },
  'submission.completed': { running: 'completed' },
  'submission.failed': { pending: 'error', running: 'error' },
  'submission.cancelled': { pending: 'cancelled', running: 'cancelled' },
  'execution.refused': stays(...STATUS_NAMES),
  'delivery.requested': stays(...ENDED),
  'delivery.attempted': stays(...ENDED),
  'delivery.ended': stays(...ENDED),
};

export const nextStatus = (before: Before, type: string): Status | null =>
  (Object.hasOwn(NEXT, type) ? NEXT[type]![before] : null) ?? null;

/** The types of events that end a submission. */
export const ENDING_TYPES: ReadonlySet<string> = new Set(
  Object.keys(NEXT).filter((type) => {
    const after = NEXT[type]!.running;
    return after !== undefined && hasEnded(after);
  }),
);

/** The facts of an end that are columns of the row; every one is null until there is an end that has it. */
const COLUMNS = Object.keys(eventTypes['submission.completed'].at(-1)!.entries).filter(
  (name) => !['attempt', 'evidence', 'bytes'].includes(name),
);

export function foldSubmission(events: readonly AppendedEvent[]): ResultRow {
  let row: ResultRow | null = null;
  events.forEach((event, n) => {
    if (event.stream !== events[0]!.stream)
      throw new BadHistory(`event ${n + 1} is of another stream, ${event.stream}`);
    if (event.version !== n + 1)
      throw new BadHistory(`event ${n + 1} has version ${event.version}`);
    if (!isKnown(event.type, event.schema))
      throw new BadHistory(`event ${n + 1} is of an unknown kind: ${event.type} ${event.schema}`);
    const status = nextStatus(row?.status ?? 'none', event.type);
    if (status === null)
      throw new BadHistory(
        `event ${n + 1}, ${event.type}, cannot follow in the status ${row?.status ?? 'none'}`,
      );
    row = { ...after(row, event), status };
  });
  if (row === null) throw new BadHistory('there are no events');
  return row;
}

function after(row: ResultRow | null, event: AppendedEvent): ResultRow {
  const { stream, type, facts, at } = event;
  if (row === null)
    return {
      ...Object.fromEntries(COLUMNS.map((name) => [name, null])),
      id: stream,
      account_id: facts['account_id'],
      language: facts['language'],
      stdout: null,
      stderr: null,
      created_at: at,
      started_at: null,
      completed_at: null,
      attempts: 0,
      parts: { tests: null, files: null, transcript: null },
      progress: null,
      proof: null,
    } as unknown as ResultRow;
  if (type === 'execution.started') return { ...row, attempts: row.attempts + 1, started_at: at };
  if (type === 'submission.completed') {
    const ended = upgraded(event);
    const columns = COLUMNS.map((name) => [name, ended[name] ?? null]);
    return { ...row, ...Object.fromEntries(columns), completed_at: at };
  }
  if (type === 'submission.failed')
    return {
      ...row,
      completed_at: at,
      verdict: 'IE',
      stdout_truncated: facts['stdout_truncated'] === true,
      stderr_truncated: facts['stderr_truncated'] === true,
      tests: (facts['tests'] as ResultRow['tests'] | undefined) ?? null,
    };
  if (type === 'submission.cancelled')
    return { ...row, completed_at: at, stdout_truncated: false, stderr_truncated: false };
  return row;
}

/**
 * Schema 1 of submission.completed had whole milliseconds, and one flag for both outputs. What an event has beside the facts
 * of its schema says nothing.
 */
function upgraded({ type, schema, facts: all }: AppendedEvent): Facts {
  const facts: Facts = Object.fromEntries(
    Object.entries(all).filter(([name]) => hasFact(type, schema, name)),
  );
  if (schema !== 1) return facts;
  const us = (name: string) => ((facts[name] ?? null) === null ? null : Number(facts[name]) * 1000);
  return {
    ...facts,
    cpu_time_us: us('cpu_ms'),
    wall_time_us: us('wall_ms'),
    stdout_truncated: facts['truncated'],
    stderr_truncated: facts['truncated'],
  };
}
