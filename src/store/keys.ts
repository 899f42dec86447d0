/** Accounts, tiers and keys: the operator's commands. `operator` says who gives the command, as user@host. */
import type { Db } from '../db.ts';

export type KeyRow = {
  id: string;
  account: string;
  tier: string;
  prefix: string;
  created_at: Date;
  revoked_at: Date | null;
  last_used_at: Date | null;
  /** How many of its secrets are valid now; more than one during a rotation. */
  secrets: number;
};

/** A limit of a tier, for people. */
export const limitText = (most: number): string => (most === 0 ? 'no limit' : String(most));

export type TierRow = { name: string; per_minute: number; concurrent: number; changed_at: Date };

export async function createKey(
  db: Db,
  key: {
    account: string;
    tier: string;
    prefix: string;
    secret_digest: Uint8Array;
    operator?: string;
  },
): Promise<string> {
  const [row] = await db<{ id: string }[]>`
    select runledger.create_key(${key.account}, ${key.tier}, ${key.prefix}, ${key.secret_digest},
      ${key.operator ?? null}) as id`;
  return row!.id;
}

export type Grace = {
  /** Until when a secret works that is not the newest one; null: there is none. */
  readonly ends: Date | null;
  /** Of the newest event of the key; null: there is no such key. */
  readonly version: number | null;
};

export async function graceOf(db: Db, id: string): Promise<Grace> {
  const [row] = await db<Grace[]>`
    select (select max(version)::integer from runledger.events where stream = ${id}) as version, (
      select s.expires_at from runledger.key_secrets s join runledger.keys k on k.id = s.key_id and k.revoked_at is null
      where s.key_id = ${id} and s.expires_at > runledger.clock() order by s.expires_at desc limit 1) as ends`;
  return row!;
}

type Rotation = {
  readonly id: string;
  readonly secret_digest: Uint8Array;
  readonly grace_ms: number;
  readonly operator?: string;
  /** RL409 if the key has had another secret since then. */
  readonly seen_version?: number | null;
};

/** Returns the time at which the secret before ends. */
export async function rotateKey(db: Db, key: Rotation): Promise<Date> {
  const [row] = await db<{ ends: Date }[]>`
    select runledger.rotate_key(${key.id}, ${key.secret_digest},
      make_interval(secs => ${key.grace_ms / 1000}::double precision), ${key.operator ?? null},
      seen_version => ${key.seen_version ?? null}) as ends`;
  return row!.ends;
}

export async function revokeKey(db: Db, id: string, operator?: string): Promise<void> {
  await db`select runledger.revoke_key(${id}, ${operator ?? null})`;
}

export async function listKeys(db: Db): Promise<KeyRow[]> {
  return db<KeyRow[]>`
    select k.id, a.name as account, k.tier, k.prefix, k.created_at, k.revoked_at, u.last_used_at,
      (select count(*)::integer from runledger.key_secrets s
        where s.key_id = k.id and k.revoked_at is null
          and (s.expires_at is null or s.expires_at > runledger.clock())) as secrets
    from runledger.keys k
    join runledger.accounts a on a.id = k.account_id
    left join runledger.key_usage u on u.key_id = k.id
    order by k.created_at, k.id`;
}

export async function setTier(
  db: Db,
  tier: { name: string; per_minute: number; concurrent: number; operator?: string },
): Promise<void> {
  await db`select runledger.set_tier(${tier.name}, ${tier.per_minute}, ${tier.concurrent},
      ${tier.operator ?? null})`;
}

export async function listTiers(db: Db): Promise<TierRow[]> {
  return db<TierRow[]>`
    select name, per_minute, concurrent, changed_at from runledger.tiers order by name`;
}
