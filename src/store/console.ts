/** What operators see and change in the console: sql/functions/console.sql, console_commands.sql. `session`: the digest of its cookie. */

import type { Db } from '../db.ts';
import type { Replayed } from './deliveries.ts';
import type { ListPlace, ListQuery } from './lists.ts';
import type { SealingLag } from './service_health.ts';
import type { EncryptedSecret } from './submissions.ts';

/** Who asks, and in which request. */
export type Asking = { readonly session: Uint8Array; readonly request_id: string };

/** Times are texts, as JSON has them. */
export type FoundSubmission = {
  id: string;
  account_id: string;
  account: string;
  language: string;
  status: string;
  verdict: string | null;
  score: number | null;
  cpu_time_us: number | null;
  memory_peak_bytes: number | null;
  attempts: number;
  created_at: string;
  completed_at: string | null;
};

/** account: its name or its id; null: of all accounts, in the order of the ids. */
export type SearchQuery = ListQuery & { account: { name: string; id: string | null } | null };

export type SearchPage = { rows: FoundSubmission[]; next: ListPlace | null };

export type ShownEvent = {
  version: number;
  at: string;
  type: string;
  actor: string;
  attempt: number | null;
  request_id: string | null;
  facts: Record<string, unknown>;
  sizes: Record<string, number> | null;
};

export type ShownPayload = { kind: string; size: number; head: Uint8Array };

export type ShownSubmission = {
  record: Record<string, unknown> & {
    id: string;
    account_id: string;
    key_id: string;
    language: string;
    status: string;
    verdict: string | null;
    created_at: string;
    tests: Record<string, unknown>[] | null;
  };
  account: string;
  delivery: {
    status: string;
    attempts: number;
    next_at: string | null;
    host: string | null;
  } | null;
  proof: { index: number; checkpoint: number } | null;
  /** Of very many, the first and the last ones. */
  events: ShownEvent[];
  payloads: ShownPayload[];
  /** The payload of kind `tests`; null if there is none, or if it is large. */
  tests: Uint8Array | null;
};

export type ShownDelivery = {
  submission_id: string;
  account: string;
  status: string;
  attempts: number;
  last_outcome: string | null;
  last_status: number | null;
  created_at: string;
  next_at: string | null;
  ended_at: string | null;
};

export type ShownAccount = {
  id: string;
  name: string;
  created_at: string;
  pending: number;
  keys: number;
  last_used_at: string | null;
};

export type ShownKey = {
  id: string;
  tier: string;
  prefix: string;
  created_at: string;
  revoked_at: string | null;
  last_used_at: string | null;
  dispatched: number;
  /** With those that are set aside. */
  gated: number;
  /** Of its newest event. */
  version: number;
  /** When the secret before the present one ends; null: it has none, or it has ended. */
  grace_ends: string | null;
};

export type ShownTier = {
  name: string;
  per_minute: number;
  concurrent: number;
  changed_at: string;
  keys: number;
};

export type ShownLog = {
  lag: SealingLag;
  checkpoints: {
    number: number;
    origin: string;
    size: number;
    root: string;
    sealed_at: string;
    cosignatures: number;
    cosigned_at: string | null;
  }[];
  operators: { name: string; created_at: string; revoked_at: string | null; sessions: number }[];
};

/** A row of runledger.audit_commands. */
export type ShownCommand = {
  at: string;
  actor: string;
  type: string;
  /** The id of what it was done to. */
  about: string;
  operator: string | null;
  account_id: string | null;
  account: string | null;
  key_id: string | null;
  tier: string | null;
  submission_id: string | null;
  facts: Record<string, unknown>;
};

/** Of an event: its time in microseconds since 1970, and its number in the sequence of all events. */
export type LogPlace = { at_us: string; seq: string };

export type Console = ReturnType<typeof createConsole>;

/** Of a payload, as much as a page shows. */
export const HEAD_BYTES = 64 * 1024;
/** A page shows the names of tests if their payload, which has their outputs, too, is not larger. */
const TESTS_BYTES = 1024 * 1024;
/** Rows of one page. */
export const PAGE_ROWS = 50;
const LOG_ROWS = 50;

export function createConsole(db: Db) {
  return {
    async search({ session }: Asking, query: SearchQuery): Promise<SearchPage> {
      const { account, status, verdict, language, from, to, limit, after } = query;
      const [row] = await db<
        { submissions: FoundSubmission[]; next_us: string | null; next_id: string | null }[]
      >`select * from runledger.console_search(${session}, ${account?.name ?? null}, ${account?.id ?? null}, ${status}, ${verdict},
          ${language}, ${from}::text::timestamptz, ${to}::text::timestamptz, ${limit}, ${after && String(after.at_us)}::text::bigint, ${after?.id ?? null})`;
      const { submissions, next_us, next_id } = row!;
      const next = next_id === null ? null : { at_us: Number(next_us ?? 0), id: next_id };
      return { rows: submissions, next };
    },

    /** Null: there is none. */
    async submission({ session, request_id }: Asking, id: string): Promise<ShownSubmission | null> {
      type Row = Omit<ShownSubmission, 'payloads'> & {
        payloads: { kind: string; size: number }[];
        heads: Uint8Array[];
      };
      const [row] = await db<Row[]>`
        select * from runledger.console_submission(${session}, ${id}, ${HEAD_BYTES}, ${TESTS_BYTES}, ${request_id})`;
      if (row === undefined || row.record === null) return null;
      const { heads, payloads, ...rest } = row;
      return { ...rest, payloads: payloads.map((each, n) => ({ ...each, head: heads[n]! })) };
    },

    /** A part of a payload; null: there is no such payload. */
    async bytes(
      { session, request_id }: Asking,
      { id, kind, from, at_most }: { id: string; kind: string; from: number; at_most: number },
    ): Promise<{ size: number; bytes: Uint8Array } | null> {
      const [row] = await db<{ size: number; bytes: Uint8Array }[]>`
        select * from runledger.console_bytes(${session}, ${id}, ${kind}, ${from}, ${at_most}, ${request_id})`;
      return row ?? null;
    },

    async deliveries(
      { session }: Asking,
      { status, before }: { status: string | null; before: string | null },
    ): Promise<{ rows: ShownDelivery[]; next: string | null }> {
      const [row] = await db<{ deliveries: ShownDelivery[]; next_id: string | null }[]>`
        select * from runledger.console_deliveries(${session}, ${status}, ${before}, ${PAGE_ROWS})`;
      return { rows: row!.deliveries, next: row!.next_id };
    },

    async accounts(
      { session }: Asking,
      { part, after }: { part: string; after: string },
    ): Promise<{ rows: ShownAccount[]; next: string | null }> {
      const [row] = await db<{ accounts: ShownAccount[]; next_name: string | null }[]>`
        select * from runledger.console_accounts(${session}, ${part}, ${after}, ${PAGE_ROWS})`;
      return { rows: row!.accounts, next: row!.next_name };
    },

    async account(
      { session }: Asking,
      { id, before }: { id: string; before: string | null },
    ): Promise<{ account: ShownAccount; keys: ShownKey[] } | null> {
      const [row] = await db<{ account: ShownAccount | null; keys: ShownKey[] }[]>`
        select * from runledger.console_account(${session}, ${id}, ${before}, ${PAGE_ROWS})`;
      const { account, keys } = row!;
      return account && { account, keys };
    },

    async tiers({ session }: Asking): Promise<ShownTier[]> {
      const [row] = await db<{ tiers: ShownTier[] }[]>`
        select runledger.console_tiers(${session}) as tiers`;
      return row!.tiers;
    },

    async log({ session }: Asking): Promise<ShownLog> {
      const [row] = await db<{ log: ShownLog }[]>`
        select runledger.console_log(${session}, ${LOG_ROWS}) as log`;
      return row!.log;
    },

    /** with_all: also whose submissions were seen, and what was removed by schedule. */
    async commands(
      { session }: Asking,
      { with_all, before }: { with_all: boolean; before: LogPlace | null },
    ): Promise<{ rows: ShownCommand[]; next: LogPlace | null }> {
      const [row] = await db<
        { commands: ShownCommand[]; next_us: string | null; next_seq: string | null }[]
      >`select * from runledger.console_commands(${session}, ${with_all}, ${before?.at_us ?? null}, ${before?.seq ?? null}, ${PAGE_ROWS})`;
      const { commands, next_us, next_seq } = row!;
      return {
        rows: commands,
        next: next_us && next_seq ? { at_us: next_us, seq: next_seq } : null,
      };
    },

    /** Makes the account, too, if there is none of this name. There must be no key with this id yet. */
    async createKey(
      { session, request_id }: Asking,
      key: { id: string; account: string; tier: string; prefix: string; secret_digest: Uint8Array },
    ): Promise<void> {
      await db`
        select runledger.console_create_key(${session}, ${key.account}, ${key.tier}, ${key.prefix}, ${key.secret_digest},
          ${key.id}, ${request_id})`;
    },

    /** Returns the time at which the secret before ends. The key must not have been rotated after the version that was seen. */
    async rotateKey(
      { session, request_id }: Asking,
      key: { id: string; seen_version: number; secret_digest: Uint8Array; grace_ms: number },
    ): Promise<Date> {
      const [row] = await db<{ ends: Date }[]>`
        select runledger.console_rotate_key(${session}, ${key.id}, ${key.secret_digest},
          make_interval(secs => ${key.grace_ms / 1000}::double precision), ${key.seen_version}, ${request_id}) as ends`;
      return row!.ends;
    },

    /** Returns the id of its account. */
    async revokeKey({ session, request_id }: Asking, id: string): Promise<string> {
      const [row] = await db<{ account_id: string }[]>`
        select runledger.console_revoke_key(${session}, ${id}, ${request_id}) as account_id`;
      return row!.account_id;
    },

    async setTier(
      { session, request_id }: Asking,
      { name, per_minute, concurrent }: Pick<ShownTier, 'name' | 'per_minute' | 'concurrent'>,
    ): Promise<void> {
      await db`select runledger.console_set_tier(${session}, ${name}, ${per_minute}, ${concurrent}, ${request_id})`;
    },

    async replay(
      { session, request_id }: Asking,
      id: string,
      secret: EncryptedSecret | null,
    ): Promise<Replayed> {
      const [row] = await db<{ outcome: Replayed }[]>`
        select runledger.console_replay(${session}, ${id}, ${secret?.key_id ?? null}, ${secret?.nonce ?? null},
          ${secret?.ciphertext ?? null}, ${request_id}) as outcome`;
      return row!.outcome;
    },
  };
}
