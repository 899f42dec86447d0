/** Connections to PostgreSQL. Everything above this file speaks through src/store. */
import postgres from 'postgres';
import type { DatabaseAddress } from './config/database_tls.ts';
import { knowArrays } from './db_arrays.ts';

export type Db = postgres.Sql;

export type DbOptions = {
  /** What the connections are called in pg_stat_activity. */
  readonly name: string;
  readonly max: number;
  /** How long one statement may take before the server ends it; 0 is without end. */
  readonly statement_timeout_ms?: number;
  /** For a connection whose session matters (it holds a lock): never closed for its age, and its end is told. */
  readonly on_close?: () => void;
};

export function connect(address: DatabaseAddress | string, options: DbOptions): Db {
  const { url, tls } = typeof address === 'string' ? { url: address, tls: false } : address;
  const db = postgres(url, {
    max: options.max,
    fetch_types: false,
    ssl: tls as boolean,
    // A database that does not answer must be noticed while a caller still waits.
    connect_timeout: 5,
    // A dead peer is noticed by the kernel (tcp_keepalives below), not after two hours.
    keep_alive: 10,
    // Tried again soon: whoever waits is answered 503 meanwhile. Spread, so that a fleet does not return as one.
    backoff: (attempt: number) => Math.min(2 ** attempt * 0.05, 1) * (0.5 + Math.random() / 2),
    onnotice: () => {},
    ...(options.on_close ? { onclose: options.on_close, max_lifetime: null } : {}),
    connection: {
      application_name: options.name,
      statement_timeout: options.statement_timeout_ms ?? 0,
      tcp_keepalives_idle: 10,
      tcp_keepalives_interval: 3,
      tcp_keepalives_count: 3,
    } as Record<string, string | number>,
  }) as Db;
  knowArrays(db);
  return db;
}

const LISTEN_AGAIN_MS = 250;

/** What is done with what is said, by channel. */
export type Channels = Readonly<Record<string, (payload: string) => void>>;

/**
 * Hears channels on one connection of their own, for as long as it takes: postgres.js's own `listen` tries once to make
 * a lost connection anew and then stays silent, so the trying is ours. What was said meanwhile is not heard: whoever
 * listens asks again by other means, or when `onHearing` says that the connection was made.
 *
 * One connection, because PostgreSQL wakes every listening one for whatever is said on any channel.
 */
export function listen(
  db: Db,
  channels: Channels,
  { onFault, onHearing }: { onFault: (error: unknown) => void; onHearing?: () => void },
): { close(): Promise<void> } {
  let closed = false;
  let again: NodeJS.Timeout | undefined;
  const hear = async () => {
    try {
      for (const channel of Object.keys(channels)) await connection`listen ${connection(channel)}`;
      onHearing?.();
    } catch (error) {
      if (!isAway(error)) onFault(error);
      later();
    }
  };
  const later = () => {
    clearTimeout(again);
    if (!closed) again = setTimeout(hear, LISTEN_AGAIN_MS).unref();
  };
  // Options as postgres.js has parsed them are options, too; these are how its own `listen` is made.
  const connection = postgres({
    ...db.options,
    max: 1,
    idle_timeout: null,
    max_lifetime: null,
    fetch_types: false,
    onclose: later,
    onnotify: (channel: string, payload: string) => channels[channel]?.(payload),
  } as never);
  void hear();
  return {
    close() {
      closed = true;
      clearTimeout(again);
      return connection.end({ timeout: 1 });
    },
  };
}

/** An array of bytes as PostgreSQL's text form of bytea[]; null stays null. */
export function byteaArray(items: readonly (Uint8Array | null)[]): string {
  const parts = items.map((bytes) => (bytes === null ? 'NULL' : `"\\\\x${hex(bytes)}"`));
  return `{${parts.join(',')}}`;
}

export const hex = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');

/** JSON that jsonb takes: it holds no U+0000 and no half of a surrogate pair, and a report may bring either. */
export const jsonText = (value: unknown): string =>
  JSON.stringify(value, (_, item: unknown) => {
    if (typeof item === 'string') return plain(item);
    if (item === null || typeof item !== 'object' || Array.isArray(item)) return item;
    const entries = Object.entries(item);
    if (entries.every(([name]) => plain(name) === name)) return item;
    return Object.fromEntries(entries.map(([name, inner]) => [plain(name), inner]));
  });

const plain = (text: string) => text.toWellFormed().replaceAll('\u0000', '\ufffd');

/** Is this error the database's absence, and not its answer? Then trying again later may help. */
export function isAway(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== 'string') return false;
  // 57P0x: shut down, crashed, starting up; 08: connection; 53300: too many connections; 25006: a standby
  return /^(57P0[1-5]|08.{3}|53300|25006)$/.test(code) || AWAY.has(code);
}

/** Did the database reject the statement? Then the statement changed nothing. */
export const isRejected = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && !isAway(error);

const AWAY = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
