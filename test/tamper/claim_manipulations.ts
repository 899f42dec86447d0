/** Claims of retention and repair that excuse something, and rows beside the projections. */
import { connect } from '../../src/db.ts';
import { parseRemovals } from '../../src/domain/removals.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import { keyText } from '../../src/proof/note.ts';
import { parsePolicy } from '../../src/proof/policy.ts';
import { CannotSeal } from '../../src/store/cannot_seal.ts';
import { createSealer } from '../../src/store/checkpoints.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { repair } from '../../src/store/repair.ts';
import { key } from '../store/seal_now.ts';
import type { Copy, Ledger } from './ledger.ts';
import { inEvents, type Manipulation, quietly } from './manipulation.ts';
import { claim, TREE } from './proof_manipulations.ts';

const ANOTHER_ACCOUNT = 'f0000000-0000-7000-8000-000000000001';

/** The log's name after a repair. */
export const RENAMED = createLogKey(Buffer.alloc(32, 55), 'new.example/log', [key.signer.verifier]);
const lines = (keys: readonly (typeof key)[]) =>
  `${keys.map(({ signer }) => `log ${keyText(signer.verifier)}\n`).join('')}quorum none\n`;
export const BOTH_NAMES = parsePolicy(lines([key, RENAMED]));
const NEW_NAME = parsePolicy(lines([RENAMED]));

/** An operator changes an event, and has the tree computed again under a new name. */
export async function launder({ root, owner_url }: Copy, { ids }: Ledger): Promise<void> {
  await inEvents(
    root,
    `update runledger.events set facts = jsonb_set(facts, '{verdict}', '"WA"') where stream = '${ids[8]}' and type = 'submission.completed';
     update runledger.submissions set verdict = 'WA' where id = '${ids[8]}'`,
  );
  const db = connect(owner_url, { name: 'operator', max: 1 });
  try {
    const why = { reason: 'the disk', operator: 'x@y' };
    const same = await repair(db, key, why).catch((error: unknown) => error);
    if (!(same instanceof CannotSeal)) throw new Error('repaired under the same name');
    await repair(db, RENAMED, why);
  } finally {
    await db.end();
  }
}

/** The newest submission is lost, as in a restore, and the log goes on under a new name. */
export async function lose({ root, owner_url }: Copy, { judged_id }: Ledger): Promise<void> {
  await inEvents(root, `delete from runledger.events where stream = '${judged_id}'`);
  await root`delete from runledger.payloads where stream = ${judged_id}`;
  const db = connect(owner_url, { name: 'operator', max: 1 });
  try {
    await rebuild(db);
    await repair(db, RENAMED, { reason: 'a restore', operator: 'x@y' });
  } finally {
    await db.end();
  }
}

/** Deletes the bytes of the newest submission that has ended, and claims that somebody asked for it. */
async function forgetNewest(
  root: Copy['root'],
  more: { account_id?: string },
  written: (id: string) => string = (id) => id,
): Promise<void> {
  const [old] = await root<{ stream: string; n: number }[]>`
    with one as (select id from runledger.submissions where completed_at is not null
        and id in (select stream from runledger.payloads) order by id desc limit 1),
      gone as (delete from runledger.payloads where stream in (select id from one) returning stream)
    select stream, count(*)::integer as n from gone group by stream`;
  await claim(root, 'payloads.forgotten', {
    ...{ submissions: [written(old!.stream)], payloads: old!.n, size_bytes: 10, operator: 'x@y' },
    ...more,
  });
}

export const claimManipulations: readonly Manipulation[] = [
  {
    name: 'the schedule of retention is changed, and nobody set it',
    does: ({ root }) => root`update runledger.retention set keep_bytes = '1 day'`,
    says: /^schedule of retention: it is {"keep_bytes_s":86400} and should be {"keep_bytes_s":null}/,
  },
  {
    name: 'the schedule of retention is shortened, and set back when bytes are removed',
    does: async ({ root }) => {
      await root`select runledger.set_retention('90 days', null, 'ada@console')`;
      await root`update runledger.retention set keep_bytes = '1 day'`;
      await root`select runledger.purge_payloads(now() - interval '2 days', scheduled => true)`;
      await root`update runledger.retention set keep_bytes = '90 days'`;
    },
    says: /^the purge at \S+ by the schedule is of submissions .* bytes were kept for 90 days/,
  },
  {
    name: 'an event is changed and repaired away under a new name; the policy has both names',
    does: launder,
    with: { policy: BOTH_NAMES },
    says: /^the repair at \S+ gives up \S+ over \d+ events, whose checkpoints the policy believes: the removals have no line "repaired \S+ \d+"/,
  },
  {
    name: 'the same, and the policy has the new name alone',
    does: launder,
    with: { policy: NEW_NAME },
    says: /never/,
    cannot: 'who believes a new name from its start believes the events that it began with',
  },
  {
    name: 'the same, and the auditor has a checkpoint of the earlier name',
    does: launder,
    with: { policy: NEW_NAME, kept: true },
    says: /the kept checkpoint/,
  },
  {
    name: 'a made-up repair gives up the log’s earlier name, and its checkpoints are changed',
    with: { policy: BOTH_NAMES },
    does: async ({ root }) => {
      await createSealer(RENAMED).seal(root);
      await claim(root, 'log.repaired', {
        ...{ origin: RENAMED.origin, size: 91, root: '0'.repeat(64), reason: 'x' },
        ...{ operator: 'x@y', before: { origin: key.origin, size: 88, note: 'x' } },
      });
      await quietly(
        root,
        TREE,
        `update runledger.checkpoints set root = sha256('x') where number <= 2`,
      );
    },
    says: /^the repair at \S+ gives up /,
  },
  {
    name: 'a purge names no last id, and chosen bytes of the allowed age are deleted',
    does: async ({ root }) => {
      const [old] = await root<{ stream: string; n: number }[]>`
        with one as (select id from runledger.submissions where completed_at < now() - interval '4 days'
            and id in (select stream from runledger.payloads) order by id limit 1),
          gone as (delete from runledger.payloads where stream in (select id from one) returning stream)
        select stream, count(*)::integer as n from gone group by stream`;
      await claim(root, 'payloads.purged', {
        ...{ ended_before: new Date(Date.now() - 21 * 86_400_000).toISOString(), submissions: 1 },
        ...{ payloads: old!.n, size_bytes: 10 },
      });
    },
    says: /^the log claims a removal that the policy does not allow: payloads purged at \S+, of submissions that ended before \S+, up to no id/,
  },
  {
    name: 'chosen bytes are deleted, and said to be forgotten on request',
    does: ({ root }) => forgetNewest(root, {}),
    says: /^the log claims a removal that the policy does not allow: 1 submissions forgotten at \S+, of \S+/,
  },
  {
    name: 'the same, as of another account, whose removal the auditor allows',
    does: ({ root }) => forgetNewest(root, { account_id: ANOTHER_ACCOUNT }),
    with: { allow: () => parseRemovals(`forgotten ${ANOTHER_ACCOUNT}`) },
    says: new RegExp(
      `^the log claims that ${ANOTHER_ACCOUNT} had \\S+ forgotten at \\S+, and it is of \\S+$`,
    ),
  },
  {
    name: 'the same, with its id in capitals',
    does: ({ root }) =>
      forgetNewest(root, { account_id: ANOTHER_ACCOUNT }, (id) => id.toUpperCase()),
    with: { allow: () => parseRemovals(`forgotten ${ANOTHER_ACCOUNT}`) },
    says: /^the log claims that [0-9A-F-]{36} was forgotten at \S+, and this is no id in lower case$/,
  },
  {
    name: 'an idempotency key leads to another account’s submission',
    does: ({ root }, { ids }) =>
      root.unsafe(
        `insert into runledger.idempotency select gen_random_uuid(), gen_random_uuid(), '${ids[0]}', '\\x00', now()`,
      ),
    says: /^idempotency keys: \S+ \S+ should not be there/,
  },
  {
    name: 'an idempotency key leads to another submission of its account',
    does: ({ root }, { ids }) =>
      root.unsafe(
        `insert into runledger.idempotency select account_id, gen_random_uuid(), id, '\\x00', created_at from runledger.submissions where id = '${ids[0]}'`,
      ),
    says: /^idempotency keys: \S+ \S+ should not be there/,
  },
  {
    name: 'an account is said to be revoked as a key',
    does: ({ root }, { key_id }) =>
      root.unsafe(`
        insert into runledger.events (stream, version, type, schema, at, generation, facts)
        select stream, max(version) + 1, 'key.revoked', 1, now(), 1, '{"operator": "alice@example"}' from runledger.events
        where stream = (select account_id from runledger.keys where id = '${key_id}') group by stream`),
    says: /^stream f\S+ has events of a type that it cannot have/,
  },
  {
    name: 'a submission is accepted in a stream that is no submission',
    does: ({ root }) =>
      root.unsafe(`
        insert into runledger.events (stream, version, type, schema, at, generation, facts)
        select runledger.permanent_id(), 1, type, schema, now(), 1, facts from runledger.events
        where type = 'submission.accepted' limit 1`),
    says: /^stream f\S+ has events of a type that it cannot have/,
  },
];
