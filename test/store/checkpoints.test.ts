/** Sealing: windows, several processes at once, and what a process does not sign on top of. */
import { createHash } from 'node:crypto';
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { parseCheckpoint } from '../../src/proof/checkpoint.ts';
import { createLogKey, isSketchOf, verifierKeys } from '../../src/proof/log_key.ts';
import { leafHash, provesInclusion } from '../../src/proof/merkle.ts';
import { keyText, parseKey, parseNote, signatureBy, signatureLine } from '../../src/proof/note.ts';
import { CannotSeal } from '../../src/store/cannot_seal.ts';
import {
  createSealer,
  lastCheckpoint,
  lastSketch,
  noteWithCosignatures,
  putCheckpoint,
} from '../../src/store/checkpoints.ts';
import { MOST_COSIGNATURES } from '../../src/store/cosignatures.ts';
import { readStream } from '../../src/store/entries.ts';
import { repair } from '../../src/store/repair.ts';
import {
  indexOfLeaf,
  placeOf,
  readEdge,
  readInclusionProof,
  type StoredTile,
} from '../../src/store/tree.ts';
import { verify } from '../../src/store/verify.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { headFile } from './old_chain.ts';
import { append, key, NEVER_LATE, rootOf, seal } from './seal_now.ts';
import { sealed as oldLog, signer } from './sealed_log.ts';
import { alone } from './verified.ts';
import { type World, world } from './world.ts';

aloneOnItsServer();
const GATE = 77;

/** A superuser, for whom no trigger holds. */
async function attacker(w: World): Promise<Db> {
  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  await root.unsafe(
    ['log_tiles', 'checkpoints', 'events']
      .map((table) => `alter table runledger.${table} disable trigger all`)
      .join(';'),
  );
  return root;
}

t.test('events that verify would reject for ever are not sealed', async (t) => {
  const w = await world(t);
  const root = await attacker(w);
  const sealer = createSealer(key);
  const id = 'fabcdef0-0000-4000-8000-000000000001';
  const put = (version: number, type: string, at: string, facts = '{"name": "x"}', schema = 1) =>
    root.unsafe(`insert into runledger.events (stream, version, type, schema, at, generation, facts)
      values ('${id}', ${version}, '${type}', ${schema}, ${at}, 1, '${facts}')`);
  const created = 'account.created';
  const year = "now() + interval '1 year'";
  const rejected = async (says: RegExp) => {
    await append(w.db, 1);
    await t.rejects(sealer.seal(w.web), { message: says });
    t.match(sealer.problem(), says);
    t.notMatch(sealer.problem(), /\n/);
    await root`delete from runledger.events where stream = ${id}`;
    t.match(await sealer.seal(w.web), [{ number: Number }]);
    t.equal(sealer.problem(), null);
  };
  await put(1, 'ju\nnk', 'now()');
  await rejected(
    /^an event .*: the facts of fabcdef0-\S+ version 1 \(ju\\u000ank\) .*no such event/,
  );
  await put(1, created, 'now()', '{"name": "x"}', 99);
  await rejected(/fabcdef0-\S+ version 1 .* no such event: account.created, schema 99/);
  await put(1, created, year);
  await rejected(/fabcdef0-\S+ version 1 is of a time that is still to come/);
  await put(1, 'payloads.purged', 'now()');
  await rejected(/fabcdef0-\S+ version 1 \(payloads.purged\) are not of their schema/);
  await put(1, created, 'now()');
  await put(3, created, 'now()');
  await rejected(/fabcdef0-\S+ has version 3, and no version 2 of the same thing$/);
  await put(1, created, 'now()');
  await put(2, 'key.revoked', 'now()', '{}');
  await rejected(/fabcdef0-\S+ has version 2, and no version 1 of the same thing$/);
  await put(1, 'submission.accepted', 'now()');
  await rejected(
    /fabcdef0-\S+ has a version 1 \(submission.accepted\) of a type that its stream cannot have$/,
  );
  await root`alter table runledger.events drop constraint events_version_check`;
  await put(0, created, 'now()');
  await rejected(/fabcdef0-\S+ has a version 0 \(account.created\) that no event has$/);
  const counts = '"submissions": 1, "payloads": 0, "size_bytes": 0';
  const last = `"last_id": "${id}"`;
  await put(
    1,
    'payloads.purged',
    'now()',
    `{"ended_before": "2999-01-01T00:00:00Z", ${counts}, ${last}}`,
  );
  await rejected(/the purge at \S+ names a time that was still to come/);
  // Its first version is in an earlier checkpoint, and its third before its second in the feed.
  await put(1, created, 'now()');
  await sealer.seal(w.web);
  await put(3, created, 'now()');
  await put(2, created, "now() - interval '3 hours'");
  t.match(await sealer.seal(w.web), [{ events: 2 }], 'nor is one that a clock dated back');
});

t.test('what is signed is the tree of the events, in several windows', async (t) => {
  const w = await world(t);
  await append(w.db, 700);
  t.match(await seal(w.web), [{ number: 1 }]);
  // More than a window, and one transaction that is more than a window by itself.
  await append(w.db, 30, 1000);
  await append(w.db, 1, 20_500);
  const sealer = createSealer(key);
  const done = await sealer.seal(w.web);
  t.same(
    done.map(({ events }) => events),
    [20_000, 10_000, 20_500],
  );
  t.same(await sealer.seal(w.web), [], 'without new events there is no checkpoint');
  t.equal(sealer.problem(), null);
  const last = (await lastCheckpoint(w.web))!;
  t.same(last.root, await rootOf(w.db, last.size));
  const note = parseNote(last.note);
  t.match(parseCheckpoint(note.text), { origin: key.origin, size: last.size });
  t.ok(signatureBy(note, key.signer.verifier));
  const sketch = (await lastSketch(w.web))!;
  t.ok(isSketchOf(verifierKeys(key), last, sketch.cells, sketch.signature));
  const [event] = await w.db<{ stream: string }[]>`
    select stream from runledger.events order by generation, xid, seq offset 12345 limit 1`;
  for await (const [entry] of readStream(w.web, event!.stream)) {
    const leaf = leafHash(entry!);
    const index = (await indexOfLeaf(w.web, placeOf(entry!), leaf))!;
    t.equal(index, 12345);
    const proof = await readInclusionProof(w.web, index, last.size);
    t.ok(provesInclusion({ index, size: last.size, leaf, proof, root: last.root }));
  }
});

t.test(
  'a transaction of more events than a window is sealed, also after others that wrote none',
  async (t) => {
    const w = await world(t);
    await append(w.db, 1);
    t.match(await seal(w.web), [{ number: 1 }]);
    for (let n = 0; n < 3; n++) await w.db`select pg_current_xact_id()`;
    await append(w.db, 1, 20_500);
    await append(w.db, 1);
    t.match(await seal(w.web), [{ events: 20_500 }, { events: 1 }]);
  },
);

t.test('a checkpoint stops below a running transaction', async (t) => {
  const w = await world(t);
  await seal(w.web);
  const slow = w.connect(w.database.url, 1);
  await slow`begin`;
  await append(slow, 1);
  await append(w.db, 1);
  t.same(await seal(w.web), [], 'events that were committed after it began have to wait, too');
  await slow`commit`;
  t.match(await seal(w.web), [{ events: 2 }]);
});

t.test('events that come while a checkpoint is made wait for the next call', async (t) => {
  const w = await world(t);
  await append(w.db, 20);
  await seal(w.web);
  // As on a busy service: there are new events whenever a checkpoint is stored.
  await w.db.unsafe(`
    create function public.keep_busy() returns trigger language plpgsql as $$
    begin
      if new.number < 9 then
        insert into runledger.events (stream, version, type, at, generation, facts)
        values (runledger.permanent_id(), 1, 'account.created', now(), 1, '{"name": "busy"}');
      end if;
      return new;
    end $$;
    create trigger keep_busy after insert on runledger.checkpoints for each row execute function public.keep_busy()`);
  await append(w.db, 30, 1000);
  t.match(await seal(w.web), [{ events: 20_000 }, { events: 10_001 }]);
  t.match(await seal(w.web), [{ events: 1 }]);
});

t.test('what a restored log goes on with is sealed after what came before', async (t) => {
  const w = await world(t);
  await seal(w.web);
  await append(w.db, 2);
  await w.db`insert into runledger.generations select max(generation) + 1, 1, now() from runledger.generations`;
  await w.db`
    insert into runledger.events (stream, version, type, at, generation, facts)
    select runledger.permanent_id(), 1, 'account.created', now(), runledger.generation(), '{"name": "restored"}'`;
  t.match(await seal(w.web), [{ events: 2 }, { events: 1 }]);
});

t.test('processes that seal at once make one sequence of checkpoints', async (t) => {
  const w = await world(t);
  const sealers = Array.from({ length: 4 }, () => createSealer(key));
  for (let round = 0; round < 5; round++) {
    await append(w.db, 30, 10);
    const done = await Promise.all(sealers.map((sealer) => sealer.seal(w.web)));
    t.equal(done.flat().length, 1);
  }
  t.same(
    sealers.map((sealer) => sealer.problem()),
    [null, null, null, null],
  );
  const last = (await lastCheckpoint(w.web))!;
  t.equal(last.number, 5);
  t.same(last.root, await rootOf(w.db, last.size));
});

t.test(
  'of two processes that insert the same checkpoint, one says that the other did',
  async (t) => {
    const w = await world(t);
    const root = await attacker(w);
    // Both have looked for an earlier row, and wait in the first index before either has inserted.
    await root.unsafe(`
    create function public.waits(bigint) returns bigint language plpgsql immutable as
      $$ begin perform pg_catalog.pg_advisory_xact_lock_shared(${GATE}); return $1; end $$;
    create index waits on runledger.checkpoints (public.waits(number));
    alter table runledger.checkpoints drop constraint checkpoints_pkey, drop constraint checkpoints_origin_size_key;
    alter table runledger.checkpoints add primary key (number), add unique (origin, size)`);
    await append(w.db, 30);
    await root`select pg_advisory_lock(${GATE})`;
    const sealers = Array.from({ length: 2 }, () => createSealer(key));
    const done = Promise.all(sealers.map((sealer) => sealer.seal(w.web)));
    const both = await eventually(async () => {
      const [row] = await root<{ waiting: number }[]>`
      select count(*)::integer as waiting from pg_locks
      where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`;
      return row!.waiting === 2;
    });
    t.ok(both, 'both wait');
    await root`select pg_advisory_unlock(${GATE})`;
    t.match((await done).flat(), [{ number: 1 }]);
    t.same(
      sealers.map((sealer) => sealer.problem()),
      [null, null],
    );
  },
);

t.test('a log without a key is not sealed, and says so', async (t) => {
  const w = await world(t);
  const sealer = createSealer(null);
  await t.rejects(sealer.seal(w.web), { message: 'RUNLEDGER_SEAL_KEY is not set' });
  t.equal(sealer.problem(), 'RUNLEDGER_SEAL_KEY is not set');
  t.equal(await lastCheckpoint(w.web), null);
});

const attacks: Record<string, { does(root: Db): Promise<unknown>; says: RegExp }> = {
  'a tile that is built on': {
    does: (root) =>
      root`update runledger.log_tiles set hashes = set_byte(hashes, 5, 255 - get_byte(hashes, 5)) where level = 0`,
    says: /the tiles do not give the root of checkpoint 1/,
  },
  'a tile that is gone': {
    does: (root) => root`delete from runledger.log_tiles`,
    says: /the tiles do not give the root of checkpoint 1/,
  },
  'a tile beyond the tree': {
    // Without the trigger it would be overwritten.
    does: (root) =>
      root.unsafe(`
      insert into runledger.log_tiles select 0, 2, sha256('x'), generation, xid, seq from runledger.log_tiles where level = 0 limit 1;
      alter table runledger.log_tiles enable always trigger only_grow`),
    says: /there are tiles beyond the newest checkpoint/,
  },
  'a root': {
    does: (root) => root`update runledger.checkpoints set root = sha256(root)`,
    says: /checkpoint 1 of .* is not signed by our key/,
  },
  'a note': {
    does: (root) => root`update runledger.checkpoints set note = replace(note, '— ', '— x')`,
    says: /checkpoint 1 of .* is not signed by our key/,
  },
  'a note that is none': {
    does: (root) => root`update runledger.checkpoints set note = 'hello'`,
    says: /checkpoint 1 of .* is not signed by our key/,
  },
  'the sketch': {
    does: (root) => root`update runledger.log_sketch set cells = set_byte(cells, 0, 1)`,
    says: /we did not sign the sketch of checkpoint 1/,
  },
  'a checkpoint that another key signed': {
    async does(root) {
      await root.unsafe(
        'delete from runledger.checkpoints; delete from runledger.log_tiles; delete from runledger.log_sketch',
      );
      await createSealer(createLogKey(Buffer.alloc(32, 8), key.origin)).seal(root);
    },
    says: /checkpoint 1 of .* is not signed by our key/,
  },
};

t.test('nothing is signed on top of what was tampered with', async (t) => {
  for (const [name, { does, says }] of Object.entries(attacks)) {
    const w = await world(t);
    await append(w.db, 300);
    await seal(w.web);
    await append(w.db, 1, 300);
    await does(await attacker(w));
    const before = await lastCheckpoint(w.web);
    const sealer = createSealer(key);
    await t.rejects(sealer.seal(w.web), { message: says }, name);
    t.match(sealer.problem(), says);
    t.same(await lastCheckpoint(w.web), before, 'and nothing was stored');
  }
});

t.test('a process remembers what it signed, and what it saw', async (t) => {
  const w = await world(t);
  await append(w.db, 300);
  const sealer = createSealer(key);
  await sealer.seal(w.web);
  const root = await attacker(w);
  // A rollback: everything behind the first checkpoint is undone, as by a restore of a backup.
  const [first] = await root<{ to_xid: string }[]>`select to_xid::text from runledger.checkpoints`;
  const kept = await root`select * from runledger.log_tiles`;
  const sketch = await root`select * from runledger.log_sketch`;
  await append(w.db, 10);
  await sealer.seal(w.web);
  await root.unsafe(`
    delete from runledger.checkpoints where number > 1;
    delete from runledger.log_tiles; delete from runledger.log_sketch;
    delete from runledger.events where xid >= '${first!.to_xid}'::xid8`);
  await root`insert into runledger.log_tiles ${root(kept)}`;
  await root`insert into runledger.log_sketch ${root(sketch)}`;
  await append(w.db, 20);
  await t.rejects(sealer.seal(w.web), {
    message: /a checkpoint over \d+ events was signed, and the newest one covers \d+/,
  });
  // Another process, which has not seen it, goes on: that is what witnesses are for. The first one still does not.
  await seal(w.web);
  await t.rejects(sealer.seal(w.web), { message: /checkpoint 2 does not extend it/ });
  t.match(sealer.problem(), /does not extend it/);
});

/** The same database, of which `before` may give another answer to a statement. */
const between = (
  db: Db,
  before: (text: string, answer: () => PromiseLike<unknown>) => unknown,
): Db =>
  (async (strings: TemplateStringsArray, ...values: never[]) => {
    const answer = () => db(strings, ...values);
    return (await before(strings.join('?'), answer)) ?? (await answer());
  }) as unknown as Db;

t.test('a look at whether the log can be sealed may take longer than a seal', async (t) => {
  const w = await world(t);
  await append(w.db, 300);
  const sealer = createSealer(key, () => NEVER_LATE);
  await sealer.seal(w.web);
  const old = new Map<string, unknown>();
  await sealer.check(
    between(w.web, async (text, answer) => {
      old.set(text, await answer());
    }),
  );
  await append(w.db, 10);
  let sealed: unknown[] = [];
  await sealer.check(
    between(w.web, async (text) => {
      if (/clock_timestamp/.test(text)) sealed = await sealer.seal(w.web);
    }),
  );
  t.match(sealed, [{ number: 2 }]);
  t.equal(sealer.problem(), null);
  const rolled_back = between(w.web, (text) => old.get(text));
  await t.rejects(sealer.check(rolled_back), {
    message: /a checkpoint over 31\d events was signed, and the newest one covers 30\d/,
  });
});

t.test('a process that was stopped signs nothing, and says why', async (t) => {
  const w = await world(t);
  const sealer = createSealer(key);
  await append(w.db, 1);
  sealer.stop('a witness knows another tree');
  await t.rejects(sealer.seal(w.web), { message: 'a witness knows another tree' });
  t.equal(sealer.problem(), 'a witness knows another tree');
  sealer.stop(null);
  t.match(await sealer.seal(w.web), [{ number: 1 }]);
  t.equal(sealer.problem(), null);
});

t.test('another key, or another name, goes on only from a key that is named', async (t) => {
  const w = await world(t);
  await append(w.db, 5);
  await seal(w.web);
  await append(w.db, 5);
  const seed = Buffer.alloc(32, 9);
  const before = [parseKey(keyText(key.signer.verifier))];
  await t.rejects(createSealer(createLogKey(seed)).seal(w.web), { message: /SEAL_KEYS_BEFORE/ });
  await t.rejects(createSealer(createLogKey(seed, key.origin)).seal(w.web), {
    message: /SEAL_KEYS_BEFORE/,
  });
  const changed = createLogKey(seed, key.origin, before);
  t.match(await createSealer(changed).seal(w.web), [{ number: 2 }], 'another key');
  await append(w.db, 5);
  const renamed = createLogKey(seed, 'example.com/log', verifierKeys(changed));
  t.match(await createSealer(renamed).seal(w.web), [{ number: 3 }], 'another name');
  const last = (await lastCheckpoint(w.web))!;
  t.equal(last.origin, 'example.com/log');
  t.same(last.root, await rootOf(w.db, last.size));
});

t.test('a repair restores what is derived, or begins under a new name', async (t) => {
  const w = await world(t);
  const why = { reason: 'a test', operator: 'me@here' };
  await append(w.db, 600);
  await seal(w.web);
  const root = await attacker(w);
  await root.unsafe('delete from runledger.log_tiles; delete from runledger.log_sketch');
  await t.rejects(seal(w.web), { message: /the tiles do not give the root/ });
  t.match(await repair(w.db, key, why), { origin: key.origin, before: null });
  t.match(await seal(w.web), [{ number: 2, events: 1 }]);
  const [guard] = await w.db<{ n: number }[]>`
    select count(*)::integer as n from pg_trigger where tgrelid = 'runledger.log_tiles'::regclass and tgenabled = 'A'`;
  t.equal(guard!.n, 2, 'and the triggers hold again');

  await root`update runledger.events set at = at + interval '1 s' where xid = (select min(xid) from runledger.events where type = 'account.created')`;
  await t.rejects(repair(w.db, key, why), {
    message: /do not give the root of checkpoint 2 .*RUNLEDGER_LOG_ORIGIN/,
  });
  t.same(await seal(w.web), [], 'and nothing was changed');
  const renamed = createLogKey(Buffer.alloc(32, 7), 'example.com/second');
  const { size } = (await lastCheckpoint(w.web))!;
  t.match(await repair(w.db, renamed, why), {
    origin: 'example.com/second',
    before: { origin: key.origin, size },
  });
  const sealer = createSealer(renamed);
  t.match(await sealer.seal(w.web), [{ number: 4, events: 1 }]);
  const last = (await lastCheckpoint(w.web))!;
  t.same(last.root, await rootOf(w.db, last.size));
  const [fact] = await w.db<{ facts: Record<string, unknown> }[]>`
    select facts from runledger.events where type = 'log.repaired' order by version desc limit 1`;
  t.match(fact!.facts, { ...why, before: { origin: key.origin, note: /^runledger\// } });
  await t.rejects(repair(w.db, key, why), { message: /was this log's name before/ });
});

t.test('a repair stores the leaves of a long detached run in several steps', async (t) => {
  const w = await world(t);
  await append(w.db, 10);
  await seal(w.web);
  const { size } = (await lastCheckpoint(w.web))!;
  const root = await attacker(w);
  await root.unsafe(`
    delete from runledger.log_tiles;
    insert into runledger.log_tiles (level, index, hashes, generation, xid, seq)
    select 0, i, decode(repeat('00', 256 * 32), 'hex'), 1, '1'::xid8, i from generate_series(0, 600) i;
    insert into runledger.log_gaps (first, count, partition) values (${size}, 600 * 256, 'events_2020_01');
    create table public.stored (tiles bigint);
    create function public.count_stored() returns trigger language plpgsql security definer as $$
      begin insert into public.stored select count(*) from added; return null; end $$;
    create trigger counted after insert on runledger.log_tiles referencing new table as added
      for each statement execute function public.count_stored();
    alter table runledger.log_tiles enable always trigger counted`);
  const renamed = createLogKey(Buffer.alloc(32, 7), 'example.com/second');
  const repaired = await repair(w.db, renamed, { reason: 'a test', operator: 'me@here' });
  t.equal(repaired.size, size + 600 * 256);
  const [stored] = await root<{ most: number; all: number }[]>`
    select max(tiles)::integer as most, sum(tiles)::integer as all from public.stored`;
  t.ok(stored!.all >= 600, `${stored!.all} tiles`);
  t.ok(stored!.most < 300, `${stored!.most} tiles in one statement`);
});

t.test('a repair appends no event that is too long for verify', async (t) => {
  const w = await world(t);
  await append(w.db, 10);
  await seal(w.web);
  const repaired = async () => {
    const { problems } = await verify(w.db, { policy: alone });
    const [row] = await w.db<{ events: number }[]>`
      select count(*)::integer as events from runledger.events where type = 'log.repaired'`;
    return { ...row!, too_long: problems.filter((problem) => /are longer than any/.test(problem)) };
  };
  const root = await attacker(w);
  const why = (reason: string) => ({ reason, operator: 'me@here' });
  for (const reason of ['x'.repeat(72_000), 'é'.repeat(2049)])
    await t.rejects(repair(w.db, key, why(reason)), {
      message: /^the reason has \d+ bytes, and may have 4096$/,
    });
  t.same(await repaired(), { events: 0, too_long: [] });
  for (const reason of ['\u0001'.repeat(4096), 'é'.repeat(2048)])
    t.match(await repair(w.db, key, why(reason)), { before: null });
  t.same(await repaired(), { events: 2, too_long: [] }, 'also where each byte takes six in JSON');

  await root`update runledger.checkpoints set note = note || ${'— x AAAAAAAA\n'.repeat(5000)}`;
  await root`update runledger.events set at = at + interval '1 s' where xid = (select min(xid) from runledger.events where type = 'account.created')`;
  const renamed = createLogKey(Buffer.alloc(32, 7), 'example.com/second');
  const { note } = (await lastCheckpoint(w.web))!;
  t.match(await repair(w.db, renamed, why('a test')), { before: { origin: key.origin } });
  t.same(await repaired(), { events: 3, too_long: [] });
  const [fact] = await w.db<{ note: string }[]>`
    select facts -> 'before' ->> 'note' as note from runledger.events where type = 'log.repaired' order by version desc limit 1`;
  const sha256 = createHash('sha256').update(note).digest('hex');
  t.equal(fact!.note, `${Buffer.byteLength(note)} bytes of SHA-256 ${sha256}`);
});

t.test(
  'web stores no checkpoint that would end sealing, or that a repair cannot undo',
  async (t) => {
    const w = await world(t);
    await append(w.db, 10);
    await seal(w.web);
    const last = (await lastCheckpoint(w.web))!;
    await append(w.db, 1);
    const tile = (await readEdge(w.web, last.size)).find(({ level }) => level === 0)!;
    const grown = { ...tile, hashes: Buffer.concat([tile.hashes, Buffer.alloc(32, 1)]) };
    const put = async (
      change: object,
      place: object = {},
      tiles: readonly StoredTile[] = [grown],
    ) => {
      const [here] = await w.db<{ to_xid: string }[]>`
        select pg_snapshot_xmin(pg_current_snapshot())::text as to_xid`;
      await putCheckpoint(w.web, {
        checkpoint: { origin: last.origin, size: last.size + 1, root: Buffer.alloc(32) },
        number: last.number + 1,
        sealed_at: new Date(),
        note: 'no note',
        place: { generation: last.generation, ...here!, ...place },
        tiles,
        sketch: Buffer.alloc(8),
        sketch_signature: Buffer.alloc(64),
        ...change,
      });
    };
    const to_come = { message: /ends at a place in the feed that is still to come/ };
    await t.rejects(put({}, { to_xid: '18446744073709551615' }), to_come);
    await t.rejects(put({}, { generation: last.generation + 1, to_xid: '3' }), to_come);
    await t.rejects(put({}, { to_xid: '3' }), { message: /ends before the one before it/ });
    await t.rejects(put({ sealed_at: new Date(Date.now() + 3_600_000) }), {
      message: /is of a time that is still to come/,
    });
    await t.rejects(put({ note: 'x'.repeat(4097) }), {
      message: /the note of checkpoint 2 is too/,
    });
    const covers = { message: /covers \d+ events, and the tiles have \d+/ };
    await t.rejects(put({}, {}, []), covers);
    const size = 2 ** 50;
    await t.rejects(put({ checkpoint: { ...last, size } }), covers);
    t.match(await seal(w.web), [{ number: 2, events: 1 }]);

    const next = { number: 3, checkpoint: { ...last, size: last.size + 2 } };
    const edge = (await readEdge(w.web, last.size + 1)).find(({ level }) => level === 0)!;
    const twice = { ...edge, hashes: Buffer.concat([edge.hashes, Buffer.alloc(32, 1)]) };
    await append(w.db, 1);
    await put(next, {}, [twice]);
    await t.rejects(seal(w.web), { message: /is not signed by our key/ });
    const renamed = createLogKey(Buffer.alloc(32, 7), 'example.com/second');
    await repair(w.db, renamed, { reason: 'a test', operator: 'me@here' });
    t.match(await createSealer(renamed).seal(w.web), [{ number: 5 }], 'a repair undoes the rest');
  },
);

t.test(
  'after a clock that ran ahead, a new name waits like the old one, and says so',
  async (t) => {
    const w = await world(t);
    await append(w.db, 10);
    await seal(w.web);
    const root = await attacker(w);
    const ahead = (minutes: number) =>
      root`update runledger.checkpoints set sealed_at = clock_timestamp() + make_interval(mins => ${minutes})`;
    await append(w.db, 5);
    const renamed = createLogKey(Buffer.alloc(32, 7), 'example.com/second', [key.signer.verifier]);
    const why = { reason: 'a test', operator: 'me@here' };
    const says =
      /^the clock of this process is (10|60) minutes behind the time of checkpoint 1: set it right, or wait until/;
    for (const minutes of [10, 60]) {
      await ahead(minutes);
      for (const one of [key, renamed]) {
        const sealer = createSealer(one);
        const error = await sealer.seal(w.web).catch((error: Error) => error);
        t.ok(error instanceof CannotSeal, `${one.origin}: ${error}`);
        t.match(sealer.problem(), says, 'health has it');
      }
      const error = await repair(w.db, renamed, why).catch((error: Error) => error);
      t.ok(error instanceof CannotSeal, `repair: ${error}`);
      t.match(error, { message: says });
    }
    t.match(await lastCheckpoint(w.web), { number: 1 }, 'nothing was stored');
    t.match(
      await repair(w.db, key, why),
      { before: null },
      'a repair of the tiles alone may be made',
    );
    await ahead(4);
    t.match(await repair(w.db, renamed, why), { before: { origin: key.origin } });
    t.match(await createSealer(renamed).seal(w.web), [{ number: 3 }]);
  },
);

t.test('a repair does not keep a place that is still to come', async (t) => {
  const w = await world(t);
  await append(w.db, 10);
  await seal(w.web);
  const root = await attacker(w);
  await root`update runledger.checkpoints set note = 'x', to_xid = '18446744073709551615'`;
  await append(w.db, 5);
  const renamed = createLogKey(Buffer.alloc(32, 7), 'example.com/second');
  await repair(w.db, renamed, { reason: 'a test', operator: 'me@here' });
  const { size } = (await lastCheckpoint(w.web))!;
  await append(w.db, 3);
  t.match(await createSealer(renamed).seal(w.web), [{ number: 3, events: 4, size: size + 4 }]);
  const last = (await lastCheckpoint(w.web))!;
  t.same(last.root, await rootOf(w.db, last.size));
});

t.test('cosignatures are kept once, of checkpoints that there are', async (t) => {
  const w = await world(t);
  await append(w.db, 1);
  await seal(w.web);
  await append(w.db, 1);
  const { size } = (await seal(w.web))[0]!;
  const put = (size: number, line: string) => w.web`
    select runledger.put_cosignature(${key.origin}, ${size}, 'w+00000000', now(), ${line})`;
  const line = (byte: number) =>
    signatureLine({ name: 'w', id: '00000000', bytes: Buffer.alloc(72, byte) });
  await put(size, line(1));
  await put(size, line(2));
  await put(size + 1, line(3));
  await w.web`select runledger.put_cosignature(${key.origin}, ${size}, 'x', now(), 'no signature')`;
  const last = (await lastCheckpoint(w.web))!;
  t.same(last.cosignatures, [line(1), 'no signature']);
  // A superuser can change the note, too.
  t.equal(noteWithCosignatures({ ...last, note: 'no note' }), 'no note');
  t.equal(noteWithCosignatures(last), `${last.note}${line(1)}`);
  const [row] = await w.db<{ n: number }[]>`
    select count(*)::integer as n from runledger.cosignatures`;
  t.equal(row!.n, 2);
});

t.test('a login of web cannot store more cosignatures than sealing can read', async (t) => {
  const w = await world(t);
  await append(w.db, 1);
  const { size } = (await seal(w.web))[0]!;
  const put = (witness: string, line: string) => w.web`
    select runledger.put_cosignature(${key.origin}, ${size}, ${witness}, now(), ${line})`;
  await t.rejects(put('w', 'x'.repeat(1025)), { code: '23514' });
  await t.rejects(put('x'.repeat(1025), 'line'), { code: '23514' });
  await put('long', 'x'.repeat(1024));
  for (let n = 0; n < MOST_COSIGNATURES + 5; n++) await put(`w${n}`, 'line');
  t.equal((await lastCheckpoint(w.web))!.cosignatures.length, MOST_COSIGNATURES);
  await append(w.db, 1);
  const [next] = await seal(w.web);
  await w.web`select runledger.put_cosignature(${key.origin}, ${next!.size}, 'w0', now(), 'line')`;
  t.same((await lastCheckpoint(w.web))!.cosignatures, ['line'], 'each checkpoint has room');
});

t.test(
  'a ledger with the old chain is sealed from its start, and old heads still check',
  async (t) => {
    const { w, head } = await oldLog(t);
    const { events } = (await w.db`select count(*)::integer as events from runledger.events`)[0]!;
    t.match(await seal(w.web), [{ number: 1, events }]);
    const report = await verify(w.db, { head, signers: [signer.name] });
    t.match(report.seals!.head, { proven: true });
    t.same(await headFile(w.db), head, 'and nothing is added to the chain');
  },
);
