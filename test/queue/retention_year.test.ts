/** Retention by itself for more than a year: what is kept does not grow, and the log can be verified at any time. */
import t from 'tap';
import { setRetention } from '../../src/store/retention.ts';
import { seal } from '../store/seal_now.ts';
import type { World } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { days, keep, retainedLog, START_MS } from './retained_log.ts';

aloneOnItsServer();

t.test('the disk stays flat over 400 days, and the log stays complete', async (t) => {
  const s = await retainedLog(t);
  await setRetention(s.w.db, keep(10, 60), 'me');
  const sizes: number[] = [];
  for (let day = 0; day < DAYS; day++) {
    await s.goTo(START_MS + days(day));
    await s.runOne();
    await seal(s.w.web);
    const problem = await s.round();
    const log_problems = day % VERIFY_EVERY === 0 ? await s.logProblems() : [];
    if (problem !== null || log_problems.length > 0) t.same({ day, problem, log_problems }, {});
    if (day % 10 === 0) {
      await s.w.db.unsafe('vacuum');
      sizes.push(await sizeOf(s.w));
    }
    if (day % 100 === 90 || day === DAYS - 1) t.same(await s.problems(), [], `day ${day}`);
  }
  // From the hundredth day on there are two to three months of events, and ten days of bytes.
  const [first, ...later] = sizes.slice(10);
  t.ok(Math.max(...later) < first! * 1.2, `${first} bytes became ${later}`);
  t.equal(await s.count('payloads'), 2 * 11, 'today and the ten days before');
  const [removed] = await s.w.db`
      select count(*) >= 11 as year, count(*) = count(distinct partition) as once, bool_and(actor = 'service') as by_itself,
        (select min(m) from runledger.log_months() m) as oldest
      from runledger.audit_retention where type = 'log.detached'`;
  const kept_from = new Date(START_MS + days(DAYS - 1 - 60)).toISOString().slice(0, 7);
  t.same(removed, {
    year: true,
    once: true,
    by_itself: true,
    oldest: kept_from.replace('-', '_'),
  });
  const [left] = await s.w.db`
      select count(*)::integer as n from pg_class
      where relnamespace = to_regnamespace('runledger_detached') and relkind = 'r'`;
  t.equal(left!['n'], 0, 'what is sealed is dropped');
});

const DAYS = 400;
/** In days. RUNLEDGER_TEST_VERIFY_EVERY=1 costs a minute of processor time more: each verify checks all signatures again. */
const VERIFY_EVERY = Number(process.env['RUNLEDGER_TEST_VERIFY_EVERY'] ?? 7);

/** Without what grows by design: the tree, its checkpoints, and the events that say what was removed. */
async function sizeOf({ db }: World): Promise<number> {
  const [row] = await db<{ bytes: string }[]>`
    select sum(pg_total_relation_size(c.oid)) as bytes from pg_class c
    where c.relkind = 'r' and c.relnamespace in ('runledger'::regnamespace, to_regnamespace('runledger_detached'))
      and c.relname not in ('log_tiles', 'checkpoints', 'log_gaps', 'events_permanent')`;
  return Number(row!.bytes);
}
