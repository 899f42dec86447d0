/** The open event streams of this process: their number for each key, their comments, and their end. */
import type { ServerResponse } from 'node:http';
import type { EventFeed, Update } from '../../store/event_feed.ts';

export type EventStreams = {
  readonly feed: EventFeed;
  /** False: this key has as many as it may have. */
  mayOpen(key_id: string): boolean;
  /** Writes what happens after `update`, until the submission or the connection ends. Returns what stops it. */
  open(res: ServerResponse, stream: { key_id: string; id: string; update: Update }): () => void;
  readonly count: number;
  /** Ends all of them; a client continues with another process, from the last event that it has read. */
  close(): void;
};

export const STREAMS_PER_KEY = 1_000;
const COMMENT_MS = 15_000;
/** A client that has left so much unread is cut. It can continue with Last-Event-ID. */
const UNREAD_BYTES = 64 * 1024;

const NAMES: Readonly<Record<string, string>> = {
  'submission.accepted': 'accepted',
  'execution.started': 'started',
  'execution.lost': 'lost',
  'submission.completed': 'completed',
  'submission.failed': 'failed',
  'submission.cancelled': 'cancelled',
};
/** Progress is not in the log. */
export const EVENT_NAMES = [...Object.values(NAMES), 'progress'];

export function createEventStreams(feed: EventFeed): EventStreams {
  const open = new Map<ServerResponse, string>();
  const of_keys = new Map<string, number>();
  const change = (key_id: string, by: number) => {
    const count = (of_keys.get(key_id) ?? 0) + by;
    if (count === 0) of_keys.delete(key_id);
    else of_keys.set(key_id, count);
  };
  const commenting = setInterval(() => {
    for (const res of open.keys()) write(res, ': still open\n\n');
  }, COMMENT_MS);
  commenting.unref();
  return {
    feed,
    get count() {
      return open.size;
    },
    mayOpen: (key_id) => (of_keys.get(key_id) ?? 0) < STREAMS_PER_KEY,
    open(res, { key_id, id, update }) {
      open.set(res, key_id);
      change(key_id, 1);
      let last_progress = '';
      const show = ({ events, progress, ended }: Update) => {
        let text = events.map(eventText).join('');
        const data = progress === null ? '' : progressText(progress);
        if (data !== '' && data !== last_progress) text += `event: progress\ndata: ${data}\n\n`;
        last_progress = data;
        if (text !== '') write(res, text);
        if (ended) res.end();
      };
      const unfollow = feed.follow(id, update.version, show);
      show(update);
      return () => {
        if (!open.delete(res)) return;
        change(key_id, -1);
        unfollow();
      };
    },
    close() {
      clearInterval(commenting);
      feed.close();
      for (const res of open.keys()) res.end();
    },
  };
}

function write(res: ServerResponse, text: string): void {
  if (res.writableEnded || res.destroyed) return;
  res.write(text);
  if (res.writableLength > UNREAD_BYTES) res.destroy();
}

const progressText = ({ done, of }: NonNullable<Update['progress']>) =>
  JSON.stringify({ done, of });

function eventText({ version, type, at, facts }: Update['events'][number]): string {
  const data = JSON.stringify({ at: new Date(at).toISOString(), ...facts });
  return `id: ${version}\nevent: ${NAMES[type]}\ndata: ${data}\n\n`;
}
