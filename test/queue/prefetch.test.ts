/** A worker whose executions are short prefetches the next ones. */
import t from 'tap';
import { freshDatabase } from '../support/database.ts';
import { nothingIsLeft, startFleet } from './fleet.ts';

/** For what depends on the moment: it is tried again for this time. */
const TRIES_MS = 120_000;

t.test(
  'short executions are started several at a time, and no more run at once than there are slots',
  async (t) => {
    const { url, urls } = await freshDatabase(t);
    const fleet = await startFleet(t, { url, worker_url: urls.worker });
    await fleet.worker({ slots: 2 });
    t.ok(await startsAhead(fleet));
    const begun = new Set<string>();
    let most = 0;
    for (const { event, id, attempt } of fleet.runs()) {
      if (event === 'begin') begun.add(`${id}#${attempt}`);
      else begun.delete(`${id}#${attempt}`);
      most = Math.max(most, begun.size);
    }
    t.equal(most, 2);
    await nothingIsLeft(t, fleet);
  },
);

t.test(
  'a prefetched execution that finds no slot behind long ones is released, and the loss does not count',
  async (t) => {
    const { url, urls } = await freshDatabase(t);
    const fleet = await startFleet(t, { url, worker_url: urls.worker });
    await fleet.worker({ slots: 2 });
    // Perhaps nothing was prefetched at that moment: then try again.
    const until = performance.now() + TRIES_MS;
    for (;;) {
      t.ok(await startsAhead(fleet));
      const all = await Promise.all([
        fleet.submit('sleep 4000'),
        fleet.submit('sleep 4000'),
        ...Array.from({ length: 4 }, () => fleet.submit('sleep 0')),
      ]);
      const ended = await Promise.all(all.map((id) => fleet.ended(id)));
      t.same([...new Set(ended.map(({ verdict }) => verdict))], ['AC']);
      const losses = (await Promise.all(all.map((id) => fleet.events(id))))
        .flat()
        .filter(({ type }) => type === 'execution.lost');
      if (losses.length === 0 && performance.now() < until) continue;
      t.match(
        losses.map(({ facts }) => facts),
        losses.map(() => ({ reason: 'no_slot', counts: false })),
      );
      t.ok(losses.length > 0 && losses.length <= 4, `${losses.length} were released, once each`);
      break;
    }
    await nothingIsLeft(t, fleet);
  },
);

/** Keeps the worker busy with short executions until more were started at once than there are slots. */
async function startsAhead(fleet: Awaited<ReturnType<typeof startFleet>>): Promise<boolean> {
  const until = performance.now() + TRIES_MS;
  while (performance.now() < until) {
    const ids = await Promise.all(Array.from({ length: 30 }, () => fleet.submit('sleep 0')));
    await Promise.all(ids.map((id) => fleet.ended(id)));
    const [row] = await fleet.db<{ most: number }[]>`
      select max(n)::integer as most from (
        select count(*) as n from runledger.events
        where type = 'execution.started' and stream = any (${`{${ids.join(',')}}`}::text::uuid[]) group by at
      ) x`;
    if (row!.most > 2) return true;
  }
  return false;
}
