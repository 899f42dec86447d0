/** A receipt from a tree of ten million leaves: which rows it reads, how long it takes, and that it is right. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { entryOf, type LogEvent, parseEntry } from '../../src/proof/entry.ts';
import { createLogKey, verifierKeys } from '../../src/proof/log_key.ts';
import { HASH_BYTES, leafHash, rootOfComplete } from '../../src/proof/merkle.ts';
import { keyText, parseNote } from '../../src/proof/note.ts';
import { parsePolicy } from '../../src/proof/policy.ts';
import { checkReceipt } from '../../src/proof/receipt_check.ts';
import { TILE_WIDTH, type Tile, Tiles } from '../../src/proof/tiles.ts';
import { lastCheckpoint, signedNote } from '../../src/store/checkpoints.ts';
import { putCosignature } from '../../src/store/cosignatures.ts';
import { readRange } from '../../src/store/entries.ts';
import { createReceipts } from '../../src/store/receipts.ts';
import { createResults } from '../../src/store/results.ts';
import { key, seal } from './seal_now.ts';
import { witnesses } from './verified.ts';
import { idOf, outcome, start, submission, type World, webhook, world } from './world.ts';

const LEAVES = 10_000_000;
const ROUNDS = 10;
const POLICY = parsePolicy(`log ${keyText(key.signer.verifier)}\nquorum none\n`);

async function scene(t: { teardown(work: () => unknown): void }, submissions: number) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const ids: string[] = [];
  for (let n = 0; n < submissions; n++) {
    const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    ids.push(id);
  }
  return { w, ids, digest };
}

const ALL = { generation: 1, from_xid: '0', to_xid: '18446744073709551615' };

async function entriesOf(db: Db): Promise<{ event: LogEvent; leaf: Buffer }[]> {
  const entries = [];
  for await (const some of readRange(db, ALL))
    for (const entry of some) entries.push({ event: parseEntry(entry), leaf: leafHash(entry) });
  return entries;
}

t.test('the leaf that SQL computes for one event is that of its canonical bytes', async (t) => {
  const { w } = await scene(t, 2);
  const rows = await w.db<{ leaf: Buffer }[]>`
    select runledger.leaf_of(stream, version, type, schema, at, generation, xid, seq, facts) as leaf
    from runledger.events order by generation, xid, seq`;
  const entries = await entriesOf(w.db);
  t.equal(rows.length, entries.length);
  t.same(
    rows.map(({ leaf }) => leaf.toString('hex')),
    entries.map(({ event }) => leafHash(entryOf(event)).toString('hex')),
  );
});

t.test('a receipt ends before what an account must not learn, and is proven', async (t) => {
  const { w, digest } = await scene(t, 0);
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const ended = async () => {
    const given = submission({ webhook: webhook() });
    const id = idOf(await submit({ secret_digest: digest, submission: given }));
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    return id;
  };
  const attempted = async (id: string, n: number, outcome: string, next: object) => {
    const none = { status: null, retry_after_ms: null, answer_bytes: 0, answer_cut: false };
    const facts = { outcome, detail: 'why', address: null, ...none, duration_ms: 1 };
    const [row] = await w.db`
      select runledger.append_delivery_attempt(${id}, ${n}, ${JSON.stringify(facts)}::text::jsonb,
        ${JSON.stringify(next)}::text::jsonb) as appended`;
    t.equal(row!['appended'], 'end' in next ? next.end : 'waiting');
  };
  const seen = async (id: string) => {
    await seal(w.web);
    const found = await createReceipts(w.web).read(digest, id);
    if (found.kind !== 'found') throw new Error(found.kind);
    t.same(checkReceipt(found.receipt, { policy: POLICY, record: null }).problems, []);
    const events = found.receipt.events.map(({ entry }) => Buffer.from(entry, 'base64'));
    t.same(
      events.filter((entry) => /root@|dns_failed|blocked/.test(entry.toString())),
      [],
    );
    return events.slice(3).map((entry) => parseEntry(entry).type);
  };
  const again = { retry_in_ms: 1, counts: true };
  for (const outcome of ['dns_failed', 'blocked_address']) {
    const id = await ended();
    await attempted(id, 0, 'refused_status', again);
    await attempted(id, 1, outcome, again);
    await attempted(id, 2, 'delivered', { end: 'delivered' });
    t.same(await seen(id), ['delivery.requested', 'delivery.attempted']);
  }
  const id = await ended();
  await attempted(id, 0, 'delivered', { end: 'delivered' });
  const whole = ['delivery.requested', 'delivery.attempted', 'delivery.ended'];
  t.same(await seen(id), whole);
  const [replayed] = await w.db`
    select runledger.replay_delivery(${id}, 'k', ''::bytea, ''::bytea, 'root@example') as outcome`;
  t.equal(replayed!['outcome'], 'replayed');
  t.same(await seen(id), whole);
});

/** The first witness signs the newest checkpoint. */
async function cosign({ web }: World) {
  const last = (await lastCheckpoint(web))!;
  const witness = witnesses[0]!;
  await putCosignature(web, last, witness.verifier, witness.sign(parseNote(last.note).text));
  return witness;
}

t.test('a receipt leads to a checkpoint of the name that the log has now', async (t) => {
  const { w, ids, digest } = await scene(t, 1);
  await seal(w.web);
  await cosign(w);
  const renamed = createLogKey(Buffer.alloc(32, 9), 'example.com/log', verifierKeys(key));
  await w.key({ account: 'more' });
  t.equal((await seal(w.web, renamed)).length, 1);
  const found = await createReceipts(w.web).read(digest, ids[0]!);
  if (found.kind !== 'found') throw new Error(found.kind);
  const policy = parsePolicy(`log ${keyText(renamed.signer.verifier)}\nquorum none\n`);
  t.same(checkReceipt(found.receipt, { policy, record: null }).problems, []);
});

t.test(
  'the last checkpoint that a witness signed proves it, however long it is away',
  async (t) => {
    const { w, ids, digest } = await scene(t, 1);
    await seal(w.web);
    const witness = await cosign(w);
    for (let n = 0; n < 20; n++) {
      await w.key({ account: `more ${n}` });
      t.equal((await seal(w.web)).length, 1);
    }
    const quorum = `log ${keyText(key.signer.verifier)}\nwitness w ${keyText(witness.verifier)}\nquorum w\n`;
    const found = await createReceipts(w.web, [witness.verifier]).read(digest, ids[0]!);
    if (found.kind !== 'found') throw new Error(found.kind);
    const policy = parsePolicy(quorum);
    t.same(checkReceipt(found.receipt, { policy, record: null }).problems, []);
  },
);

t.test('a result is not held up while the tree is replaced', async (t) => {
  const { w, ids, digest } = await scene(t, 1);
  await seal(w.web);
  const results = createResults(w.web);
  const read = async () => {
    const found = await results.read(digest, ids[0]!);
    return found.kind === 'found' ? found.record.proof : undefined;
  };
  t.not(await read(), null);
  await w.db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(runledger.tree_lock())`;
    await tx`lock table runledger.log_tiles in access exclusive mode`;
    t.equal(await read(), null, 'it has no place for now');
  });
  t.not(await read(), null);
});

/**
 * Writes tiles with `LEAVES` leaves: the events of the log, those of each transaction in a tile of its own, far apart, and
 * leaves of nothing between them.
 */
async function writeTree({ db }: World): Promise<number> {
  const entries = await entriesOf(db);
  const transactions = [...Map.groupBy(entries, ({ event }) => event.xid).values()];
  const tiles = Math.ceil(LEAVES / TILE_WIDTH);
  const gap = Math.floor(tiles / (transactions.length + 1));
  const filler = Buffer.concat(Array(TILE_WIDTH).fill(leafHash(Buffer.from('filler'))));
  const last = filler.subarray(0, (LEAVES % TILE_WIDTH || TILE_WIDTH) * HASH_BYTES);
  // Where an event is, the other hashes are random, so that PostgreSQL stores the tile as it stores a real one.
  const real = new Map<number, Buffer>();
  transactions.forEach((events, n) => {
    const hashes = randomBytes(TILE_WIDTH * HASH_BYTES);
    for (const [at, { leaf }] of events.entries()) hashes.set(leaf, at * HASH_BYTES);
    real.set((n + 1) * gap, hashes);
  });
  const place = (index: number) => {
    // The tile before a real one has its place, as a repair stores what a detached month left.
    const n = Math.floor((index + 1) / gap) - 1;
    const first = transactions[Math.min(n, transactions.length - 1)]?.[0]?.event;
    if (!first) return { generation: 0, xid: 1n, seq: BigInt(index) };
    const isReal = n < transactions.length && index <= (n + 1) * gap;
    return { generation: 1, xid: first.xid, seq: isReal ? first.seq : 10n ** 12n + BigInt(index) };
  };
  const leaves = Array.from({ length: tiles }, (_, index) => place(index));
  const list = (of: (one: (typeof leaves)[number]) => unknown) => `{${leaves.map(of)}}`;
  const put = ({ level, index, hashes }: Tile) => {
    const at = level === 0 ? leaves[index]! : null;
    return db`insert into runledger.log_tiles values (${level}, ${index}, ${hashes}, ${at?.generation ?? null},
      ${at ? String(at.xid) : null}::text::xid8, ${at ? String(at.seq) : null}::text::bigint)`;
  };
  // Before the others: of two rows with equal places, an index gives the newer one first.
  for (const [index, hashes] of real) await put({ level: 0, index, hashes });
  await db`
    insert into runledger.log_tiles (level, index, hashes, generation, xid, seq)
    select 0, n - 1, ${filler}, g, x, s
    from unnest(${list(({ generation }) => generation)}::text::smallint[], ${list(({ xid }) => xid)}::text::xid8[],
      ${list(({ seq }) => seq)}::text::bigint[]) with ordinality p(g, x, s, n)
    where n - 1 <> all (${`{${[...real.keys(), tiles - 1]}}`}::text::bigint[])`;
  const edge: Tile[] = [{ level: 0, index: tiles - 1, hashes: last }];
  await put(edge[0]!);

  const root = rootOfComplete(filler);
  let nodes = Array.from({ length: Math.floor(LEAVES / TILE_WIDTH) }, (_, index) =>
    real.has(index) ? rootOfComplete(real.get(index)!) : root,
  );
  for (let level = 1; nodes.length > 0; level++) {
    const above: Buffer[] = [];
    for (let index = 0; index * TILE_WIDTH < nodes.length; index++) {
      const hashes = Buffer.concat(nodes.slice(index * TILE_WIDTH, (index + 1) * TILE_WIDTH));
      const tile = { level, index, hashes };
      await put(tile);
      if (hashes.length === TILE_WIDTH * HASH_BYTES) above.push(rootOfComplete(hashes));
      edge.push(tile);
    }
    nodes = above;
  }
  const checkpoint = {
    origin: key.origin,
    size: LEAVES,
    root: new Tiles(edge).rootOf({ from: 0, to: LEAVES }),
  };
  await db`
    insert into runledger.checkpoints (number, origin, size, root, sealed_at, generation, to_xid, note)
    values (1, ${key.origin}, ${LEAVES}, ${checkpoint.root}, now(), 1,
      ${String(entries.at(-1)!.event.xid + 1n)}::text::xid8, ${signedNote(key, checkpoint)})`;
  return tiles;
}

t.test('ten million leaves', async (t) => {
  const { w, ids, digest } = await scene(t, 60);
  const tiles = await writeTree(w);
  await w.db`analyze runledger.log_tiles`;
  const web = w.connect(w.database.urls.web, 1);
  const receipts = createReceipts(web);
  const [backend] = await web<{ pid: number }[]>`select pg_backend_pid() as pid`;
  const took_ms: number[] = [];
  for (const id of ids) {
    const began = performance.now();
    const found = await receipts.read(digest, id);
    took_ms.push(performance.now() - began);
    if (found.kind !== 'found') throw new Error(found.kind);
    const report = checkReceipt(found.receipt, { policy: POLICY, record: null });
    t.equal(report.verdict, 'proven', report.problems.join());
    const { proof } = await recordOf(w, digest, id);
    t.same(proof, { index: found.receipt.events.at(-1)!.index, checkpoint: LEAVES });
  }

  // CPU times, because a busy machine makes the elapsed ones long.
  const [web_ms, postgres_ms] = [process.cpuUsage(), onCpu_ms(backend!.pid)] as const;
  for (let n = 0; n < ROUNDS; n++) for (const id of ids) await receipts.read(digest, id);
  const used = process.cpuUsage(web_ms);
  const calls = ROUNDS * ids.length;
  const web_each = (used.user + used.system) / 1000 / calls;
  const postgres_each = (onCpu_ms(backend!.pid) - postgres_ms) / calls;
  t.comment(
    `CPU of a receipt: ${web_each.toFixed(2)} ms here, ${postgres_each.toFixed(2)} ms in PostgreSQL`,
  );

  const rows = await rowsRead(w, async (db) => {
    await createReceipts(db).read(digest, ids[30]!);
  });
  t.comment(`${LEAVES} leaves in ${tiles} tiles; rows read for a receipt: ${JSON.stringify(rows)}`);
  took_ms.sort((a, b) => a - b);
  const [fastest, p50, slow] = [0, ids.length >> 1, ids.length - 2].map((n) =>
    took_ms[n]!.toFixed(2),
  );
  t.comment(
    `a receipt takes ${fastest} ms at least, ${p50} ms (p50), ${slow} ms (the second slowest of ${ids.length})`,
  );
  // Three leaves in three tiles, each with two tiles above it and one beside the path.
  t.ok(rows['log_tiles']! <= 16, `${rows['log_tiles']} tiles`);
  t.ok(rows['events']! <= 8, `${rows['events']} events`);
  t.ok(Object.values(rows).reduce((sum, n) => sum + n) <= 60, 'and little else');
});

/** The time that a process has had of a CPU. */
const onCpu_ms = (pid: number) =>
  Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

async function recordOf({ web }: World, digest: Uint8Array, id: string) {
  const found = await createResults(web).read(digest, id);
  if (found.kind !== 'found') throw new Error(found.kind);
  return found.record;
}

/** How many rows the work reads, by table; partitions count for their table. */
async function rowsRead({ db }: World, work: (db: Db) => Promise<void>) {
  return db.begin(async (tx) => {
    // Most tables are small here: after an ANALYZE the server would rather read them whole.
    await tx`set local enable_seqscan = off`;
    const counted = async () => {
      const rows = await tx<{ name: string; rows: number }[]>`
        select regexp_replace(relname, '_([0-9]{4}_[0-9]{2}|permanent|default)$', '') as name,
          sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
        from pg_stat_xact_user_tables where schemaname = 'runledger' group by 1`;
      return new Map(rows.map(({ name, rows }) => [name, rows]));
    };
    const before = await counted();
    await work(tx as unknown as Db);
    const after = await counted();
    const read = [...after].map(([name, n]) => [name, n - (before.get(name) ?? 0)] as const);
    return Object.fromEntries(read.filter(([, n]) => n > 0));
  });
}
