/** Deliveries of webhooks, as the process that makes them and the operator see them. */
import type { Db } from '../db.ts';
import type { ResultRow } from '../domain/record.ts';
import { type BytesRow, resultRow } from './results.ts';
import type { EncryptedSecret } from './submissions.ts';

/** What came of one attempt, kept in its event. */
export type AttemptFacts = {
  outcome: string;
  status: number | null;
  detail: string | null;
  address: string | null;
  retry_after_ms: number | null;
  answer_bytes: number;
  answer_cut: boolean;
  duration_ms: number;
};

/** What follows from an attempt. */
export type AfterAttempt = { end: string } | { retry_in_ms: number; counts: boolean };

export type OpenDelivery = {
  url: string;
  /** made so far */
  attempts: number;
  /** of these, those that took a place in the schedule since it was last asked for */
  failures: number;
  /** null: the table of secrets was lost, or restored from an older copy than the log */
  encrypted_secret: EncryptedSecret | null;
  traceparent: string | null;
  /** the one that was sent before; null: none was, or it need not be sent again */
  body: Uint8Array | null;
  record: ResultRow;
};

export type Told = {
  id: string;
  after_attempts: number;
  facts: AttemptFacts;
  next: AfterAttempt;
  /** what was sent; null: nothing could be signed */
  body: Uint8Array | null;
};

export type Deliveries = {
  /** Null: it has ended, is not there, or its time has not come; the job that asked is left over. */
  due(id: string): Promise<{ url: string } | null>;
  /** The same question, with all that an attempt needs. */
  open(id: string): Promise<OpenDelivery | null>;
  /** False: another process told of this attempt already. */
  attempted(told: Told): Promise<boolean>;
  /** Comes back later, with nothing appended: there was no place. */
  putBack(id: string, in_ms: number): Promise<void>;
};

type OpenRow = BytesRow & {
  url: string;
  attempts: number;
  failures: number;
  traceparent: string | null;
  encryption_key_id: string | null;
  nonce: Uint8Array;
  ciphertext: Uint8Array;
  body: Uint8Array | null;
};

export function createDeliveries(db: Db): Deliveries {
  return {
    async due(id) {
      const [row] = await db<{ url: string }[]>`select * from runledger.delivery_due(${id})`;
      return row ?? null;
    },
    async open(id) {
      const [row] = await db<OpenRow[]>`select * from runledger.delivery_open(${id})`;
      return row === undefined ? null : openDelivery(row);
    },
    async attempted({ id, after_attempts, facts, next, body }) {
      const [row] = await db<{ recorded: boolean }[]>`
        select runledger.append_delivery_attempt(${id}, ${after_attempts},
          ${JSON.stringify(facts)}::text::jsonb, ${JSON.stringify(next)}::text::jsonb, ${body}) as recorded`;
      return row!.recorded;
    },
    async putBack(id, in_ms) {
      await db`select runledger.put_back_delivery(${id}, ${in_ms})`;
    },
  };
}

function openDelivery(row: OpenRow): OpenDelivery {
  const { url, attempts, failures, traceparent, body } = row;
  const { encryption_key_id: key_id, nonce, ciphertext } = row;
  return {
    url,
    attempts,
    failures,
    traceparent,
    body,
    encrypted_secret: key_id === null ? null : { key_id, nonce, ciphertext },
    record: resultRow(row),
  };
}

export type DeliveryRow = {
  submission_id: string;
  account: string;
  status: string;
  attempts: number;
  last_outcome: string | null;
  last_status: number | null;
  created_at: Date;
  next_at: Date | null;
  ended_at: Date | null;
};

export type ListOptions = { status: string | null; limit: number };

/** The newest first. */
export async function listDeliveries(db: Db, options: ListOptions): Promise<DeliveryRow[]> {
  return db<DeliveryRow[]>`
    select * from runledger.list_deliveries(${options.status}, ${options.limit})`;
}

export type Replayed = 'replayed' | 'unknown' | 'secret_needed' | 'purged';

/**
 * Due at once, with the whole schedule before it. One that has ended needs its secret anew, as the
 * one it had was deleted then.
 */
export async function replayDelivery(
  db: Db,
  id: string,
  secret: EncryptedSecret | null,
): Promise<Replayed> {
  const [row] = await db<{ outcome: Replayed }[]>`
    select runledger.replay_delivery(${id}, ${secret?.key_id ?? null}, ${secret?.nonce ?? null},
      ${secret?.ciphertext ?? null}) as outcome`;
  return row!.outcome;
}
