import t from 'tap';
import { leafOf } from '../../src/domain/seal_chain.ts';
import { EVENT } from '../domain/golden.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { world } from './world.ts';

aloneOnItsServer();

t.test('SQL and this program hash an event alike', async (t) => {
  const { db } = await world(t);
  const [row] = await db`
    select runledger.event_leaf(${EVENT.stream}, ${EVENT.version}, ${EVENT.type}, ${EVENT.schema}::smallint,
      timestamptz '2000-01-01 00:00:00+00' + ${String(EVENT.at_us)}::bigint * interval '1 microsecond', ${EVENT.generation}::smallint,
      ${String(EVENT.xid)}::text::xid8, ${String(EVENT.seq)}::bigint, ${EVENT.facts}::text::jsonb) as leaf`;
  t.same(row!['leaf'], leafOf(EVENT));
});
