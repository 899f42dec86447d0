/** Large events: what reads a log, or a month of it, holds some of them at a time. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { parseEntry } from '../../src/proof/entry.ts';
import { EntryPages } from '../../src/store/entry_pages.ts';
import { exportLog } from '../../src/store/export_log.ts';
import { repair } from '../../src/store/repair.ts';
import { detachMonth } from '../../src/store/retention.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { key, seal } from './seal_now.ts';
import { newId, world } from './world.ts';

aloneOnItsServer();
const MiB = 2 ** 20;

/** Rows with facts of `size` bytes, numbered by `seq`. */
const rowsOf = (sizes: string) => `
  select runledger.permanent_id() as stream, 1 as version, 'x'::text as type, 1::smallint as schema, now() as at,
    1::smallint as generation, '1'::xid8 as xid, seq, jsonb_build_object('x', repeat('x', size::integer)) as facts
  from unnest('${sizes}'::integer[]) with ordinality x(size, seq)`;

t.test('a page ends where it has its bytes, and nothing is left out', async (t) => {
  const w = await world(t);
  const small = Array.from({ length: 2000 }, () => 10);
  const sizes = [...small, ...Array.from({ length: 40 }, () => 20_000), ...small];
  const pages = new EntryPages(w.db, 100_000);
  const seen: bigint[] = [];
  const lengths: number[] = [];
  const next = (most?: number) =>
    pages.next(
      `select * from (${rowsOf(`{${sizes}}`)}) r where seq > ${seen.length} order by seq`,
      most,
    );
  for (let page = await next(3); page.length > 0; page = await next()) {
    const bytes = page.reduce((sum, { length }) => sum + length, 0);
    t.ok(bytes < 100_000 + 21_000, `${page.length} entries with ${bytes} bytes`);
    lengths.push(page.length);
    seen.push(...page.map((entry) => parseEntry(entry).seq));
  }
  t.same(
    seen,
    sizes.map((_, n) => BigInt(n + 1)),
  );
  t.equal(lengths[0], 3, 'no more than were asked for');
  t.ok(lengths.includes(5), 'large ones are few');
  t.ok(Math.max(...lengths) > 500, 'small ones are many');
});

const EVENTS = 240;

/** The most bytes of buffers that were in use at a time, beyond those before. */
async function heldBy(work: () => Promise<unknown>): Promise<number> {
  setFlagsFromString('--expose_gc');
  const collect = runInNewContext('gc') as () => void;
  // A collection frees the memory of buffers in the background.
  const held = async () => {
    collect();
    await wait(100);
    return process.memoryUsage().arrayBuffers;
  };
  const before = await held();
  let most = 0;
  let runs = true;
  const done = work().finally(() => {
    runs = false;
  });
  while (runs) most = Math.max(most, await held());
  await done;
  return most - before;
}

/** Events with a megabyte of facts each, in the month of that time. */
async function largeEvents(db: Db, at: Date): Promise<void> {
  const ids = Array.from({ length: EVENTS }, () => newId(at.getTime()));
  await db`
    insert into runledger.events (stream, version, type, at, generation, facts)
    select id, 1, 'submission.accepted', ${at}, 1, jsonb_build_object('x', repeat('x', ${MiB}::integer))
    from unnest(${`{${ids}}`}::text::uuid[]) id`;
}

t.test('large events are not held all at once', async (t) => {
  const w = await world(t, { strange_events: 'their facts are long texts' });
  const folder = await mkdtemp(join(tmpdir(), 'runledger-large-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const past = new Date(Date.now() - 70 * 86_400_000);
  await w.clock.set(past);
  await w.db`select runledger.ensure_partitions()`;
  await largeEvents(w.db, past);
  await seal(w.web);
  await w.clock.set(new Date());
  for (const [name, work] of [
    ['an export', () => exportLog(w.db, join(folder, 'log'))],
    ['a repair', () => repair(w.db, key, { reason: 'a test', operator: 'me@here' })],
    ['a detachment', () => detachMonth(w.db, past.toISOString().slice(0, 7).replace('-', '_'))],
  ] as const) {
    const held = await heldBy(work);
    t.ok(held < (EVENTS * MiB * 2) / 3, `${name} held ${Math.round(held / MiB)} of ${EVENTS} MiB`);
  }
});
