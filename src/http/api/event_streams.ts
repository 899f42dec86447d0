/** The open event streams of this process: their number for each key, their comments, and their end. */
import type { ServerResponse } from 'node:http';
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import { hex } from '../../db.ts';
import type { EventFeed, Follower, Update } from '../../store/event_feed.ts';
import type { NumberedPiece } from '../../store/live_output.ts';

export type EventStreams = {
  /** Null: one more may be opened. Else the key or the whole process has as many as it may have. */
  fullOf(key_id: string): { who: 'key' | 'process'; most: number } | null;
  /**
   * Writes the events of `update` behind `after`, and what happens then, until the submission or the connection ends.
   * Returns what stops it.
   */
  open(
    res: ServerResponse,
    stream: { key_id: string; digest: Uint8Array; id: string; update: Update; after: number },
  ): () => void;
  /**
   * Keys were changed: ends the streams that were opened with a secret that is none any more. It happens each minute, too,
   * because nothing announces the end of a rotated secret's grace.
   */
  checkKeys(): void;
  readonly count: number;
  /** Ends all of them, and later ones behind the events so far: a client continues with another process, from the last event. */
  close(): void;
};

export const STREAMS_PER_KEY = 1_000;
/**
 * Of the connections that the process takes. A stream costs its rate once and stays, so without these parts some keys could have
 * all of the connections.
 */
const PART_OF_KEY = 1 / 8;
const PART_OF_ALL = 1 / 2;
/** Comments are written to so many streams in a turn of the event loop. */
const COMMENTS_AT_ONCE = 100;
const COMMENT_MS = 15_000;
/** How often the keys of all streams are checked, and the pause after a question that the database did not answer. */
export const KEY_CHECKS = { every_ms: 60_000, retry_ms: 1_000 };
/** After a client has closed its half of the connection, or all of it: the network does not say which. */
const ASKED_AFTER_MS = [100, 500];
/** A client that has left so much unread is cut. It can continue with Last-Event-ID. */
const UNREAD_BYTES = 64 * 1024;
/** A client that has not read the end of its stream is cut after this time. Otherwise the stream would stay open for ever. */
export const UNREAD_END_MS = 10_000;

/** What all streams of a key together get of running programs' output in a second. The rest is left out. */
export const OUTPUT_BYTES_PER_KEY = 512 * 1024;

const NAMES: Readonly<Record<string, string>> = {
  'submission.accepted': 'accepted',
  'execution.started': 'started',
  'execution.lost': 'lost',
  'submission.completed': 'completed',
  'submission.failed': 'failed',
  'submission.cancelled': 'cancelled',
};
/** Progress and output are not in the log. */
export const EVENT_NAMES = [...Object.values(NAMES), 'progress', 'output'];

/** The open streams of a key, and the output that they got since that time. */
type OfKey = { streams: number; bytes: number; since_ms: number };

export type KeyQuestions = {
  knows: (digest: Uint8Array) => Promise<boolean>;
  /** A question failed; it is asked again. */
  onFault: (error: unknown) => void;
};

export function createEventStreams(
  feed: Pick<EventFeed, 'follow' | 'close'>,
  { knows, onFault }: KeyQuestions,
  connections_max: number,
  { every_ms, retry_ms } = KEY_CHECKS,
  unread_end_ms = UNREAD_END_MS,
): EventStreams {
  const open = new Map<ServerResponse, Uint8Array>();
  const of_keys = new Map<string, OfKey>();
  /** Of keys, since their check began. */
  let changes = 0;
  let closed = false;
  const most_of_key = Math.min(STREAMS_PER_KEY, Math.ceil(connections_max * PART_OF_KEY));
  const most = Math.ceil(connections_max * PART_OF_ALL);
  const comment = async () => {
    for (const [n, res] of [...open.keys()].entries()) {
      if (n > 0 && n % COMMENTS_AT_ONCE === 0) await turn();
      write(res, ': still open\n\n');
    }
  };
  const commenting = setInterval(() => void comment(), COMMENT_MS);
  commenting.unref();
  /** While there are streams. */
  let checking: NodeJS.Timeout | undefined;

  async function checkAll(): Promise<void> {
    // One question after the other: many keys may have streams, and these are not the only work.
    for (let seen = 0; seen < changes; ) {
      seen = changes;
      const digests = new Map([...open.values()].map((digest) => [hex(digest), digest]));
      for (const [name, digest] of digests) {
        if (await isKnown(digest)) continue;
        for (const [res, own] of open) if (hex(own) === name) end(res);
      }
    }
    changes = 0;
  }

  /** Asks until the database answers, for as long as there is a stream to end. */
  async function isKnown(digest: Uint8Array): Promise<boolean> {
    while (!closed && open.size > 0) {
      try {
        return await knows(digest);
      } catch (error) {
        onFault(error);
        await pause(retry_ms, undefined, { ref: false });
      }
    }
    return true;
  }

  function end(res: ServerResponse): void {
    if (res.writableEnded) return;
    res.end();
    const cut = setTimeout(() => res.destroy(), unread_end_ms).unref();
    res.once('close', () => clearTimeout(cut));
  }

  function checkKeys(): void {
    changes += 1;
    if (changes === 1) void checkAll();
  }

  return {
    get count() {
      return open.size;
    },
    fullOf(key_id) {
      if ((of_keys.get(key_id)?.streams ?? 0) >= most_of_key)
        return { who: 'key', most: most_of_key };
      return open.size >= most ? { who: 'process', most } : null;
    },
    open(res, { key_id, digest, id, update, after }) {
      const of_key = of_keys.get(key_id) ?? { streams: 0, bytes: 0, since_ms: 0 };
      of_keys.set(key_id, of_key);
      of_key.streams += 1;
      open.set(res, digest);
      checking ??= setInterval(checkKeys, every_ms).unref();
      let last_progress = '';
      const onUpdate = ({ events, progress, ended }: Update) => {
        let text = events.map(eventText).join('');
        const data = progress === null ? '' : progressText(progress);
        if (data !== '' && data !== last_progress) text += `event: progress\ndata: ${data}\n\n`;
        last_progress = data;
        if (text !== '') write(res, text);
        if (ended) end(res);
      };
      const onOutput = (piece: NumberedPiece) => {
        if (!hasRoom(of_key, piece)) return;
        const message = messageOf(piece);
        if (!takes(res, message)) return;
        of_key.bytes += costOf(piece);
        write(res, message);
      };
      const stopAsking = askAtEnd(res);
      const unfollow = feed.follow(id, update, { onUpdate, onOutput } satisfies Follower);
      onUpdate({ ...update, events: update.events.filter(({ version }) => version > after) });
      first_bytes.set(res, res.writableLength);
      // A request in flight while the process stops: nothing would come any more, and it would hold up the stop.
      if (closed) end(res);
      return () => {
        if (!open.delete(res)) return;
        of_key.streams -= 1;
        if (of_key.streams === 0) of_keys.delete(key_id);
        if (open.size === 0) checking = void clearInterval(checking);
        stopAsking();
        unfollow();
      };
    },
    checkKeys,
    close() {
      closed = true;
      clearInterval(commenting);
      feed.close();
      for (const res of open.keys()) end(res);
    },
  };
}

/** A client that reads slowly misses output, and is not cut for it. A piece of control characters is larger than that as JSON. */
const takes = (res: ServerResponse, message: Uint8Array) =>
  res.writableLength === 0 || res.writableLength + message.length <= UNREAD_BYTES / 2;

/** To write a byte takes as long as to write a thousand. */
const LEAST_COST_BYTES = 1_024;
const costOf = ({ bytes }: NumberedPiece) => Math.max(bytes.length, LEAST_COST_BYTES);

function hasRoom(of_key: OfKey, piece: NumberedPiece): boolean {
  const now = performance.now();
  if (now - of_key.since_ms >= 1000) Object.assign(of_key, { since_ms: now, bytes: 0 });
  return of_key.bytes + costOf(piece) <= OUTPUT_BYTES_PER_KEY;
}

/**
 * Comments for a client that has closed its half. To the first, the system of one that is gone answers with a reset; the second then
 * fails, and the connection closes. Otherwise its stream would be open, and counted, until the comments for all.
 */
function askAtEnd(res: ServerResponse): () => void {
  const { socket } = res;
  const ask = () => {
    for (const ms of ASKED_AFTER_MS) setTimeout(write, ms, res, ': are you there\n\n').unref();
  };
  if (socket?.readableEnded) ask();
  else socket?.once('end', ask);
  return () => void socket?.off('end', ask);
}

/** Of the events that a stream begins with, of which there may be many. They do not count as unread. */
const first_bytes = new WeakMap<ServerResponse, number>();

/** What is written counts from the next write on: nobody can have read it yet. */
function write(res: ServerResponse, message: string | Uint8Array): void {
  if (res.writableEnded || res.destroyed) return;
  if (res.writableLength > UNREAD_BYTES + (first_bytes.get(res) ?? 0)) res.destroy();
  else res.write(message);
}

const progressText = ({ done, of }: NonNullable<Update['progress']>) =>
  JSON.stringify({ done, of });

function eventText({ version, type, at, facts }: Update['events'][number]): string {
  const data = JSON.stringify({ at: new Date(at).toISOString(), ...facts });
  return `id: ${version}\nevent: ${NAMES[type]}\ndata: ${data}\n\n`;
}

const messages = new WeakMap<NumberedPiece, Uint8Array>();

/** Made once for all streams that get the piece. A thousand times, it would hold up every other request for seconds. */
function messageOf(piece: NumberedPiece): Uint8Array {
  const made = messages.get(piece) ?? outputMessage(piece);
  messages.set(piece, made);
  return made;
}

function outputMessage({ attempt, is_stderr, begins_at: at, bytes }: NumberedPiece): Uint8Array {
  const stream = is_stderr ? 'stderr' : 'stdout';
  const text = Buffer.from(bytes).toString();
  return Buffer.from(`event: output\ndata: ${JSON.stringify({ attempt, stream, at, text })}\n\n`);
}
