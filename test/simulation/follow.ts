/** Callers that want to know how a submission ends, by its event stream or by calls that wait, whatever happens to the webs. */
import { setTimeout as wait } from 'node:timers/promises';
import { eventsFrom } from '../../src/client/event_stream.ts';
import type { Status } from '../../src/domain/statuses.ts';

/** What a caller saw: the status at the end, and what was wrong on the way. */
export type Seen = { status: Status; wrong: string[] };

const ENDS = { completed: 'completed', failed: 'error', cancelled: 'cancelled' } as const;

const CONNECTION = { silence_ms: 45_000, onCut: () => wait(1_000) };

/** `open` opens the stream behind an event, on any web, and tries until one does. */
export async function follow(open: (after: number) => Promise<Response>): Promise<Seen> {
  const wrong: string[] = [];
  let version = 0;
  let status: Status = 'pending';
  for await (const { id, event } of eventsFrom(open, 0, CONNECTION)) {
    if (status !== 'pending' && id !== null) wrong.push(`${event} came after the end`);
    if (id !== null && id <= version) wrong.push(`${event} ${id} came after ${version}`);
    if ((event === 'accepted') !== (id === 1)) wrong.push(`event ${id} is ${event}`);
    version = id ?? version;
    if (event in ENDS) status = ENDS[event as keyof typeof ENDS];
  }
  return { status, wrong };
}
