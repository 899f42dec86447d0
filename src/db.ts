/** Connections to PostgreSQL. Only src/store and src/queue send SQL through them. */
import type { Socket } from 'node:net';
import postgres from 'postgres';
import type { DatabaseAddress } from './config/database_tls.ts';
import { peerOf } from './config/database_url.ts';
import { knowArrays } from './db_arrays.ts';
import { isAway } from './db_errors.ts';
import { endSocket, mendStatements, openSocket, type Peer } from './db_losses.ts';
import { PINNED, PINNED_BEHIND_POOLER } from './db_settings.ts';
import { VALUE_TYPES } from './db_values.ts';

export {
  codeOf,
  isAnswer,
  isAway,
  isFatal,
  isMixedUp,
  isRejected,
  mixedUp,
} from './db_errors.ts';

export type Db = postgres.Sql;

export type DbOptions = {
  /** The application_name of the connections, shown in pg_stat_activity. */
  readonly name: string;
  readonly max: number;
  /**
   * For connections whose session matters, because it holds a lock: called when one closes. They are never closed for
   * their age.
   */
  readonly on_close?: () => void;
  /** Where its sockets are kept, so that silent ones can be ended. */
  readonly sockets?: Sockets;
  /**
   * Each connection closes when it was not used for so long, and the next statement opens one: a session of PostgreSQL takes
   * 3 to 8 MB. By default it stays open.
   */
  readonly idle_s?: number;
  /**
   * It reads what it is sent. While the server cannot send an answer, its session keeps its locks: it ends after 20 seconds of
   * that. Others may write what they read to a slow disk.
   */
  readonly reads_promptly?: boolean;
  /** For verify, which pins settings in its transactions, and must see those of the server. */
  readonly unpinned?: boolean;
};

/**
 * So many statements of a connection wait for their answers at a time. (The option is missing in the library's types. Its
 * default of 100 would let the answers to a crowd of requests come at once, and all others wait until they are handled.)
 */
const PIPELINE = { max_pipeline: 4 };
/** Of a process that runs for weeks, and is asked nothing at night. The first request after it takes twice as long. */
export const IDLE_S = 600;

export function connect(address: DatabaseAddress | string, options: DbOptions): Db {
  const { url, tls, pooled }: Partial<DatabaseAddress> & { url: string } =
    typeof address === 'string' ? { url: address, tls: false } : address;
  const socket = (to: Peer) => {
    const opened = openSocket(to);
    options.sockets?.add(opened);
    return opened;
  };
  const db = postgres(url, {
    ...(peerOf(url) as object),
    max: options.max,
    fetch_types: false,
    types: VALUE_TYPES,
    ssl: tls as boolean,
    // In seconds. A client that waits for an answer must learn soon that the database is away.
    connect_timeout: 5,
    // In seconds. With the settings below, both sides notice a dead peer in under a minute, not after two hours.
    keep_alive: 10,
    ...(options.idle_s !== undefined && { idle_timeout: options.idle_s }),
    // In seconds. Short, because until it reconnects every request gets a 503. With jitter, so that a fleet of processes
    // does not reconnect at the same moment.
    backoff: (attempt: number) => Math.min(2 ** attempt * 0.05, 1) * (0.5 + Math.random() / 2),
    ...(PIPELINE as object),
    ...({ socket } as object),
    onnotice: () => {},
    ...(options.on_close ? { onclose: options.on_close, max_lifetime: null } : {}),
    connection: {
      application_name: options.name,
      ...(pooled ? {} : STARTUP),
      ...(options.reads_promptly && !pooled ? { tcp_user_timeout: UNREAD_MS } : {}),
      ...(options.unpinned ? {} : pooled ? PINNED_BEHIND_POOLER : PINNED),
    } as Record<string, string | number>,
  }) as unknown as Db;
  knowArrays(db);
  mendStatements(db);
  return db;
}

/** Does the work, and makes it fail if it hangs. */
export type Guard = <T>(work: () => Promise<T>, silent_ms?: number) => Promise<T>;

/** The sockets of some connections. */
export type Sockets = {
  add(socket: Socket): void;
  /**
   * The database is there again after an outage. A connection to a machine that was lost without notice would wait for a quarter of
   * an hour: ends those that carry nothing from now on. One that was merely idle is opened again when it is needed.
   */
  endSilent(): void;
  /**
   * For work that waits for these connections. One that neither sends nor receives anything for `silent_ms` is ended, and the work
   * fails. It is not for statements that may wait for a lock behind a pooler: there the session would go on waiting, and each new
   * try would leave one more.
   */
  unlessSilent: Guard;
};

/** As long as a request waits for a statement. */
const SILENT_MS = 5_000;
const LOOK_MS = 500;
/** Longer than the keepalives below take: with this, they alone would end a connection whose first probe is lost. */
const UNREAD_MS = 20_000;

export function createSockets(): Sockets {
  const open = new Set<Socket>();
  // With TLS a socket has no listeners of ours any more, which would notice its end.
  const forgetClosed = () => {
    for (const socket of open) if (socket.destroyed) open.delete(socket);
  };
  return {
    add(socket) {
      forgetClosed();
      open.add(socket);
    },
    endSilent() {
      // A statement that is written at the end of the first 5 s has as long for its answer.
      const looking = lookFor(silenceOf(open, SILENT_MS));
      setTimeout(() => clearInterval(looking), 3 * SILENT_MS).unref();
    },
    async unlessSilent(work, silent_ms = SILENT_MS) {
      const looking = lookFor(silenceOf(open, silent_ms));
      try {
        return await work();
      } finally {
        clearInterval(looking);
      }
    },
  };
}

/** The first look comes before the work. So the work's own statement is known as one that waits for an answer. */
function lookFor(silence: () => void): NodeJS.Timeout {
  silence();
  return setInterval(silence, LOOK_MS).unref();
}

/**
 * At each call it ends those that have carried nothing for so long, as far as it has looked. The first statement after an answer
 * has the whole time from when it is written. Those that are written behind it do not restart the clock.
 */
function silenceOf(sockets: ReadonlySet<Socket>, silent_ms: number): () => void {
  const seen = new Map<Socket, { carried: Carried; since_ms: number; awaits_answer: boolean }>();
  let looked_ms = performance.now();
  return () => {
    const now_ms = performance.now();
    // This process itself did not run, and what has come since is not read yet.
    const stood_still = now_ms - looked_ms > 2 * LOOK_MS;
    looked_ms = now_ms;
    for (const socket of sockets) {
      const carried = carriedBy(socket);
      const last = seen.get(socket);
      const moved = last === undefined || hasMoved(last.carried, carried);
      const wrote = !moved && carried.written !== last.carried.written;
      const restarts = moved || stood_still || (wrote && !last.awaits_answer);
      const since_ms = restarts ? now_ms : last.since_ms;
      seen.set(socket, {
        carried,
        since_ms,
        awaits_answer: !moved && (wrote || last.awaits_answer),
      });
      if (now_ms - since_ms >= silent_ms) endSocket(socket);
    }
  };
}

type Carried = { received: number; written: number; queued: number };

/**
 * The handle knows how much of a large statement still waits to be sent. The socket's own count would include what it has not
 * given to the handle yet.
 */
function carriedBy(socket: Socket): Carried {
  const { _handle } = socket as unknown as { _handle: Handle | null };
  const { bytesWritten = 0, writeQueueSize = 0 } = _handle ?? {};
  return { received: socket.bytesRead, written: bytesWritten, queued: writeQueueSize };
}

type Handle = { bytesWritten?: number; writeQueueSize?: number };

/** What was written since is in the kernel's buffer, whether anybody receives it or not. What had to wait shows more. */
const hasMoved = (before: Carried, now: Carried): boolean =>
  now.received !== before.received ||
  (before.queued > 0 && now.written - now.queued !== before.written - before.queued);

/** The session of a client that is gone ends, too. */
export const KEPT_ALIVE = {
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 3,
  tcp_keepalives_count: 3,
  // In milliseconds. That of a connection that was closed here ends although it waits for a lock.
  client_connection_check_interval: 5_000,
};

/** Startup parameters for the server itself. A pooler would reject them, and it watches its connections on its own. */
const STARTUP = {
  // As text: postgres.js leaves out the number 0.
  statement_timeout: '0',
  ...KEPT_ALIVE,
};

const RECONNECT_MS = 250;

/** The handler of each channel. */
export type Channels = Readonly<Record<string, (payload: string) => void>>;

/**
 * Listens on channels, on one dedicated connection, and reconnects until it is closed. (postgres.js's own `listen`
 * tries only once to reconnect and then stays silent.)
 *
 * Notifications that are sent while the connection is lost never arrive. The caller must also poll, or look for what it
 * missed when `onHearing` reports a new connection. `hears` says whether there is one. No statement shows the name of a
 * `secret` channel.
 *
 * All channels share one connection, because PostgreSQL wakes every listening connection for every notification. It serves
 * for the question that follows a notification, too: there, no other statement is before it.
 */
export function listen(
  db: Db,
  channels: Channels,
  {
    onFault,
    onHearing,
    secret = {},
  }: { onFault: (error: unknown) => void; onHearing?: () => void; secret?: Channels },
): { readonly db: Db; hears(): boolean; close(): Promise<void> } {
  let closed = false;
  let hears = false;
  let retry: NodeJS.Timeout | undefined;
  const subscribe = async () => {
    try {
      for (const channel of Object.keys(secret))
        await connection`select runledger.hear(${channel})`;
      for (const channel of Object.keys(channels)) await connection`listen ${connection(channel)}`;
      hears = true;
      onHearing?.();
    } catch (error) {
      if (!isAway(error)) onFault(error);
      retryLater();
    }
  };
  const retryLater = () => {
    hears = false;
    clearTimeout(retry);
    if (!closed) retry = setTimeout(subscribe, RECONNECT_MS).unref();
  };
  // postgres.js accepts its own parsed options as options. Its `listen` uses these, too.
  const connection = postgres({
    ...db.options,
    max: 1,
    idle_timeout: null,
    max_lifetime: null,
    fetch_types: false,
    onclose: retryLater,
    onnotify: (channel: string, payload: string) =>
      (channels[channel] ?? secret[channel])?.(payload),
  } as never);
  void subscribe();
  return {
    db: connection,
    hears: () => hears,
    close() {
      closed = true;
      hears = false;
      clearTimeout(retry);
      return connection.end({ timeout: 1 });
    },
  };
}

/** An array of bytes as PostgreSQL's text form of bytea[]; null stays null. */
export function byteaArray(items: readonly (Uint8Array | null)[]): string {
  const texts = items.map((bytes) => (bytes === null ? 'NULL' : `"\\\\x${hex(bytes)}"`));
  return `{${texts.join(',')}}`;
}

/** So many bytes of an argument take PostgreSQL less time as an array's text than to be put apart. */
const FEW_BYTES = 2_000;

export const hasFewBytes = (items: readonly (Uint8Array | null)[]): boolean =>
  items.reduce((sum, bytes) => sum + (bytes?.length ?? 0), 0) <= FEW_BYTES;

/**
 * An argument of type bytea[]; null stays null. Many bytes go as one base64 text, which PostgreSQL reads in a third of the time
 * that it takes for an array of texts in hex.
 */
export function bytesArgument(db: Db, items: readonly (Uint8Array | null)[]) {
  if (hasFewBytes(items)) return db`${byteaArray(items)}::text::bytea[]`;
  const whole = Buffer.concat(items.filter((bytes) => bytes !== null)).toString('base64');
  const lengths = `{${items.map((bytes) => bytes?.length ?? 'NULL')}}`;
  return db`array(
    select substring(whole.bytes from piece.end_at - piece.length + 1 for piece.length)
    from (select decode(${whole}::text, 'base64') as bytes offset 0) whole,
      (select length, n, (sum(length) over (order by n))::integer as end_at
        from unnest(${lengths}::text::integer[]) with ordinality x(length, n)) piece
    order by n)`;
}

export const hex = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');

/**
 * Pads JSON, so that its statement is sent in this turn of the event loop. The library keeps a statement of fewer bytes for the
 * next turn, in which a busy process may first have some milliseconds of work to do.
 */
export const inThisTurn = (json: string): string => json.padEnd(SENT_AT_ONCE_BYTES);

const SENT_AT_ONCE_BYTES = 1024;

/** JSON that jsonb accepts. jsonb rejects U+0000 and lone surrogates, and a report may contain either. */
export const jsonText = (value: unknown): string =>
  JSON.stringify(value, (_, item: unknown) => {
    if (typeof item === 'string') return plain(item);
    if (item === null || typeof item !== 'object' || Array.isArray(item)) return item;
    const entries = Object.entries(item);
    if (entries.every(([name]) => plain(name) === name)) return item;
    return Object.fromEntries(entries.map(([name, inner]) => [plain(name), inner]));
  });

const plain = (text: string) => text.toWellFormed().replaceAll('\u0000', '\ufffd');
