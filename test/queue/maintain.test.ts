/** Chores of web processes that have no test of their own elsewhere. */
import t from 'tap';
import { choresOf } from '../../src/queue/maintain.ts';
import { world } from '../store/world.ts';

t.test('all idempotency keys that are due are removed in one round', async (t) => {
  const w = await world(t);
  await w.key();
  await w.db`
    insert into runledger.idempotency (account_id, key, submission_id, request_digest, created_at)
    select a.id, gen_random_uuid(), gen_random_uuid(), '\\x00', now() - make_interval(hours => case when n > 5 then 26 else 24 end)
    from runledger.accounts a, generate_series(1, 25005) n`;
  const chores = choresOf({ pending_max_age_ms: 1_000, seal: null });
  const { run } = chores.find(({ name }) => name === 'idempotency')!;
  await run(w.web, new AbortController().signal);
  const [row] = await w.db`select count(*)::integer as left from runledger.idempotency`;
  t.same(row, { left: 5 });
});
