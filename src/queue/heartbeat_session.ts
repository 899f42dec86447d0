/**
 * The one connection on which a consumer registers, sends its heartbeats and sweeps: its session holds the consumer's lock.
 * A statement that is not answered in time rejects as if the database were away, and the connection is replaced: its peer may
 * be gone without notice.
 */
import type { DatabaseAddress } from '../config/database_tls.ts';
import { connect, type Db } from '../db.ts';

const ANSWER_TIMEOUT_MS = 2000;

export type HeartbeatSession = {
  ask<T>(statement: (db: Db) => Promise<T>): Promise<T>;
  end(): Promise<void>;
};

/** A name of its own, so that pg_stat_activity shows which session holds the lock. */
export const heartbeatName = (kind: string): string => `runledger ${kind} heartbeat`;

export function openHeartbeatSession(options: {
  readonly address: DatabaseAddress | string;
  readonly kind: string;
  /** The connection closed by itself. Its lock is free until the next heartbeat. */
  readonly onClose: () => void;
}): HeartbeatSession {
  const open = () => {
    const mine = connect(options.address, {
      name: heartbeatName(options.kind),
      max: 1,
      on_close: () => {
        if (mine === connection) options.onClose();
      },
    });
    return mine;
  };
  let connection: Db = open();
  return {
    async ask(statement) {
      const { promise: late, reject } = Promise.withResolvers<never>();
      const timer = setTimeout(() => {
        reject(Object.assign(new Error('the database did not answer'), { code: 'ETIMEDOUT' }));
      }, ANSWER_TIMEOUT_MS);
      const mine = connection;
      const answer = statement(mine);
      answer.catch(() => {});
      try {
        return await Promise.race([answer, late]);
      } catch (error) {
        if ((error as { code?: string }).code === 'ETIMEDOUT') {
          void mine.end({ timeout: 0 }).catch(() => {});
          // Another statement on it may have been late first, and replaced it.
          if (mine === connection) connection = open();
        }
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
    end: () => connection.end({ timeout: 1 }).catch(() => {}),
  };
}
