/**
 * A worker is killed at each step of an execution's way, and the ending is the same: one result, one terminal event,
 * nothing left over. What a step waits for is held by the test's own lock in the database, so that the kill falls where
 * it is meant to fall.
 *
 *   1 the start is on its way, before its locks     4 the run has ended, its result is on its way
 *   2 the start is on its way, behind a lock        5 the result is committed, the job is still there
 *   3 the program runs                              6 all is done
 *
 * (A job that was taken and not started is in test/queue/lease.test.ts.) A statement that waits for a lock goes on when
 * its client is dead, so at 1, 2 and 4 the dead worker's last word may still count: the ending is the same.
 */
import t from 'tap';
import type { Db } from '../../src/db.ts';
import {
  type Fleet,
  nothingIsLeft,
  overlaps,
  startFleet,
  type WorkerProcess,
} from '../queue/fleet.ts';
import { freshDatabase } from '../support/database.ts';

type Stage = { fleet: Fleet; worker: WorkerProcess; id: string };

type Step = {
  name: string;
  code: string;
  /** The worker begins after the lock is held, or the lock is held when its run has begun. */
  held: 'before' | 'in the run';
  /** Whose locks stop the worker short of the next step; null where nothing need be held. */
  hold: ((tx: Db, id: string) => Promise<unknown>) | null;
  /** The worker has come this far. */
  reached: (stage: Stage) => Promise<boolean>;
  attempts: number[];
};

const waitsForLock = async ({ fleet }: Stage, statement: string) => {
  const rows = await fleet.db`
    select from pg_stat_activity where wait_event_type = 'Lock' and query like ${`%${statement}%`}
      and datname = current_database() and application_name like 'runledger consumer %'`;
  return rows.length > 0;
};
const isRunning = async ({ fleet, id }: Stage) =>
  (await fleet.db`select from runledger.leases where submission_id = ${id}`).length > 0;
const isCompleted = async ({ fleet, id }: Stage) =>
  (await fleet.db`select from runledger.submissions where id = ${id} and status = 'completed'`)
    .length > 0;

/** Its first attempt runs until the lock is held, on a busy machine too. */
const LASTS = 'sleep 10000 10';

const STEPS: Step[] = [
  {
    name: '1 the start is on its way, before its locks',
    code: 'sleep 10',
    held: 'before',
    hold: (tx) => tx`lock table runledger.leases in access exclusive mode`,
    reached: (stage) => waitsForLock(stage, 'fetch_executions'),
    attempts: [1, 2],
  },
  {
    name: '2 the start is on its way, behind a lock',
    code: 'sleep 10',
    held: 'before',
    hold: (tx) => tx`select from runledger.account_usage for update`,
    reached: (stage) => waitsForLock(stage, 'fetch_executions'),
    attempts: [1, 2],
  },
  {
    name: '3 the program runs',
    code: 'sleep 6000',
    held: 'in the run',
    hold: null,
    reached: isRunning,
    attempts: [2],
  },
  {
    name: '4 the result is on its way',
    code: LASTS,
    held: 'in the run',
    hold: (tx, id) => tx`select from runledger.submissions where id = ${id} for key share`,
    reached: (stage) => waitsForLock(stage, 'complete_many'),
    attempts: [1, 2],
  },
  {
    name: '5 the result is committed, the job is still there',
    code: LASTS,
    held: 'in the run',
    hold: (tx, id) =>
      tx`select from graphile_worker._private_jobs where payload ->> 'id' = ${id} for key share`,
    reached: isCompleted,
    attempts: [1],
  },
  {
    name: '6 all is done',
    code: 'sleep 10',
    held: 'in the run',
    hold: null,
    reached: async (stage) =>
      (await isCompleted(stage)) && (await stage.fleet.leftovers())['jobs'] === 0,
    attempts: [1],
  },
];

for (const step of STEPS) {
  t.test(`killed at ${step.name}`, async (t) => {
    const { url } = await freshDatabase(t);
    // One login for all, so that the test may see what the worker's statements wait for.
    const fleet = await startFleet(t, { url });
    const id = await fleet.submit(step.code);
    const early = step.held === 'before' ? null : await fleet.worker();
    if (early) await fleet.begun(id);
    await holding(fleet, step, id, async () => {
      const worker = early ?? (await fleet.worker());
      const stage = { fleet, worker, id };
      while (!(await step.reached(stage))) await new Promise((wake) => setTimeout(wake, 5));
      worker.signal('SIGKILL');
      await worker.exited;
    });
    await fleet.worker();
    const record = await fleet.ended(id);
    t.match(record, { status: 'completed', verdict: 'AC' });
    t.ok(step.attempts.includes(record.attempts), `${record.attempts} attempts`);
    const terminal = (await fleet.events(id)).filter(({ type }) => type === 'submission.completed');
    t.equal(terminal.length, 1, 'one terminal event');
    t.same(overlaps(fleet.runs()), []);
    await nothingIsLeft(t, fleet);
  });
}

async function holding(
  fleet: Fleet,
  { hold }: Step,
  id: string,
  work: () => Promise<void>,
): Promise<void> {
  if (hold === null) return work();
  await fleet.db.begin(async (tx) => {
    await hold(tx as unknown as Db, id);
    await work();
  });
}
