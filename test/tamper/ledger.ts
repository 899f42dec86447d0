/**
 * A small sealed ledger for an attacker: submissions of three months with bytes and webhooks, a month that retention detached,
 * bytes that it purged, checkpoints that two witnesses cosigned, and what an auditor keeps outside: the policy, the removals
 * that are allowed, and a checkpoint with its sketch. It is made once, and each attack gets a copy.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect, type Db } from '../../src/db.ts';
import { NO_REMOVALS, parseRemovals, type Removals } from '../../src/domain/removals.ts';
import { cosignedAt, signatureLine, type VerifierKey } from '../../src/proof/note.ts';
import type { Policy } from '../../src/proof/policy.ts';
import { lastCheckpoint, lastSketch, noteWithCosignatures } from '../../src/store/checkpoints.ts';
import { detachMonth, purgePayloads } from '../../src/store/retention.ts';
import type { Kept } from '../../src/store/signed_notes.ts';
import { createTestSets } from '../../src/store/test_sets.ts';
import { type Verification, verify } from '../../src/store/verify.ts';
import { aSet, judged, judgingOf } from '../store/a_set.ts';
import { key, seal } from '../store/seal_now.ts';
import { policy, witnesses } from '../store/verified.ts';
import {
  idOf,
  newId,
  outcome,
  start,
  submission,
  type World,
  webhook,
  world,
} from '../store/world.ts';

import { inEvents } from './past_triggers.ts';

type Test = { teardown(work: () => unknown): void };

export type Ledger = {
  /** Of submissions in the log, sealed: those whose bytes are purged, and those whose bytes are there. */
  readonly purged_ids: readonly string[];
  readonly ids: readonly string[];
  /** In the month that was detached. */
  readonly detached_ids: readonly string[];
  /** After the newest checkpoint. */
  readonly unsealed_id: string;
  readonly key_id: string;
  /** A test set of the account, and one that it deleted. */
  readonly set_id: string;
  readonly deleted_set_id: string;
  /** Judged by the set. */
  readonly judged_id: string;
  /** The name of the partition of this month's and the detached month's events. */
  readonly partition: string;
  readonly detached: string;
  /** Of the checkpoint before the newest. */
  readonly second_sketch: { readonly cells: Buffer; readonly signature: Buffer };
  readonly kept: Kept;
  readonly removals: Removals;
  readonly policy: Policy;
  readonly keys: readonly VerifierKey[];
  copy(): Promise<Copy>;
};

export type Copy = {
  /** A superuser's connection. */
  readonly root: Db;
  readonly root_url: string;
  readonly owner_url: string;
  verify(given?: {
    policy?: Policy | null;
    kept?: boolean;
    removals?: boolean;
    /** Besides the removals that are allowed anyway: months, repairs of the kept checkpoint's name, ages of purges, and ids. */
    allow?: (kept: { origin: string; size: number }) => Removals;
  }): Promise<Verification>;
  drop(): Promise<void>;
};

const DAY_MS = 86_400_000;

export async function makeLedger(t: Test): Promise<Ledger> {
  const w = await world(t);
  const now = new Date();
  const before = (months: number) =>
    Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 10, 12);
  await w.clock.set(new Date(before(3)));
  await dateBack(w.connect(w.database.url, 1), new Date(before(3)));
  await w.tier('free', 0, 0);
  const { digest, id: key_id } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const run = async (count: number, at_ms: number): Promise<string[]> => {
    await w.clock.set(new Date(at_ms));
    await w.db`select runledger.ensure_partitions()`;
    const ids: string[] = [];
    for (let n = 0; n < count; n++) {
      const change = { id: newId(at_ms + n), ...(n % 3 === 1 ? { webhook: webhook() } : {}) };
      const id = idOf(await submit({ secret_digest: digest, submission: submission(change) }));
      await start(executions, id);
      await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
      if (n % 3 === 1) await endDelivery(w.db, id);
      ids.push(id);
    }
    return ids;
  };
  const detached_ids = await run(5, before(3));
  const purged_ids = await run(5, before(2));
  await storeSet(w, key_id, 'unused', [Buffer.from('old')]);
  const ids = [...(await run(6, now.getTime() - 5 * DAY_MS))];
  await sealAndCosign(w);
  const removed_ms = now.getTime() - 2 * DAY_MS;
  await w.clock.set(new Date(removed_ms));
  await w.db`select runledger.ensure_partitions()`;
  await purgePayloads(w.db, new Date(removed_ms - 20 * DAY_MS));
  const month = new Date(before(3)).toISOString().slice(0, 7).replace('-', '_');
  await detachMonth(w.db, month);
  await sealAndCosign(w);
  const second_sketch = (await lastSketch(w.db))!;
  ids.push(...(await run(6, now.getTime() - 1000)));
  const long = Buffer.alloc(600_000, 'long ');
  const { id: set_id } = await storeSet(w, key_id, 'kept', [Buffer.from('1'), long]);
  const deleted = await storeSet(w, key_id, 'deleted', [Buffer.from('1'), Buffer.from('2')]);
  await deleted.remove();
  const judged_id = newId(now.getTime() - 500);
  const judging = judgingOf({ test_set: set_id, stop: 'never' });
  await submit({ secret_digest: digest, submission: submission({ id: judged_id, judging }) });
  await start(executions, judged_id);
  const end = outcome({ verdict: 'WA', judged: judged() });
  await executions.complete({ submission_id: judged_id, attempt: 1, outcome: end });
  await sealAndCosign(w);
  const [unsealed_id] = await run(1, now.getTime());
  const kept = await keptCheckpoint(w.db);
  const removals = await allowedRemovals(w.db);
  await restoreClock(w.db);
  const [part] = await w.db<{ name: string }[]>`
    select tableoid::regclass::text as name from runledger.events where stream = ${ids.at(-1)!} limit 1`;
  // Nobody is connected to a database while it is copied.
  await Promise.all([w.db, w.web, w.worker].map((db) => db.end({ timeout: 1 })));
  const copies = copier(w, { kept, removals });
  return {
    ...{
      purged_ids,
      ids,
      detached_ids,
      unsealed_id: unsealed_id!,
      second_sketch,
      key_id,
      set_id,
      deleted_set_id: deleted.id,
      judged_id,
      kept,
      removals,
      policy,
    },
    partition: part!.name.replace('runledger.', ''),
    detached: `events_${month}`,
    keys: [key.signer.verifier],
    copy: copies,
  };
}

/** What the migrations appended is as old as the ledger. */
async function dateBack(db: Db, at: Date): Promise<void> {
  const time = `'${at.toISOString()}'`;
  await inEvents(
    db,
    `update runledger.events set at = ${time}; update runledger.tiers set changed_at = ${time}`,
  );
  await db.end({ timeout: 1 });
}

async function storeSet(w: World, key_id: string, name: string, inputs: readonly Uint8Array[]) {
  const [owner] = await w.db<{ account_id: string; key_id: string }[]>`
    select account_id, id as key_id from runledger.keys where id = ${key_id}`;
  const sets = createTestSets(w.web);
  const created = await sets.create({ owner: owner!, ...aSet(name, inputs) });
  const { id } = created as { id: string };
  return { id, remove: () => sets.remove(owner!, id) };
}

async function endDelivery(db: Db, id: string): Promise<void> {
  await db`
    select runledger.append_to_deliveries(array[s], 'delivery.ended', runledger.clock(), '{"outcome": "delivered"}')
    from runledger.submissions s where s.id = ${id}`;
  await db`delete from runledger.webhook_secrets where submission_id = ${id}`;
}

export async function sealAndCosign(w: Pick<World, 'web'>): Promise<void> {
  await seal(w.web);
  const last = (await lastCheckpoint(w.web))!;
  const text = last.note.slice(0, last.note.lastIndexOf('\n\n') + 1);
  for (const witness of witnesses) {
    const signature = witness.sign(text);
    await w.web`
      select runledger.put_cosignature(${last.origin}, ${last.size}, ${`${signature.name}+${signature.id}`},
        ${cosignedAt(signature)}, ${signatureLine(signature)})`;
  }
}

async function keptCheckpoint(db: Db): Promise<Kept> {
  const last = (await lastCheckpoint(db))!;
  const sketch = (await lastSketch(db))!;
  return { note: noteWithCosignatures(last), sketch };
}

/** As an operator writes it down when something is removed. */
async function allowedRemovals(db: Db): Promise<Removals> {
  const [month] = await db<{ facts: Record<string, unknown> }[]>`
    select facts from runledger.events where type = 'log.detached'`;
  const { partition, events, leaves_sha256 } = month!.facts;
  return parseRemovals(`detached ${partition} ${events} ${leaves_sha256}\npurged older-than 20d\n`);
}

/** Tests set the clock of the database; the ledger has the release's own again. */
async function restoreClock(db: Db): Promise<void> {
  await db.unsafe(readFileSync(new URL('../../sql/functions/clock.sql', import.meta.url), 'utf8'));
  await db`drop table runledger.test_clock`;
}

function copier(w: World, outside: { kept: Kept; removals: Removals }) {
  const server = new URL(w.database.superuser_url);
  server.pathname = '/postgres';
  const admin = w.connect(server.href, 1);
  return async (): Promise<Copy> => {
    const name = `tampered_${randomBytes(6).toString('hex')}`;
    await admin.unsafe(
      `create database ${name} template ${w.database.name} owner runledger_owner strategy file_copy`,
    );
    const at = (url: string) => {
      const its = new URL(url);
      its.pathname = `/${name}`;
      return its.href;
    };
    const root_url = at(w.database.superuser_url);
    const root = connect(root_url, { name: 'attacker', max: 1 });
    const owner_url = at(w.database.url);
    return {
      root,
      root_url,
      owner_url,
      async verify({ policy: given = policy, kept = false, removals = true, allow } = {}) {
        const [origin, size] = outside.kept.note.split('\n');
        const { detached, repaired, purged_older_than_ms, forgotten } =
          allow?.({ origin: origin!, size: Number(size) }) ?? NO_REMOVALS;
        const months = [...outside.removals.detached, ...detached];
        const ages = [...outside.removals.purged_older_than_ms, ...purged_older_than_ms];
        const db = connect(owner_url, { name: 'verify', max: 1, unpinned: true });
        try {
          return await verify(db, {
            policy: given,
            keys: [],
            live: true,
            removals: removals
              ? {
                  ...outside.removals,
                  ...{ detached: months, repaired, purged_older_than_ms: ages },
                  forgotten: new Set([...outside.removals.forgotten, ...forgotten]),
                }
              : null,
            kept: kept ? outside.kept : null,
          });
        } finally {
          await db.end({ timeout: 1 });
        }
      },
      async drop() {
        await root.end({ timeout: 1 });
        await admin.unsafe(`drop database ${name} with (force)`);
      },
    };
  };
}
