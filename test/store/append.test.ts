import { randomUUID } from 'node:crypto';
import t from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { FEED_START, type FeedEvent, readFeed } from '../../src/store/feed.ts';
import { newId, seeded, seedOfRun, world } from './world.ts';

const append = (db: Db, stream: string, expected: number, types = ['account.created']) =>
  db`select runledger.append_events(${stream}, ${expected}, ${types}, ${types.map(() => '{"name": "n"}')}::text[]::jsonb[])`;

t.test('an append names the version that it expects', async (t) => {
  const { db } = await world(t);
  const stream = newId();
  await append(db, stream, 0, ['account.created', 'account.created']);
  await t.rejects(append(db, stream, 0), { code: 'RL409' }, 'the stream must be new');
  await t.rejects(append(db, stream, 1), { code: 'RL409' }, 'behind');
  await t.rejects(append(db, stream, 3), { code: 'RL409' }, 'ahead');
  await append(db, stream, 2);
  const rows =
    await db`select version from runledger.events where stream = ${stream} order by version`;
  t.same(
    rows.map((row) => row['version']),
    [1, 2, 3],
  );
});

t.test('50 writers on the same and on different streams, and a reader beside them', async (t) => {
  const w = await world(t);
  const seed = seedOfRun();
  t.comment(`RUNLEDGER_TEST_SEED=${seed}`);
  const streams = Array.from({ length: 40 }, () => newId());
  const shared = streams.slice(0, 5);
  const written = new Map<string, number[]>();
  const acknowledged = (stream: string, version: number) => {
    const versions = written.get(stream);
    if (versions) versions.push(version);
    else written.set(stream, [version]);
  };

  const writers = Array.from({ length: 50 }, async (_, n) => {
    const random = seeded(seed + n);
    const db = connect(w.database.url, { name: `writer ${n}`, max: 1 });
    for (let round = 0; round < 60; round++) {
      const stream = random.pick(random.next() < 0.5 ? shared : streams);
      const events = 1 + random.below(3);
      const slow = random.next() < 0.2;
      await db
        .begin(async (tx) => {
          // Takes a transaction id before it waits for any lock: that is what misleads naive readers.
          if (slow) await tx`select pg_current_xact_id()`;
          const [row] =
            await tx`select coalesce(max(version), 0)::integer as version from runledger.events where stream = ${stream}`;
          await append(
            tx as unknown as Db,
            stream,
            row!['version'],
            Array(events).fill('account.created'),
          );
          if (slow) await tx`select pg_sleep(${random.next() / 200})`;
          return row!['version'] as number;
        })
        .then(
          (version) => {
            for (let k = 1; k <= events; k++) acknowledged(stream, version + k);
          },
          (error: { code?: string }) => {
            if (error.code !== 'RL409') throw error;
          },
        );
    }
    await db.end();
  });

  const seen: FeedEvent[] = [];
  let position = FEED_START;
  const read = async () => {
    for await (const page of readFeed(w.db, position, 100)) {
      seen.push(...page.events);
      position = page.position;
    }
  };
  let done = false;
  const reading = (async () => {
    while (!done) await read();
  })();
  await Promise.all(writers);
  done = true;
  await reading;
  await read();

  const rows = await w.db<{ stream: string; version: number }[]>`
    select stream, version from runledger.events order by stream, version`;
  const inLog = Map.groupBy(rows, (row) => row.stream);
  for (const stream of streams) {
    const versions = (inLog.get(stream) ?? []).map(({ version }) => version);
    t.same(
      versions,
      versions.map((_, n) => n + 1),
      'no version is missing or double',
    );
    t.same(
      (written.get(stream) ?? []).toSorted((a, b) => a - b),
      versions,
      'what was acknowledged is there, and nothing else',
    );
  }
  t.equal(new Set(seen.map(({ seq }) => seq)).size, seen.length, 'no event was read twice');
  t.equal(seen.length, rows.length, 'none was missed');
  const next = new Map<string, number>();
  const disordered = seen.filter(({ stream, version }) => {
    const expected = (next.get(stream) ?? 0) + 1;
    next.set(stream, version);
    return version !== expected;
  });
  t.same(disordered, [], 'and each stream in order');
});

t.test(
  'a reader neither misses nor misorders a transaction that began earlier and commits later',
  async (t) => {
    const w = await world(t);
    const stream = newId();
    const early = w.connect(w.database.url, 1);
    let position = FEED_START;
    const all = async () => {
      const versions: number[] = [];
      for await (const page of readFeed(w.db, position)) {
        position = page.position;
        for (const event of page.events) if (event.stream === stream) versions.push(event.version);
      }
      return versions;
    };
    await early`begin`;
    await early`select pg_current_xact_id()`;
    await append(w.db, stream, 0, ['account.created', 'account.created']);
    t.same(
      await all(),
      [1, 2],
      'what is committed is read, though an older transaction still runs',
    );
    await append(early, stream, 2);
    await early`commit`;
    t.same(await all(), [3], 'version 3, which has the lower transaction id, comes after them');
  },
);

t.test('a reader finishes an earlier generation, and then starts the next', async (t) => {
  const w = await world(t);
  const stream = randomUUID().replace(/^./, 'f');
  await append(w.db, stream, 0);
  await w.db`insert into runledger.generations select max(generation) + 1, 1, now() from runledger.generations`;
  // As after a restore: the next event has a lower transaction id than the one before it.
  await w.db`insert into runledger.events (stream, version, type, at, generation, xid, facts)
    select ${stream}, 2, 'account.created', now(), max(generation), '5', '{"name": "n"}' from runledger.generations`;
  const versions: number[] = [];
  for await (const page of readFeed(w.db, FEED_START))
    versions.push(
      ...page.events.filter((event) => event.stream === stream).map(({ version }) => version),
    );
  t.same(versions, [1, 2]);
});
