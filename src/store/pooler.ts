/**
 * Is there a connection pooler before the database, and does it give each connection a session of its own?
 *
 * Runledger needs sessions: consumers hold advisory locks, web processes and workers listen, and settings last. A pooler in
 * session mode has them. One in transaction or statement mode lends a backend for each transaction; then locks are left
 * behind, notifications get lost, and a statement may be prepared on another backend.
 *
 * How it is recognised: PostgreSQL gives each connection the process id of its backend, with the key that cancels a statement.
 * A pooler gives made-up ones. So a connection whose backend has the announced id is direct, and one statement says so.
 * Behind a pooler, two open connections ask in turn which backend they have. With sessions each keeps its own. Without, the
 * first question of the second connection gets the backend that the first one has just left, or one of them changes its
 * backend: other traffic may hide that in one round, not in all of them.
 */
import type { DatabaseAddress } from '../config/database_tls.ts';
import { connect, type Db } from '../db.ts';
import { HARMLESS } from '../db_settings.ts';

const ROUNDS = 12;
/** A pooler without a free backend lets a connection wait. */
const PATIENCE_MS = 10_000;

export type Pooling = 'direct' | 'sessions';

/** The database cannot be used through this pooler. */
export class PoolerUnfit extends Error {
  readonly remedy: string;
  constructor(message: string, remedy: string) {
    super(message);
    this.name = 'PoolerUnfit';
    this.remedy = remedy;
  }
}

const noSessions = () =>
  new PoolerUnfit(
    'the database is behind a pooler in transaction mode, which loses locks and notifications',
    'set pool_mode = session there, or connect to PostgreSQL itself',
  );

/** Throws PoolerUnfit. Nothing is known of a database that is away: its error is the caller's. */
export async function poolingOf(address: DatabaseAddress): Promise<Pooling> {
  // Without the startup parameters that a pooler rejects.
  const plain = { ...address, pooled: true };
  const opened = [0, 1].map(() => connect(plain, { name: 'runledger pooling', max: 1 }));
  const [one, other] = opened as [Db, Db];
  try {
    const first = await backendOf(one);
    if (first.announced === first.actual) return 'direct';
    await requireSessions(one, other, first.actual);
    await requireSettings(one);
    return 'sessions';
  } finally {
    for (const db of opened) void db.end({ timeout: 1 }).catch(() => {});
  }
}

async function requireSessions(one: Db, other: Db, ours: number): Promise<void> {
  const theirs = (await withPatience(backendOf(other))).actual;
  if (theirs === ours) throw noSessions();
  for (let round = 0; round < ROUNDS; round++) {
    if ((await backendOf(one)).actual !== ours) throw noSessions();
    if ((await backendOf(other)).actual !== theirs) throw noSessions();
  }
}

/** A pooler rejects most settings of a connection, so those of the role must be right. */
async function requireSettings(db: Db): Promise<void> {
  const names = Object.keys(HARMLESS);
  const [row] = await db
    .unsafe<Record<string, string>[]>(
      `select ${names.map((name) => `pg_catalog.current_setting('${name}') as ${name}`).join(', ')}`,
    )
    .simple();
  const wrong = names.find((name) => !HARMLESS[name]!.test(row![name]!));
  if (wrong !== undefined)
    throw new PoolerUnfit(
      `behind a pooler, the database has ${wrong} = ${row![wrong]}, which changes what Runledger reads`,
      `reset ${wrong} with ALTER ROLE, ALTER DATABASE or ALTER SYSTEM, or connect to PostgreSQL itself`,
    );
}

async function backendOf(db: Db): Promise<{ announced: number; actual: number }> {
  // A simple query: nothing is prepared, which some poolers do not bear.
  const rows = await db.unsafe<{ pid: number }[]>('select pg_backend_pid() as pid').simple();
  // The driver reads the id as unsigned, PostgreSQL has it signed.
  const { pid: announced } = rows.state as unknown as { pid: number };
  return { announced: announced | 0, actual: Number(rows[0]!.pid) };
}

function withPatience<T>(answer: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const message =
    'the pooler before the database has no second connection for this login: raise its pool size';
  const timer = setTimeout(() => reject(new Error(message)), PATIENCE_MS);
  return Promise.race([answer, promise]).finally(() => clearTimeout(timer));
}
