/** The canonical bytes of events as PostgreSQL's binary COPY really writes them, against what entry.ts defines. */
import t from 'tap';
import { type Db, isAway } from '../../src/db.ts';
import { BadEntry, entryOf, type LogEvent, parseEntry } from '../../src/proof/entry.ts';
import { leafHash, sha256 } from '../../src/proof/merkle.ts';
import { CopyReader, copyOut, readEntries, readStream } from '../../src/store/entries.ts';
import { throwsA } from '../proof/throws.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { world } from './world.ts';

aloneOnItsServer();

/** An event as it is inserted, with the facts as jsonb prints them, and the SHA-256 of the entry. */
const GOLDEN: { event: LogEvent; given: string; sha256: string }[] = [
  {
    given: '{"name": "acme"}',
    event: {
      ...{ stream: '018f0000-0000-7000-8000-000000000001', version: 1, type: 'account.created' },
      ...{ schema: 1, at_us: 0n, generation: 1, xid: 1n, seq: 1n, facts: '{"name": "acme"}' },
    },
    sha256: '028c26481c9c6a49c38d8f5c1a6224c7eaf33b51cd259beeb447661a619b0535',
  },
  {
    // Keys by length, then bytes; the last of equal keys; one space after each colon and comma.
    given: '{"zz":1,"a":{"y":[],"x":{}},"b" : [1,2 , "three"],"zz":null}',
    event: {
      ...{
        stream: 'f0000000-0000-4000-8000-000000000001',
        version: 2_147_483_647,
        type: 'tier.set',
      },
      ...{ schema: 32_767, at_us: 834_000_000_123_456n, generation: 32_767 },
      ...{ xid: 18_446_744_073_709_551_615n, seq: 9_223_372_036_854_775_807n },
      facts: '{"a": {"x": {}, "y": []}, "b": [1, 2, "three"], "zz": null}',
    },
    sha256: 'fccd48d01d4bc36c62d67c109eabbff10c9a3077c5fd885b4d0a9f7419f38f39',
  },
  {
    // Before 2000; text of several bytes a character, escapes, and what JSON may escape and jsonb does not.
    given:
      '{"ü": "\\u00fc\\u20ac\\ud83d\\ude00", "q": "\\" \\\\ \\/ \\n\\t\\u0001\\u007f", "": "</script>"}',
    event: {
      ...{ stream: '00000000-0000-0000-0000-000000000000', version: 7, type: 'größe.✓' },
      ...{ schema: 1, at_us: -1_000_001n, generation: 0, xid: 2n ** 63n, seq: -5n },
      facts: '{"": "</script>", "q": "\\" \\\\ / \\n\\t\\u0001\u007f", "ü": "ü€😀"}',
    },
    sha256: '43a6281bc909e034c0b5cb5462fd20fb67269cfea572ff6d704daa7d5cfe4fd7',
  },
  {
    // jsonb keeps numbers exactly, and their trailing zeros; exponents are written out.
    given: '{"n": [1e3, 1E-2, 1.50, -0, -0.0, 12345678901234567890.5, 1e400, 5e-324]}',
    event: {
      ...{ stream: 'ffffffff-ffff-ffff-ffff-ffffffffffff', version: 1, type: 'x', schema: -1 },
      ...{ at_us: 1n, generation: -1, xid: 3n, seq: 0n },
      facts: `{"n": [1000, 0.01, 1.50, 0, 0.0, 12345678901234567890.5, 1${'0'.repeat(400)}, 0.${'0'.repeat(323)}5]}`,
    },
    sha256: 'b91995b2e9438b644433800e26b4bbfab5ef89301a639ed54a532c0addce3c30',
  },
];

t.test('golden vectors', async (t) => {
  const w = await world(t, { strange_events: 'events of no type' });
  const root = w.connect(w.database.superuser_url, 1);
  for (const { given, event, sha256: digest } of GOLDEN) {
    const { stream, version, type, schema, at_us, generation, xid, seq } = event;
    await root`
      insert into runledger.events (stream, version, type, schema, at, generation, xid, seq, facts)
      values (${stream}, ${version}, ${type}, ${schema}, timestamptz '2000-01-01 00:00:00+00' + ${String(at_us)}::text::bigint * interval '1 microsecond',
        ${generation}, ${String(xid)}::text::xid8, ${String(seq)}::text::bigint, ${given}::text::jsonb)`;
    const rows = await all(readStream(w.web, stream));
    const entry = rows.at(-1)!;
    t.same(parseEntry(entry), event, type);
    t.same(entry, entryOf(event));
    t.equal(sha256(entry).toString('hex'), digest, type);
    const [leaf] = await root`
      select leaf from runledger.audit_leaves where stream = ${stream} and version = ${version}`;
    t.equal(leaf!['leaf'], leafHash(entry).toString('hex'), 'and the view for auditors agrees');
  }
});

async function all(batches: AsyncIterable<Buffer[]>): Promise<Buffer[]> {
  const entries: Buffer[] = [];
  for await (const batch of batches) entries.push(...batch);
  return entries;
}

/** A COPY of these tuples. */
const copyOf = (...tuples: Buffer[]) =>
  Buffer.concat([
    Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'),
    Buffer.alloc(8),
    ...tuples,
    Buffer.of(255, 255),
  ]);

t.test('a COPY is cut into entries wherever its chunks end', async (t) => {
  const entries = GOLDEN.map(({ event }) => entryOf(event));
  const copy = copyOf(...entries);
  for (const size of [1, 2, 7, 64, 1000, copy.length]) {
    const reader = new CopyReader();
    const found: Buffer[] = [];
    for (let at = 0; at < copy.length; at += size)
      found.push(...reader.take(copy.subarray(at, at + size)));
    reader.end();
    t.same(found, entries, `chunks of ${size} bytes`);
  }
});

t.test('a long row is joined once, however many chunks it comes in', async (t) => {
  const long = entryOf({ ...GOLDEN[0]!.event, facts: `{"x": "${'x'.repeat(2 ** 20)}"}` });
  const copy = copyOf(long);
  const reader = new CopyReader();
  const found: Buffer[] = [];
  const { concat } = Buffer;
  let joined = 0;
  Buffer.concat = (list, length) => {
    const all = concat(list, length);
    joined += all.length;
    return all;
  };
  t.teardown(() => {
    Buffer.concat = concat;
  });
  for (let at = 0; at < copy.length; at += 1000)
    found.push(...reader.take(copy.subarray(at, at + 1000)));
  Buffer.concat = concat;
  reader.end();
  t.same(found, [long]);
  t.ok(joined < 3 * copy.length, `${joined} bytes were joined`);
});

t.test('a COPY that is cut off, or is none, is an error', async (t) => {
  const copy = copyOf(entryOf(GOLDEN[0]!.event));
  for (const length of [0, 5, 19, 30, copy.length - 1]) {
    const reader = new CopyReader();
    reader.take(copy.subarray(0, length));
    throwsA(t, BadEntry, () => reader.end(), `${length} bytes`);
  }
  throwsA(t, BadEntry, () => new CopyReader().take(Buffer.alloc(30)), 'no COPY');
  const twice = new CopyReader();
  twice.take(Buffer.concat([copy, copy]));
  throwsA(t, BadEntry, () => twice.end(), 'two COPYs');
});

t.test('an error in a COPY is thrown, and the connection can be used again', async (t) => {
  const w = await world(t);
  const db = w.connect(w.database.url, 1);
  const failing = 'select 1 / (5000 - n) from generate_series(1, 6000) n';
  await t.rejects(all(readEntries(db, failing)), { code: '22012' });
  await t.rejects(all(readEntries(db, 'select 1 from nothing')), { code: '42P01' });
  t.match(await db`select 1 as one`, [{ one: 1 }]);
});

t.test('a caller may stop early, and a last row may be large', async (t) => {
  const w = await world(t);
  const db = w.connect(w.database.url, 1);
  const many = `select s.stream, version, type, schema, at, generation, xid, seq,
    jsonb_build_object('text', repeat('x', size)) as facts
    from (select * from runledger.events limit 1) e, (select runledger.permanent_id() as stream, size from generate_series(1, 3000) n, lateral (select 500 + n % 7) x(size)) s`;
  for await (const entries of readEntries(db, many)) {
    t.ok(entries.length > 0);
    break;
  }
  t.match(await db`select 1 as one`, [{ one: 1 }]);
  await db.begin(async (tx) => {
    for await (const _ of readEntries(tx as unknown as Db, many)) break;
    t.match(await tx`select 1 as one`, [{ one: 1 }], 'nor in a transaction');
  });
  const large = many.replace('3000', '1').replace('500 +', '300000 +');
  t.equal((await all(readEntries(db, large))).length, 1);
  t.match(await db`select 1 as one`, [{ one: 1 }], 'the socket is not left paused');
});

t.test('only numbers and uuids get into the text of a COPY', async (t) => {
  const w = await world(t);
  t.throws(() => readStream(w.web, "x' or true --"), { message: /not a uuid/ });
});

t.test('a query beside a COPY waits for its end', async (t) => {
  const w = await world(t);
  const pool = w.connect(w.database.url, 1);
  // postgres.js sends no second query to a connection before the first one is answered.
  await pool`select 0`;
  const answers: Promise<unknown>[] = [];
  const rows = 'select i::integer as n from generate_series(1, 200000) i';
  for await (const _ of readEntries(pool, rows)) answers.push(pool`select 1 as one`.execute());
  t.ok(answers.length > 0);
  for (const answer of await Promise.all(answers)) t.match(answer, [{ one: 1 }]);
  await t.rejects(readEntries(pool, 'select 1 / 0').next(), { code: '22012' });
  t.match(await pool`select 2 as two`, [{ two: 2 }], 'and after a COPY that failed');
});

t.test(
  'where the connection of a COPY is lost, the COPY fails, and this process goes on',
  async (t) => {
    const { db, database, connect } = await world(t);
    const copied = connect(database.url, 1);
    const root = connect(database.superuser_url, 1);
    await copied`select`;
    const [{ pid }] = (await copied`select pg_backend_pid() as pid`) as unknown as [
      { pid: number },
    ];
    const events = copyOut(
      copied,
      `select repeat('x', 100000) from generate_series(1, 1000) n where pg_sleep(0.01) is not null`,
    );
    t.ok((await events.next()).value);
    await root`select pg_terminate_backend(${pid}::integer)`;
    const rest = async () => {
      for await (const _ of events);
    };
    const failed = await rest().catch((error: unknown) => error);
    t.ok(isAway(failed), `${failed}`);
    await until(() =>
      copied`select`.then(
        () => true,
        () => false,
      ),
    );
    t.same(await copied`select 1 as n`, [{ n: 1 }], 'it connects again');
    t.same(await db`select 2 as n`, [{ n: 2 }]);
  },
);
