/** Operators of the console (sql/functions/operators.sql): their keys, for commands, and their sessions, for web processes. */
import { codeOf, type Db } from '../db.ts';

export type OperatorRow = {
  id: string;
  name: string;
  created_at: Date;
  revoked_at: Date | null;
  signed_in_at: Date | null;
};

export async function createOperator(
  db: Db,
  { name, key_digest, operator }: { name: string; key_digest: Uint8Array; operator?: string },
): Promise<string> {
  const [row] = await db<{ id: string }[]>`
    select runledger.create_operator(${name}, ${key_digest}, ${operator ?? null}) as id`;
  return row!.id;
}

export async function revokeOperator(db: Db, name: string, operator?: string): Promise<void> {
  await db`select runledger.revoke_operator(${name}, ${operator ?? null})`;
}

export async function listOperators(db: Db): Promise<OperatorRow[]> {
  return db<OperatorRow[]>`
    select o.id, o.name, o.created_at, o.revoked_at, (
      select e.at from runledger.events e where e.stream = o.id and e.type = 'operator.signed_in'
      order by e.version desc limit 1) as signed_in_at
    from runledger.operators o order by o.created_at, o.id`;
}

export type Sessions = {
  /** Whether anybody can sign in. */
  anyOperator(): Promise<boolean>;
  /** Null if no operator has that key; otherwise for how many seconds the session lasts, at most. */
  begin(key_digest: Uint8Array, session: Uint8Array, request_id: string): Promise<number | null>;
  end(session: Uint8Array, request_id: string): Promise<void>;
  /** The name of the operator whose session it is. */
  nameOf(session: Uint8Array): Promise<string | null>;
};

export function createSessions(db: Db): Sessions {
  return {
    async anyOperator() {
      const [row] = await db<{ any: boolean }[]>`select runledger.has_operators() as any`;
      return row!.any;
    },
    async begin(key_digest, session, request_id) {
      const [row] = await db<{ lasts_s: number | null }[]>`
        select lasts_s from runledger.sign_in(${key_digest}, ${session}, ${request_id})`;
      return row!.lasts_s;
    },
    async end(session, request_id) {
      await db`select runledger.sign_out(${session}, ${request_id})`;
    },
    async nameOf(session) {
      const [row] = await db<
        { name: string }[]
      >`select name from runledger.find_session(${session})`;
      return row?.name ?? null;
    },
  };
}

/** The database does not know the session, or not any longer. */
export const isSignedOut = (error: unknown): boolean => codeOf(error) === 'RL401';
