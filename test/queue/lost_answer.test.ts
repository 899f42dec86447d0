/** A fetch starts the executions of its jobs: here its answer is lost on the way to the worker. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { uuidv7 } from '../../src/domain/ids.ts';
import { freshDatabase } from '../support/database.ts';
import { nothingIsLeft, overlaps, silentAttempts, startFleet, withoutSilence } from './fleet.ts';
import { losing } from './losing.ts';

const newId = () => uuidv7(Date.now(), randomBytes(10));

for (const how of ['cut', 'silent'] as const) {
  t.test(
    `a fetch's answer is lost (${how}): its executions run once, and the loss is no death`,
    async (t) => {
      const { url, urls } = await freshDatabase(t);
      const fleet = await startFleet(t, { url });
      const way = await losing(t, urls.worker);
      await fleet.worker({ url: way.url });
      const beside = await fleet.submit('sleep 8000');
      await fleet.begun(beside);

      const id = newId();
      way.lose(id, how);
      await fleet.submit('sleep 10', { id });
      const record = await fleet.ended(id);
      t.equal(way.lost(), 1);
      const events = await fleet.events(id);
      const silent = silentAttempts(events);
      const [first, second] = [1, 2, 3, 4, 5, 6].filter((attempt) => !silent.has(attempt));
      t.match(record, { verdict: 'AC', attempts: 2 + silent.size });
      t.match(
        withoutSilence(events).map(({ type, facts }) => ({ type, ...facts })),
        [
          { type: 'submission.accepted' },
          { type: 'execution.started', attempt: first },
          { type: 'execution.lost', attempt: first, reason: 'answer_lost', counts: false },
          { type: 'execution.started', attempt: second },
          { type: 'submission.completed', attempt: second },
        ],
      );
      const beside_record = await fleet.ended(beside);
      const beside_silent = silentAttempts(await fleet.events(beside));
      t.match(
        beside_record,
        { verdict: 'AC', attempts: 1 + beside_silent.size },
        'the other execution goes on',
      );
      const runs = fleet.runs();
      const isSilent = (run: (typeof runs)[number]) =>
        (run.id === id ? silent : beside_silent).has(run.attempt);
      t.same(
        runs
          .filter((run) => run.event === 'begin' && !isSilent(run))
          .map((run) => run.id)
          .sort(),
        [beside, id].sort(),
      );
      t.same(overlaps(runs), []);
      await nothingIsLeft(t, fleet);
    },
  );
}
