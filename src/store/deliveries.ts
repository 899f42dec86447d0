/** Deliveries of webhooks, for the process that makes them and for the operator. */
import type { Db } from '../db.ts';
import { type ResultRow, SMALL_RECORD_BYTES } from '../domain/record.ts';
import { type BytesRow, resultRow } from './results.ts';
import type { EncryptedSecret } from './submissions.ts';

/** The outcome of one attempt, as its event has it. */
export type AttemptFacts = {
  consumer: string;
  outcome: string;
  status: number | null;
  detail: string | null;
  address: string | null;
  retry_after_ms: number | null;
  answer_bytes: number;
  answer_cut: boolean;
  duration_ms: number;
};

/** The next step after an attempt. */
export type AfterAttempt = { end: string } | { retry_in_ms: number; counts: boolean };

export type DeliveryState = {
  /** Attempts that are in the log. */
  attempts: number;
  /** Of these, the ones that took a place in the schedule since the last request. */
  failures: number;
  /** The stream's. A request with a later one came during the attempt. */
  version: number;
};

export type OpenDelivery = DeliveryState & {
  url: string;
  /** Null: the table of secrets was lost, or restored from an older copy than the log. */
  encrypted_secret: EncryptedSecret | null;
  traceparent: string | null;
  /** The body of an earlier attempt, which has to be sent again; null: there is none. */
  body: Uint8Array | null;
  /** Where there is a body: without what only a body needs. */
  record: ResultRow;
};

export type AttemptRecord = {
  id: string;
  after_attempts: number;
  /** The stream's version from which `next` was computed. */
  after_version: number;
  facts: AttemptFacts;
  next: AfterAttempt;
  /** The body that was sent, to keep it for a further attempt; null: it is kept already, or none is needed or was made. */
  body: Uint8Array | null;
};

export type DueDelivery = DeliveryState & {
  url: string;
  account_id: string;
  is_due: boolean;
  /** Since it became due; below 0 after the clock was set back. */
  waited_ms: number;
};

export type Deliveries = {
  /** Null: it has ended or does not exist, and the job is left over. */
  due(id: string): Promise<DueDelivery | null>;
  /** Everything that an attempt needs. Null: it has ended, does not exist, or is not due. */
  open(id: string): Promise<OpenDelivery | null>;
  /** The status of the delivery after it. Null: another process has recorded this attempt already. */
  attempted(attempt: AttemptRecord): Promise<string | null>;
  /** The job comes back later, and no event is appended: the receiver is busy. */
  putBack(id: string, in_ms: number): Promise<void>;
  /** The job comes back at the delivery's time. */
  putBackEarly(id: string): Promise<void>;
};

type OpenRow = BytesRow & {
  url: string;
  attempts: number;
  failures: number;
  version: number;
  traceparent: string | null;
  encryption_key_id: string | null;
  nonce: Uint8Array;
  ciphertext: Uint8Array;
  body: Uint8Array | null;
};

export function createDeliveries(db: Db): Deliveries {
  return {
    async due(id) {
      const [row] = await db<DueDelivery[]>`select * from runledger.delivery_due(${id})`;
      return row ?? null;
    },
    async open(id) {
      const [row] = await db<
        OpenRow[]
      >`select * from runledger.delivery_open(${id}, ${SMALL_RECORD_BYTES})`;
      return row === undefined ? null : openDelivery(row);
    },
    async attempted({ id, after_attempts, after_version, facts, next, body }) {
      const step = { ...next, after_version };
      const [row] = await db<{ status: string | null }[]>`
        select runledger.append_delivery_attempt(${id}, ${after_attempts},
          ${JSON.stringify(facts)}::text::jsonb, ${JSON.stringify(step)}::text::jsonb, ${body}) as status`;
      return row!.status;
    },
    async putBack(id, in_ms) {
      await db`select runledger.put_back_delivery(${id}, ${in_ms})`;
    },
    async putBackEarly(id) {
      await db`select runledger.put_back_early_delivery(${id})`;
    },
  };
}

function openDelivery(row: OpenRow): OpenDelivery {
  const { url, attempts, failures, version, traceparent, body } = row;
  const { encryption_key_id: key_id, nonce, ciphertext } = row;
  return {
    url,
    attempts,
    failures,
    version,
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

/** Why a delivery cannot be requested again, for any caller. What to do for a secret depends on where it is asked for. */
export const REPLAY_PROBLEMS = {
  unknown: 'no such delivery: the submission is unknown, had no webhook, or has not ended',
  purged: 'its address was purged together with the submission’s code and input',
} as const;

/**
 * Requests a delivery again: due at once, with its schedule from the start. One that has ended needs its secret again,
 * because the secret was deleted at its end.
 */
export async function replayDelivery(
  db: Db,
  id: string,
  secret: EncryptedSecret | null,
  operator?: string,
): Promise<Replayed> {
  const [row] = await db<{ outcome: Replayed }[]>`
    select runledger.replay_delivery(${id}, ${secret?.key_id ?? null}, ${secret?.nonce ?? null},
      ${secret?.ciphertext ?? null}, ${operator ?? null}) as outcome`;
  return row!.outcome;
}
