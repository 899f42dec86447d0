/** Large bodies of webhooks wait for each other, and accounts take turns. */
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import type { ResultRow } from '../../src/domain/record.ts';
import { bodiesInTurn } from '../../src/queue/bodies_in_turn.ts';

t.test('one body is made at a time, and accounts take turns', async (t) => {
  const made: string[] = [];
  let at_once = 0;
  const make = bodiesInTurn(async ({ id, account_id }) => {
    at_once += 1;
    t.equal(at_once, 1);
    await turn();
    at_once -= 1;
    if (id === 'fails') throw new Error('it cannot be made');
    made.push(`${account_id}${id}`);
    return Buffer.from(id);
  }, 100);
  const body = (account_id: string, id: string) => make({ account_id, id } as ResultRow);
  const all = [
    body('a', '1'),
    body('a', 'fails'),
    body('a', '2'),
    body('a', '3'),
    body('b', '1'),
    body('b', '2'),
  ];
  const ends = await Promise.allSettled(all);
  t.same(
    ends.map((end) => (end.status === 'fulfilled' ? String(end.value) : end.reason.message)),
    ['1', 'it cannot be made', '2', '3', '1', '2'],
  );
  t.same(made, ['a1', 'b1', 'a2', 'b2', 'a3']);
});
