/** Checkpoints, signatures, cosignatures, tiles, gaps, the sketch; retention's claims; rollbacks and forks. */
import type { Db } from '../../src/db.ts';
import { parseRemovals } from '../../src/domain/removals.ts';
import { addItems, itemBytes } from '../../src/domain/sketch.ts';
import { checkpointText } from '../../src/proof/checkpoint.ts';
import { ENTRY_COLUMNS } from '../../src/proof/entry.ts';
import { createLogKey, sketchText } from '../../src/proof/log_key.ts';
import { leafHash } from '../../src/proof/merkle.ts';
import {
  cosignedAt,
  NoteSigner,
  parseNote,
  signatureLine,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { Tiles } from '../../src/proof/tiles.ts';
import { CannotSeal } from '../../src/store/cannot_seal.ts';
import { createSealer, signedNote } from '../../src/store/checkpoints.ts';
import { readEntries } from '../../src/store/entries.ts';
import { key } from '../store/seal_now.ts';
import { witnesses } from '../store/verified.ts';
import type { Copy, Ledger } from './ledger.ts';
import { inEvents, type Manipulation, quietly } from './manipulation.ts';

const forge = (root: Db, id: string) =>
  inEvents(
    root,
    `update runledger.events set facts = jsonb_set(facts, '{verdict}', '"WA"') where stream = '${id}' and type = 'submission.completed';
     update runledger.submissions set verdict = 'WA' where id = '${id}'`,
  );

export const TREE = ['checkpoints', 'cosignatures', 'log_tiles', 'log_gaps'];
const PROOF =
  'delete from runledger.checkpoints; delete from runledger.cosignatures; delete from runledger.log_tiles; delete from runledger.log_sketch;';

/** Appends to retention's stream, as an operator's command does. */
export const claim = (root: Db, type: string, facts: object) =>
  root`select runledger.append_retention(${type}, ${JSON.stringify(facts)}::text::jsonb)`;

export const in_tree =
  (statements: string): Manipulation['does'] =>
  ({ root }) =>
    quietly(root, TREE, statements);

/** Signs the log from its start again, with a key of the attacker's and the log's name. */
async function signAnew(root: Db): Promise<void> {
  await quietly(root, TREE, `${PROOF} delete from runledger.log_gaps`);
  await createSealer(createLogKey(Buffer.alloc(32, 66), key.origin)).seal(root);
}

/** Events of today, with which the submission s would not be one that a purge takes. */
const REFUSED = `runledger.append_to_submissions(array[s], '{execution.refused}', runledger.clock(), array[jsonb_build_object(
  'attempt', 1, 'consumer', gen_random_uuid(), 'verdict', 'AC')])`;
const DELIVERED = `runledger.append_to_deliveries(runledger.append_to_deliveries(array[s], 'delivery.requested', runledger.clock(),
  jsonb_build_object('next_at', now())), 'delivery.ended', runledger.clock(), '{"outcome": "delivered"}')`;

/** Of the submissions of five days ago, one loses its bytes. The events are appended to all others, and a purge is claimed. */
async function purgeOne({ root }: Copy, { ids }: Ledger, events: string): Promise<void> {
  const target = ids[3]!;
  await root.unsafe(`select ${events} from runledger.submissions s
    where s.id = any ('{${ids.slice(0, 6)}}') and s.id <> '${target}'`);
  const gone = await root`delete from runledger.payloads where stream = ${target} returning 1`;
  await claim(root, 'payloads.purged', {
    ended_before: new Date(Date.now() - 4 * 86_400_000).toISOString(),
    submissions: 1,
    payloads: gone.length,
    size_bytes: 10,
    last_id: ids[5],
  });
}

/** Two checkpoints behind the newest: one of a name and a size that there are not, and one of the newest's size. */
async function hiddenBehind({ root }: Copy): Promise<void> {
  const [last] = await root<{ number: number; size: number; root: Buffer }[]>`
    select number::integer, size::integer, root from runledger.checkpoints order by number desc limit 1`;
  const row = (more: number, origin: string, size: number) => {
    const note = signedNote(createLogKey(Buffer.alloc(32, 67), origin), {
      ...{ origin, size, root: last!.root },
    });
    return `insert into runledger.checkpoints select (jsonb_populate_record(c, jsonb_build_object('number', ${last!.number + more},
      'origin', '${origin}', 'size', ${size}, 'note', '${note}'))).* from runledger.checkpoints c where number = ${last!.number}`;
  };
  await quietly(root, TREE, `${row(1, 'zz', 1e9)}; ${row(2, 'yy', last!.size)}`);
}

export const proofManipulations: readonly Manipulation[] = [
  {
    name: 'an event is changed, and everything is signed again with another key',
    does: async ({ root }, { ids }) => {
      await forge(root, ids[0]!);
      await signAnew(root);
    },
    says: /^checkpoint 1: it is not signed by the log/,
  },
  {
    name: 'the same, and the auditor has a checkpoint with its sketch',
    does: async ({ root }, { ids }) => {
      await forge(root, ids[0]!);
      await signAnew(root);
    },
    with: { kept: true },
    says: /^changed event: \S+ version 3/,
  },
  {
    name: 'a row of a checkpoint claims 2^50 events',
    does: ({ root }) =>
      quietly(
        root,
        TREE,
        `insert into runledger.checkpoints select (jsonb_populate_record(c, jsonb_build_object('number', c.number + 1, 'size', 1125899906842624))).*
         from runledger.checkpoints c order by number desc limit 1`,
      ),
    says: /^the newest checkpoint says that it covers 1125899906842624 events/,
  },
  {
    name: 'a checkpoint that claims more than there is hides one that nobody signed',
    does: hiddenBehind,
    says: /^checkpoint \d+: the policy has no log yy$/,
  },
  {
    name: 'the same: the one that hides it is named, too',
    does: hiddenBehind,
    says: /^checkpoint \d+ covers 1000000000 events, and \d+ are sealed$/,
  },
  {
    name: 'a checkpoint of another name covers fewer events than the one before it',
    does: async ({ root }) => {
      const [last] = await root<{ number: number; size: number; root: Buffer }[]>`
        select number::integer, size::integer, root from runledger.checkpoints order by number desc limit 1`;
      const note = signedNote(createLogKey(Buffer.alloc(32, 67), 'zz'), {
        ...{ origin: 'zz', size: 1, root: last!.root },
      });
      await quietly(
        root,
        TREE,
        `insert into runledger.checkpoints select (jsonb_populate_record(c, jsonb_build_object('number', ${last!.number + 1},
          'origin', 'zz', 'size', 1, 'note', '${note}'))).* from runledger.checkpoints c where number = ${last!.number}`,
      );
    },
    says: /^checkpoint \d+ covers 1 events, fewer than one before it$/,
  },
  {
    name: 'the row of a cosignature names another witness',
    does: in_tree(`update runledger.cosignatures set witness = 'x' || substr(witness, 2)
      where witness like 'north%' and size = (select max(size) from runledger.checkpoints)`),
    says: /^checkpoint \d+: a cosignature is by another witness than its row says/,
  },
  {
    name: 'the row of a witness has the line of a stranger',
    does: async (copy, ledger) => {
      const stranger = new NoteSigner('stranger', WITNESS_KEY, Buffer.alloc(32, 77));
      const [last] = await copy.root<{ note: string }[]>`
        select note from runledger.checkpoints order by number desc limit 1`;
      const signature = stranger.sign(parseNote(last!.note).text);
      await in_tree(`update runledger.cosignatures set line = '${signatureLine(signature)}'
        where witness like 'north%' and size = (select max(size) from runledger.checkpoints)`)(
        copy,
        ledger,
      );
    },
    says: /^checkpoint \d+: a cosignature is by another witness than its row says/,
  },
  {
    name: 'a checkpoint has no root',
    does: async ({ root }) =>
      quietly(
        root,
        TREE,
        `alter table runledger.checkpoints alter root drop not null; update runledger.checkpoints set root = null where number = 1;
         update pg_attribute set attnotnull = true where attrelid = 'runledger.checkpoints'::regclass and attname = 'root'`,
      ),
    says: /^the log could not be checked: /,
  },
  {
    name: 'an event is changed, the hashes are computed again, and the signatures are left out',
    does: async ({ root }, { ids }) => {
      await forge(root, ids[0]!);
      await signAnew(root);
      await quietly(
        root,
        TREE,
        `update runledger.checkpoints set note = split_part(note, E'\\n\\n', 1) || E'\\n\\n'`,
      );
      // The service must not sign on top of it.
      const signed = await createSealer(key)
        .seal(root)
        .then(
          () => true,
          (error: unknown) => {
            if (error instanceof CannotSeal) return false;
            throw error;
          },
        );
      if (signed) throw new Error('the service signed the forged chain itself');
    },
    says: /^checkpoint 1 cannot be read/,
  },
  {
    name: 'a signature is removed from an old checkpoint',
    does: in_tree(
      `update runledger.checkpoints set note = regexp_replace(note, '— \\S+ \\S+', '— other AAAAAAAA') where number = 1`,
    ),
    says: /^checkpoint 1: it is not signed by the log/,
  },
  {
    name: 'a signature is replaced by the one of another checkpoint',
    does: in_tree(`update runledger.checkpoints c set note = split_part(c.note, E'\\n\\n', 1) || E'\\n\\n' || split_part(o.note, E'\\n\\n', 2)
      from runledger.checkpoints o where c.number = 1 and o.number = 2`),
    says: /^checkpoint 1: a signature of a key in the policy is not of this checkpoint/,
  },
  {
    name: 'all cosignatures are removed',
    does: in_tree('delete from runledger.cosignatures'),
    says: /^the policy accepts no checkpoint of this log: too few witnesses cosigned it: 0/,
  },
  {
    name: 'one witness’s cosignatures are removed',
    does: in_tree(`delete from runledger.cosignatures where witness like 'south%'`),
    says: /^the policy accepts no checkpoint of this log: too few witnesses cosigned it: 1/,
  },
  {
    name: 'a cosignature is moved to another checkpoint',
    does: in_tree(`update runledger.cosignatures c set line = o.line from runledger.cosignatures o
      where c.witness = o.witness and c.size = (select max(size) from runledger.checkpoints) and o.size = (select min(size) from runledger.checkpoints)`),
    says: /a signature of a key in the policy is not of this checkpoint/,
  },
  {
    name: 'the time of a cosignature is moved in its row',
    does: in_tree(`update runledger.cosignatures set cosigned_at = cosigned_at - interval '1 day'`),
    says: /^checkpoint 1: a cosignature is of another time than its row says/,
  },
  {
    name: 'sealed_at is moved forward',
    does: in_tree(`update runledger.checkpoints set sealed_at = sealed_at + interval '1 day'`),
    says: /^the witness north signed checkpoint 1 at \S+, by its clock, and the checkpoint says that it was made at \S+: that clock was behind, or the row was changed/,
  },
  {
    name: 'sealed_at is moved back',
    does: in_tree(`update runledger.checkpoints set sealed_at = sealed_at - interval '30 days'`),
    says: /^checkpoint \d says that it was made at \S+, and covers an event of \S+/,
  },
  {
    name: 'sealed_at is moved by a minute',
    does: in_tree(`update runledger.checkpoints set sealed_at = sealed_at + interval '1 minute'`),
    says: /never/,
    cannot: 'a time that our own row gives is signed by nobody; the time of a cosignature is',
  },
  {
    name: 'a checkpoint in the middle is removed',
    does: in_tree('delete from runledger.checkpoints where number = 2'),
    says: /^checkpoint 2 is missing/,
  },
  {
    name: 'the row of a checkpoint says another size than its note',
    does: in_tree('update runledger.checkpoints set size = size + 1 where number = 3'),
    says: /^checkpoint 3: its row does not say what its note says/,
  },
  {
    name: 'the place where a checkpoint ends is moved',
    does: in_tree(`update runledger.checkpoints set to_xid = '3' where number = 2`),
    says: /^checkpoint 2 does not end where its row says/,
  },
  {
    name: 'all checkpoints are removed',
    does: in_tree('delete from runledger.checkpoints; delete from runledger.cosignatures'),
    says: /^the policy accepts no checkpoint of this log: there is no checkpoint/,
  },
  {
    name: 'a hash in a tile is changed',
    does: in_tree(
      `update runledger.log_tiles set hashes = overlay(hashes placing '\\x00112233' from 65) where level = 0`,
    ),
    says: /^tile 0\/0 does not have the hashes of the log's events/,
  },
  {
    name: 'a tile is removed',
    does: in_tree('delete from runledger.log_tiles where level = 0'),
    says: /^tile 0\/0 is missing/,
  },
  {
    name: 'a tile gets a hash more',
    does: in_tree(
      `update runledger.log_tiles set hashes = hashes || sha256('more') where level = 0`,
    ),
    says: /^level 0 of the tree has \d+ hashes/,
  },
  {
    name: 'a tile of a higher level is added',
    does: in_tree(
      `insert into runledger.log_tiles (level, index, hashes) values (1, 0, sha256('more'))`,
    ),
    says: /^the tree has tiles of level 1/,
  },
  {
    name: 'the place of a tile in the feed is changed',
    does: in_tree('update runledger.log_tiles set seq = seq + 1 where level = 0'),
    says: /^the tile of leaf 0 names another place in the feed/,
  },
  {
    name: 'the sketch is changed',
    does: in_tree(`update runledger.log_sketch set cells = overlay(cells placing '\\x01' from 1)`),
    says: /^the sketch in the database is not signed by the log/,
  },
  {
    name: 'the sketch is changed, and signed by the holder of the seal key',
    does: async ({ root }, { ids }) => {
      const [stored] = await root<{ size: string; cells: Buffer }[]>`
        select size, cells from runledger.log_sketch`;
      const cells = Buffer.from(stored!.cells);
      addItems(cells, itemBytes(ids[0]!, 9, Buffer.alloc(32, 1)));
      const signature = key.signer.sign(
        sketchText({ origin: key.origin, size: Number(stored!.size) }, cells),
      ).bytes;
      await root`update runledger.log_sketch set cells = ${cells}, signature = ${signature}`;
    },
    says: /^the sketch in the database has \S+ version 9, which the log lacks/,
  },
  {
    name: 'an event is changed, and the sketch is made to accuse another',
    does: async ({ root }, { ids, unsealed_id }) => {
      await inEvents(
        root,
        `update runledger.events set facts = facts || '{"exit_code": 9}' where stream = '${ids[8]}' and type = 'submission.completed'`,
      );
      const [stored] = await root<{ cells: Buffer }[]>`select cells from runledger.log_sketch`;
      const cells = Buffer.from(stored!.cells);
      addItems(cells, itemBytes(unsealed_id, 1, Buffer.alloc(32, 1)));
      await root`update runledger.log_sketch set cells = ${cells}`;
    },
    says: /^the sketch in the database is not signed by the log/,
  },
  {
    name: 'the sketch is removed',
    does: in_tree('delete from runledger.log_sketch'),
    says: /^the sketch in the database is missing/,
  },
  {
    name: 'the gaps are removed',
    does: in_tree('delete from runledger.log_gaps'),
    says: /^removed event: leaf \d+/,
  },
  {
    name: 'a gap is laid over events that are removed',
    does: async ({ root }, { ids }) => {
      await inEvents(
        root,
        `delete from runledger.events where stream = '${ids[0]}'; delete from runledger.submissions where id = '${ids[0]}';
         delete from runledger.payloads where stream = '${ids[0]}'`,
      );
      // The leaves of one submission, which ran alone, follow one another.
      await root.unsafe(`insert into runledger.log_gaps
        select max(first + count) + 15, 3, min(partition) from runledger.log_gaps`);
    },
    says: /^the leaves that are gone from events_\S+ are not those that its detachment names|^removed event|^changed event/,
  },
  {
    name: 'a detached month is attached again',
    does: async ({ root }, { detached, detached_ids }) => {
      await root.unsafe(`alter table runledger_detached.${detached} set schema runledger`).simple();
      await root
        .unsafe(`alter table runledger.events attach partition runledger.${detached}
        for values from ('${detached_ids[0]!.slice(0, 8)}-0000-0000-0000-000000000000') to ('${detached_ids[0]!.slice(0, 8)}-ffff-ffff-ffff-ffffffffffff')`)
        .simple();
    },
    says: /^events_\S+ was detached, and its stream \S+ is in the log again/,
  },
  {
    name: 'a detached table is edited',
    does: ({ root }, { detached, detached_ids }) =>
      root
        .unsafe(`alter table runledger_detached.${detached} disable trigger user;
        update runledger_detached.${detached} set facts = facts || '{"verdict": "WA"}' where stream = '${detached_ids[0]}' and version = 3`)
        .simple(),
    says: /^runledger_detached\.events_\S+ does not hold the events that were sealed/,
  },
  {
    name: 'a month is copied, changed, dropped, called detached, and put back under another name',
    does: async ({ root }, { partition }) => {
      const [bounds] = await root.unsafe<{ text: string }[]>(
        `select pg_get_expr(relpartbound, oid) as text from pg_class where oid = 'runledger.${partition}'::regclass`,
      );
      await root
        .unsafe(`
        create table runledger.${partition}x (like runledger.events including all);
        insert into runledger.${partition}x select stream, version, type, schema, at, generation, xid, seq,
          case when type = 'submission.completed' then jsonb_set(facts, '{verdict}', '"WA"') else facts end from runledger.${partition};
        alter table runledger.events detach partition runledger.${partition};
        drop table runledger.${partition};
        alter table runledger.events attach partition runledger.${partition}x ${bounds!.text}`)
        .simple();
      await claim(root, 'log.detached', {
        partition,
        events: 36,
        sketch: 'AA==',
        leaves_sha256: '0'.repeat(64),
      });
    },
    says: /^the log claims a removal that the policy does not allow: events_\S+ detached with 36 events/,
  },
  {
    name: 'the same: its streams are named',
    does: async ({ root }, { partition }) => {
      await root.unsafe(`alter table runledger.${partition} rename to ${partition}x`);
      await claim(root, 'log.detached', {
        partition,
        events: 36,
        sketch: 'AA==',
        leaves_sha256: '0'.repeat(64),
      });
    },
    says: /^events_\S+ was detached, and its stream \S+ is in the log again/,
  },
  {
    name: 'a month is called detached that has not ended',
    does: async ({ root }, { partition }) => {
      await root
        .unsafe(
          `alter table runledger.events detach partition runledger.${partition}; drop table runledger.${partition}`,
        )
        .simple();
      await claim(root, 'log.detached', {
        partition,
        events: 0,
        sketch: 'AA==',
        leaves_sha256: '0'.repeat(64),
      });
    },
    says: /^events_\S+ was detached at \S+, before its month had ended/,
  },
  {
    name: 'a purge is claimed, and the bytes of a few chosen submissions are deleted',
    does: async ({ root }, { ids }) => {
      const [gone] = await root<{ n: number }[]>`
        with gone as (delete from runledger.payloads where stream = any (${`{${ids.slice(0, 2)}}`}::text::uuid[]) returning 1) select count(*)::integer as n from gone`;
      const now = new Date().toISOString();
      await claim(root, 'payloads.purged', {
        ended_before: now,
        submissions: 2,
        payloads: gone!.n,
        size_bytes: 20,
        last_id: ids.at(-1),
      });
    },
    says: /^the log claims a removal that the policy does not allow: payloads purged/,
  },
  {
    name: 'the same, where the auditor allows purges of that age',
    does: async ({ root }, { ids, purged_ids }) => {
      await root`delete from runledger.payloads where stream = ${ids[0]!}`;
      const old = new Date(Date.now() - 21 * 86_400_000).toISOString();
      await claim(root, 'payloads.purged', {
        ended_before: old,
        submissions: 1,
        payloads: 2,
        size_bytes: 10,
        last_id: purged_ids.at(-1),
      });
    },
    says: /^payloads: \S+ (code|stdout) is missing, and no purge claims it/,
  },
  {
    name: 'chosen bytes are purged, and late reports are refused for the other submissions',
    does: (copy, ledger) => purgeOne(copy, ledger, REFUSED),
    with: { allow: () => parseRemovals('purged older-than 3d') },
    says: /^payloads: \S+ \S+ is there, and the purge at \S+ claims that it is gone/,
  },
  {
    name: 'the same, and the others, which have no webhook, get deliveries',
    does: (copy, ledger) => purgeOne(copy, ledger, DELIVERED),
    with: { allow: () => parseRemovals('purged older-than 3d') },
    says: /^payloads: \S+ \S+ is there, and the purge at \S+ claims that it is gone/,
  },
  {
    name: 'bytes that were purged are put back',
    does: ({ root }, { purged_ids }) =>
      root`insert into runledger.payloads values (${purged_ids[0]!}, 'code', '\\x00', 'print(3)'::bytea)`,
    says: /^payloads: \S+ code (is there, and the purge at|does not have the bytes)/,
  },
  {
    name: 'retention removed what it says, and the auditor allows no removals',
    does: async () => {},
    with: { removals: false },
    says: /^the log claims a removal that the policy does not allow: events_/,
  },
  {
    name: 'the log is rolled back to an older checkpoint',
    does: ({ root }, ledger) => rollBack(root, ledger),
    with: { kept: true },
    says: /^the log was rolled back: it has \d+ of the \d+ events of the kept checkpoint/,
  },
  {
    name: 'the same, and no checkpoint was kept',
    does: ({ root }, ledger) => rollBack(root, ledger),
    says: /never/,
    cannot:
      'a database that was rolled back looks as it looked then: keep a checkpoint, or let verify ask the witnesses',
  },
  {
    name: 'the log is forked: rolled back, and gone on from',
    does: async ({ root }, ledger) => {
      await rollBack(root, ledger);
      for (let n = 0; n < 70; n++) await root`select runledger.set_tier(${`tier-${n}`}, 1, 1)`;
      await createSealer(key).seal(root);
    },
    with: { kept: true },
    says: /^(neither )?the log's first \d+ events (are not those that|nor the tiles have the root of) the kept checkpoint/,
  },
  {
    name: 'what was not sealed yet is changed, in every place',
    does: ({ root }, { unsealed_id }) => forge(root, unsealed_id),
    says: /never/,
    cannot: 'the last seconds are not sealed yet',
  },
  {
    name: 'an event that is not true is appended',
    does: ({ root }) => root`select runledger.set_tier('beta', 60, 11)`,
    says: /never/,
    cannot: 'what is appended may be untrue: the log proves what was recorded, and when',
  },
  {
    name: 'the holder of the seal key and of all witnesses signs another history',
    does: ({ root }, { ids }) => forgeAndSign(root, ids[0]!),
    says: /never/,
    cannot:
      'who holds the seal key and all witnesses can lie from the start, unless a checkpoint was kept',
  },
  {
    name: 'the same key holders, and the auditor has a checkpoint',
    does: ({ root }, { ids }) => forgeAndSign(root, ids[0]!),
    with: { kept: true },
    says: /^changed event: /,
  },
  {
    name: 'cosignatures after checkpoint 1 are removed, and a later event is forged by the holder of the seal key alone',
    does: ({ root }, { ids }) => forgeAndSign(root, ids.at(-1)!, { cosigned: 1 }),
    says: /^\d+ leaves are sealed behind the last checkpoint that the policy accepts, and one is of 2 days ago: /,
  },
  {
    name: 'the holder of the seal key alone forges an event of the last day, and removes the cosignatures on it',
    does: ({ root }, { ids }) => forgeAndSign(root, ids.at(-1)!, { cosigned: 2 }),
    says: /never/,
    cannot:
      'what witnesses have not signed yet is as the holder of the seal key says; their answer about the newest checkpoint shows it',
  },
];

/** As a restore of a backup leaves it that was made at the second checkpoint. */
async function rollBack(root: Db, { second_sketch }: Ledger): Promise<void> {
  const [old] = await root<{ generation: number; to_xid: string; size: string }[]>`
    select generation, to_xid::text as to_xid, size from runledger.checkpoints where number = 2`;
  const { generation, to_xid, size } = old!;
  const gone = `generation = ${generation} and xid >= '${to_xid}'::xid8`;
  await inEvents(
    root,
    `create temp table gone as select distinct stream from runledger.events where ${gone};
     delete from runledger.events where ${gone}`,
  );
  const hex = (bytes: Buffer) => `'\\x${bytes.toString('hex')}'`;
  await quietly(
    root,
    TREE,
    `delete from runledger.payloads where stream in (select stream from gone); delete from runledger.submissions where id in (select stream from gone);
     delete from runledger.deliveries where id in (select stream from gone); delete from runledger.test_sets where id in (select stream from gone);
     delete from runledger.test_set_contents where test_set_id in (select stream from gone);
     delete from runledger.contents c where not exists (select from runledger.test_set_contents where content_id = c.id);
     delete from runledger.content_pieces p where not exists (select from runledger.contents where id = p.content_id);
     delete from runledger.checkpoints where size > ${size}; delete from runledger.cosignatures where size > ${size};
     update runledger.log_tiles set hashes = substr(hashes, 1, ${size} * 32) where level = 0;
     update runledger.log_sketch set size = ${size}, cells = ${hex(second_sketch.cells)}, signature = ${hex(second_sketch.signature)}`,
  );
}

/**
 * Changes an event and signs everything that follows from it, with the keys of the log and of all witnesses; with those of the
 * witnesses only up to checkpoint `cosigned`.
 */
async function forgeAndSign(
  root: Db,
  id: string,
  { cosigned = Number.POSITIVE_INFINITY } = {},
): Promise<void> {
  const leaf = async () => {
    const query = `select ${ENTRY_COLUMNS} from runledger.events where stream = '${id}' and type = 'submission.completed'`;
    for await (const [entry] of readEntries(root, query)) return leafHash(entry!);
    throw new Error('no such event');
  };
  const old = await leaf();
  await forge(root, id);
  const now = await leaf();
  // The ledger is small: all leaves are in one tile.
  const [tile] = await root<{ hashes: Buffer }[]>`select hashes from runledger.log_tiles`;
  now.copy(tile!.hashes, tile!.hashes.indexOf(old));
  const [stored] = await root<{ cells: Buffer }[]>`select cells from runledger.log_sketch`;
  const sketch = Buffer.from(stored!.cells);
  addItems(sketch, itemBytes(id, 3, old), -1);
  addItems(sketch, itemBytes(id, 3, now));
  const rows = await root<{ number: string; size: string }[]>`
    select number, size from runledger.checkpoints order by number`;
  const updates = rows.map(({ number, size }) => {
    const tree = new Tiles([{ level: 0, index: 0, hashes: tile!.hashes }]);
    const checkpoint = {
      origin: key.origin,
      size: Number(size),
      root: tree.rootOf({ from: 0, to: Number(size) }),
    };
    const text = checkpointText(checkpoint);
    const lines = witnesses.map((witness) => {
      if (Number(number) > cosigned)
        return `delete from runledger.cosignatures where size = ${size}`;
      const signature = witness.sign(text);
      return `update runledger.cosignatures set line = '${signatureLine(signature)}', cosigned_at = '${cosignedAt(signature).toISOString()}'
        where size = ${size} and witness like '${signature.name}%'`;
    });
    return `update runledger.checkpoints set root = '\\x${checkpoint.root.toString('hex')}', note = '${signedNote(key, checkpoint)}'
      where number = ${number}; ${lines.join('; ')}`;
  });
  const signature = key.signer.sign(
    sketchText({ origin: key.origin, size: Number(rows.at(-1)!.size) }, sketch),
  ).bytes;
  await quietly(
    root,
    TREE,
    `${updates.join(';')}; update runledger.log_tiles set hashes = '\\x${tile!.hashes.toString('hex')}';
     update runledger.log_sketch set cells = '\\x${sketch.toString('hex')}', signature = '\\x${signature.toString('hex')}'`,
  );
}
