/** Clocks that are wrong, and times that somebody made up. */
import type { Db } from '../../src/db.ts';
import { cosignedAt, type NoteSigner, signatureLine } from '../../src/proof/note.ts';
import { seal } from '../store/seal_now.ts';
import { witnesses } from '../store/verified.ts';
import { newId } from '../store/world.ts';
import { type Copy, type Ledger, sealAndCosign } from './ledger.ts';
import { inEvents, type Manipulation } from './manipulation.ts';
import { claim, in_tree } from './proof_manipulations.ts';

const PURGE = { submissions: 1, payloads: 0, size_bytes: 10 };
const REPAIR = { origin: 'x', size: 1, root: '0'.repeat(64), reason: 'x', operator: 'x@y' };

/** What a witness answers, and what web stores of it without a look at the time. */
export async function putCosignature(
  root: Db,
  signer: NoteSigner,
  number: number,
  seconds: number,
): Promise<void> {
  const [row] = await root<{ origin: string; size: string; note: string }[]>`
    select origin, size, note from runledger.checkpoints where number = ${number}`;
  const { origin, size, note } = row!;
  const signature = signer.sign(note.slice(0, note.lastIndexOf('\n\n') + 1), seconds);
  await root`
    select runledger.put_cosignature(${origin}, ${size}, ${`${signature.name}+${signature.id}`},
      ${cosignedAt(signature)}, ${signatureLine(signature)})`;
}

/** A witness of the policy signs the newest checkpoint again, so long after it was made. */
const cosignedOff =
  (seconds: number): Manipulation['does'] =>
  async (copy, ledger) => {
    await in_tree(
      `delete from runledger.cosignatures where witness like 'north%' and size = (select max(size) from runledger.checkpoints)`,
    )(copy, ledger);
    const [made] = await copy.root<{ s: number }[]>`
      select floor(extract(epoch from sealed_at))::double precision as s from runledger.checkpoints where number = 3`;
    await putCosignature(copy.root, witnesses[0]!, 3, made!.s + seconds);
  };

const datedOff =
  (type: string, facts: object, at: string): Manipulation['does'] =>
  async ({ root }) => {
    await claim(root, type, facts);
    await inEvents(
      root,
      `update runledger.events set at = '${at}' where stream = runledger.retention_stream()
         and version = (select max(version) from runledger.events where stream = runledger.retention_stream())`,
    );
  };

const ALL_CHECKPOINTS = 'update runledger.checkpoints set sealed_at =';

/** An event of now with a time of long ago, which is sealed and cosigned like any other. */
async function datedBack(root: Db, event: string): Promise<void> {
  await root.unsafe(`
    insert into runledger.events (stream, version, type, schema, at, generation, facts) ${event}`);
  await sealAndCosign({ web: root });
}

const DATED_BACK = /^\S+ version \d+ is of a time that is long before those of earlier events: \S+/;

/** A submission that is accepted now, fails a month ago, and is purged. */
async function endedLongAgo({ root }: Copy, { ids }: Ledger): Promise<void> {
  const id = newId();
  const first = `from runledger.events where stream = '${ids[6]}' and version = 1`;
  await root.unsafe(
    `insert into runledger.payloads select '${id}', kind, salt, bytes from runledger.payloads
       where stream = '${ids[6]}' and kind in (select jsonb_object_keys(facts -> 'bytes') ${first})`,
  );
  await datedBack(
    root,
    `select '${id}', 1, type, schema, clock_timestamp(), generation, facts ${first}`,
  );
  const facts = `{"attempt": 0, "verdict": "IE", "evidence": {}, "bytes": {}}`;
  await datedBack(
    root,
    `select '${id}', 2, 'submission.failed', 1, now() - interval '30 days', runledger.generation(), '${facts}'`,
  );
  await root`insert into runledger.submissions select * from runledger.fold_submissions(array[${id}::text::uuid])`;
  const gone = await root`delete from runledger.payloads where stream = ${id} returning 1`;
  const ended_before = new Date(Date.now() - 21 * 86_400_000).toISOString();
  await claim(root, 'payloads.purged', {
    ...{ ...PURGE, payloads: gone.length, ended_before, last_id: id },
  });
  await sealAndCosign({ web: root });
}

const NEVER_SEALED =
  /^\S+ version \d+ is of a transaction that has not begun, so it is never sealed/;

export const timeManipulations: readonly Manipulation[] = [
  {
    name: 'a tier is set now, and the event is of two months ago',
    does: async ({ root }) => {
      await datedBack(
        root,
        `select id, 1 + (select max(version) from runledger.events where stream = id), 'tier.set', 1, now() - interval '60 days',
           runledger.generation(), '{"name": "free", "per_minute": 1000, "concurrent": 50, "operator": "bob@console"}'
         from runledger.tiers where name = 'free'`,
      );
      await root`
        update runledger.tiers t set per_minute = 1000, concurrent = 50, changed_at = e.at
        from (select stream, at from runledger.events where type = 'tier.set' order by version desc limit 1) e
        where t.id = e.stream`;
    },
    says: DATED_BACK,
  },
  {
    name: 'a key is revoked now, and the event is of 1990',
    does: async ({ root }, { key_id }) => {
      await datedBack(
        root,
        `select stream, 1 + max(version), 'key.revoked', 1, '1990-01-01', runledger.generation(), '{"operator": "bob@console"}'
         from runledger.events where stream = '${key_id}' group by stream`,
      );
      await root`update runledger.keys set revoked_at = '1990-01-01' where id = ${key_id}`;
    },
    says: DATED_BACK,
  },
  {
    name: 'a submission ends now, the event is of a month ago, and its bytes are purged',
    does: endedLongAgo,
    says: DATED_BACK,
  },
  {
    name: 'the same: its bytes are missed',
    does: endedLongAgo,
    says: /^payloads: \S+ code is missing, and no purge claims it/,
  },
  {
    name: 'a witness of the policy signed ten minutes before the checkpoint was made',
    does: cosignedOff(-600),
    says: /^the witness north signed checkpoint 3 at \S+, by its clock/,
  },
  {
    name: 'a witness of the policy signed in fifty years',
    does: cosignedOff(50 * 365 * 86_400),
    says: /^the clock of the witness north is wrong: its time on checkpoint 3, \S+, is still to come/,
  },
  {
    name: 'witnesses sign eight minutes before an event, behind a checkpoint that nobody signed',
    does: async (copy, ledger) => {
      const { root } = copy;
      await root`select runledger.set_tier('early', 1, 1)`;
      await seal(root);
      await root`select runledger.set_tier('late', 1, 1)`;
      await inEvents(
        root,
        `update runledger.events set at = at - interval '4 minutes'
         where type = 'tier.set' and facts ->> 'name' = 'late'`,
      );
      await seal(root);
      await in_tree(`${ALL_CHECKPOINTS} sealed_at - interval '4 minutes' where number >= 3`)(
        copy,
        ledger,
      );
      for (const witness of witnesses)
        await putCosignature(root, witness, 5, Math.floor(Date.now() / 1000) - 480);
    },
    says: /^checkpoint 5 was cosigned at \S+, and covers an event of \S+/,
  },
  {
    name: 'a witness of the policy signed at a time that no date has',
    does: async (copy, ledger) => {
      await cosignedOff(0)(copy, ledger);
      const signature = witnesses[0]!.sign(await textOf(copy.root, 3), 2 ** 53 - 1);
      await in_tree(
        `update runledger.cosignatures set line = '${signatureLine(signature)}' where witness like 'north%' and size = (select max(size) from runledger.checkpoints)`,
      )(copy, ledger);
    },
    says: /^the clock of the witness north is wrong: its time on checkpoint 3, no time, is still to come/,
  },
  {
    name: 'a purge is dated in thirty days, and bytes are deleted that end until then',
    does: async (copy, ledger) => {
      const { root } = copy;
      const last_id = ledger.ids[5]!;
      await root`delete from runledger.payloads where stream >= ${ledger.ids[0]!} and stream <= ${last_id}`;
      const in_days = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
      await datedOff(
        'payloads.purged',
        { ...PURGE, ended_before: in_days(-1), last_id },
        in_days(30),
      )(copy, ledger);
    },
    says: /^\S+ version \d+ is of a time that is still to come, or none/,
  },
  {
    name: 'a purge is dated at infinity',
    does: datedOff(
      'payloads.purged',
      { ...PURGE, ended_before: '2026-01-01T00:00:00Z' },
      'infinity',
    ),
    says: /^\S+ version \d+ is of a time that is still to come, or none: no time/,
  },
  {
    name: 'a repair is dated at infinity',
    does: datedOff('log.repaired', REPAIR, 'infinity'),
    says: /^\S+ version \d+ is of a time that is still to come, or none: no time/,
  },
  {
    name: 'a month is called detached at -infinity',
    does: datedOff(
      'log.detached',
      { partition: 'events_2031_01', events: 1, sketch: 'AA==' },
      '-infinity',
    ),
    says: /^events_2031_01 was detached at no time, before its month had ended/,
  },
  {
    name: 'a purge names a day that no month has',
    does: ({ root }) =>
      claim(root, 'payloads.purged', { ...PURGE, ended_before: '2026-02-31T25:00:00Z' }),
    says: /^the purge at \S+ names a time that was still to come, or none: no time|are not of their schema/,
  },
  {
    name: 'the end of a submission gets a transaction that is still to come, and is changed when all later events are sealed',
    does: async ({ root }, { unsealed_id }) => {
      const end = `stream = '${unsealed_id}' and type = 'submission.completed'`;
      await inEvents(root, `update runledger.events set xid = '9000000000000000000' where ${end}`);
      for (let n = 0; n < 20; n++) await root`select runledger.set_tier(${`tier-${n}`}, 1, 1)`;
      await sealAndCosign({ web: root });
      await inEvents(
        root,
        `update runledger.events set facts = jsonb_set(facts, '{verdict}', '"WA"') where ${end};
         update runledger.submissions set verdict = 'WA' where id = '${unsealed_id}'`,
      );
    },
    says: NEVER_SEALED,
  },
  {
    name: 'the end of a submission is of a generation that there has not been',
    does: async ({ root }, { unsealed_id }) => {
      await inEvents(
        root,
        `update runledger.events set generation = 9 where stream = '${unsealed_id}' and type = 'submission.completed'`,
      );
      await sealAndCosign({ web: root });
    },
    says: NEVER_SEALED,
  },
  {
    name: 'an event is two days old and not sealed, in a log that is sealed',
    does: ({ root }, { unsealed_id }) =>
      inEvents(
        root,
        `update runledger.events set at = at - interval '2 days' where stream = '${unsealed_id}'`,
      ),
    says: /^the log has checkpoints, and an event of 2 days ago is not sealed/,
  },
  {
    name: 'the newest checkpoint is made at infinity',
    does: in_tree(`${ALL_CHECKPOINTS} 'infinity' where number = 3`),
    says: /^checkpoint 3 says that it was made at no time/,
  },
  {
    name: 'all checkpoints are made at infinity',
    does: in_tree(`${ALL_CHECKPOINTS} 'infinity'`),
    says: /^checkpoint 1 says that it was made at no time/,
  },
  {
    name: 'the first checkpoint is made at -infinity',
    does: in_tree(`${ALL_CHECKPOINTS} '-infinity' where number = 1`),
    says: /^checkpoint 1 says that it was made at no time/,
  },
  {
    name: 'all checkpoints are made before Christ',
    does: in_tree(`${ALL_CHECKPOINTS} '0044-03-15 BC'`),
    says: /^checkpoint 1 says that it was made at no time/,
  },
  {
    name: 'all checkpoints are made in the year 12000',
    does: in_tree(`${ALL_CHECKPOINTS} '12000-01-01'`),
    says: /^checkpoint 1 says that it was made at (no time|\S+, which is still to come)/,
  },
  {
    name: 'cosignatures are of infinity in their rows',
    does: in_tree(`update runledger.cosignatures set cosigned_at = 'infinity'`),
    says: /^checkpoint 1: a cosignature is of another time than its row says/,
  },
];

async function textOf(root: Db, number: number): Promise<string> {
  const [row] = await root<{ note: string }[]>`
    select note from runledger.checkpoints where number = ${number}`;
  return row!.note.slice(0, row!.note.lastIndexOf('\n\n') + 1);
}
