/** The task of one execution's job: what it answers, and what it leaves in the ledger. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { LanguageMissing } from '../../src/executor/language_missing.ts';
import { SandboxFault } from '../../src/executor/sandbox.ts';
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import { createLog } from '../../src/log.ts';
import type { Membership } from '../../src/queue/epoch.ts';
import { createExecuteTask, type Execute, LeaseLost } from '../../src/queue/execute_task.ts';
import { createRuns } from '../../src/queue/runs.ts';
import { createSlots } from '../../src/queue/slots.ts';
import { SMALL_ORDERS_BYTES } from '../../src/store/executions.ts';
import { type FetchedJob, fetchExecutions } from '../../src/store/jobs.ts';
import type { NewSubmission } from '../../src/store/submissions.ts';
import { aTest, judged, judgingOf } from '../store/a_set.ts';
import { idOf, outcome, submission, world } from '../store/world.ts';
import { inTime } from '../support/eventually.ts';

const log = createLog({ level: 'silent', process: 'test', to: 'stderr' });
type Test = { teardown(work: () => unknown): void };

type Scene = { slots?: number };

async function scene(t: Test, { slots: count = 2 }: Scene = {}) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { id: consumer_id, executions } = await w.consumer();
  const lost = new AbortController();
  const cut = new AbortController();
  const slots = createSlots({ count, prefetch_per_slot: 0, onFree: () => {} });
  const runs = createRuns();
  const free_at_complete: number[] = [];
  const sandbox: boolean[] = [];
  const losses: string[] = [];
  const given_up: number[] = [];
  const no_room: number[] = [];
  const membership: Membership = {
    consumer_id,
    executions: () => ({
      ...executions,
      complete(report) {
        free_at_complete.push(slots.free());
        return executions.complete(report);
      },
    }),
    lost: lost.signal,
  };
  const taskOf = (execute: Execute) =>
    createExecuteTask({
      slots,
      runs,
      execute,
      mayStart: () => true,
      cut: cut.signal,
      onSandbox: (works) => sandbox.push(works),
      log,
      observe: {
        phase() {},
        ended() {},
        lost(reason, _, ended) {
          losses.push(reason);
          given_up.push(ended);
        },
        noRoom: () => no_room.push(1),
      },
    });
  const run = (job: FetchedJob, execute: Execute = async () => outcome()) =>
    taskOf(execute)(job, membership);
  const submitted = async (change: Partial<NewSubmission> = {}) =>
    idOf(await submit({ secret_digest: digest, submission: submission(change) }));
  /** One submission, fetched as a worker does. */
  const fetched = async ({
    alone = false,
    ...change
  }: Partial<NewSubmission> & { alone?: boolean } = {}): Promise<FetchedJob> => {
    await submitted(change);
    if (alone)
      await w.db`update graphile_worker._private_jobs
        set payload = json_build_object('id', payload ->> 'id', 'alone', true) where locked_by is null`;
    const fetch = { consumer_id, epoch: 1, tasks: ['execute_python'], at_most: 1 };
    return (await fetchExecutions(w.worker, fetch))[0]!;
  };
  const events = async (id: string) =>
    w.db<{ type: string; facts: Record<string, unknown> }[]>`
      select type, facts from runledger.events where stream = ${id} order by version`;
  return {
    w,
    free_at_complete,
    consumer_id,
    executions,
    lost,
    cut,
    slots,
    runs,
    sandbox,
    losses,
    given_up,
    no_room,
    run,
    fetched,
    events,
  };
}

t.test('it runs and completes; the slot is free before the result is stored', async (t) => {
  const s = await scene(t, { slots: 1 });
  const job = await s.fetched();
  let free_while_running = -1;
  const running = s.run(job, async () => {
    free_while_running = s.slots.free();
    return outcome();
  });
  t.equal(await running, 'finished');
  t.same([free_while_running, s.free_at_complete], [0, [1]]);
  t.match((await s.events(job.submission_id)).at(-1), { type: 'submission.completed' });
});

t.test(
  'a cancelled submission: its run is ended, its job finished, and nothing reported',
  async (t) => {
    const s = await scene(t, { slots: 1 });
    const job = await s.fetched();
    const running = s.run(job, (_, signal) => {
      const { promise, reject } = Promise.withResolvers<ExecutionOutcome>();
      const fault = new SandboxFault('cancelled', 'the run was cancelled');
      signal.addEventListener('abort', () => reject(fault), { once: true });
      return promise;
    });
    t.equal(await s.w.cancel(job.submission_id), 'cancelled');
    t.same(s.runs.ids(0), [job.submission_id]);
    s.runs.cancel([job.submission_id]);
    t.equal(await running, 'finished');
    t.match((await s.events(job.submission_id)).at(-1), { type: 'submission.cancelled' });
    t.same([s.losses, s.sandbox, s.runs.ids(0), s.slots.free()], [[], [], [], 1]);
  },
);

const mustNotRun =
  (t: { fail(message: string): unknown }): Execute =>
  async () => {
    t.fail('it ran');
    return outcome();
  };

t.test('a stale job is finished and runs nothing', async (t) => {
  const s = await scene(t);
  const job = await s.fetched({ alone: true });
  t.equal(job.started, null);
  await s.w.db`update runledger.submissions set status = 'running' where id = ${job.submission_id}`;
  t.equal(await s.run(job, mustNotRun(t)), 'finished');
});

t.test('an order that cannot be read is given back, and not run', async (t) => {
  const s = await scene(t);
  const job = await s.fetched();
  const started = { ...job.started!, unreadable: new Error('there is no such test set') };
  t.equal(await s.run({ ...job, started }, mustNotRun(t)), 'finished');
  t.match((await s.events(job.submission_id)).at(-1), {
    type: 'execution.lost',
    facts: { reason: 'execution_failed', evidence: { fault: 'Error' } },
  });
});

const LARGE = Buffer.alloc(SMALL_ORDERS_BYTES + 1, 'x');

t.test('a large order is whole when it is run', async (t) => {
  const s = await scene(t);
  const job = await s.fetched({ stdin: LARGE });
  t.ok(job.started!.large);
  const alone = await s.fetched({ stdin: LARGE, alone: true });
  const seen: number[] = [];
  const execute: Execute = async ({ stdin }) => {
    seen.push(stdin.length);
    return outcome();
  };
  for (const one of [job, alone]) t.equal(await s.run(one, execute), 'finished');
  t.same(seen, [LARGE.length, LARGE.length]);
});

t.test('a large order whose lease is gone is not run', async (t) => {
  const s = await scene(t);
  const job = await s.fetched({ stdin: LARGE });
  t.equal(await s.w.cancel(job.submission_id), 'cancelled');
  t.equal(await s.run(job, mustNotRun(t)), 'finished');
  t.same([s.losses, s.sandbox, s.slots.free()], [[], [], 2]);
});

t.test('an execution whose large order the database rejects is released', async (t) => {
  const s = await scene(t);
  const job = await s.fetched({ stdin: LARGE });
  await s.w.db`revoke execute on function runledger.orders_of from runledger_worker`;
  t.equal(await s.run(job), 'finished');
  t.match((await s.events(job.submission_id)).at(-1), {
    type: 'execution.lost',
    facts: { reason: 'execution_failed', evidence: { fault: '42501' } },
  });
  t.same(s.sandbox, [], 'the sandbox works');
});

t.test('progress is stored while the first test still runs', async (t) => {
  const s = await scene(t);
  const judging = judgingOf({ tests: [aTest('1'), aTest('2')], stop: 'first' });
  const job = await s.fetched({ judging });
  const seen: unknown[] = [];
  await s.run(job, async (_, __, turns) => {
    turns!.onProgress(0, 2);
    while (seen.length === 0) {
      await wait(20);
      seen.push(...(await s.w.db`select done, total from runledger.progress`));
    }
    return outcome({ judged: judged() });
  });
  t.same(seen, [{ done: 0, total: 2 }]);
});

t.test('progress is stored while tests run, and goes with the end', async (t) => {
  const s = await scene(t);
  const judging = judgingOf({ tests: [aTest('1'), aTest('2')], stop: 'first' });
  const rows = () => s.w.db`select submission_id, attempt, done, total from runledger.progress`;
  const job = await s.fetched({ judging });
  const seen: unknown[] = [];
  const running = s.run(job, async (_, __, turns) => {
    while (seen.length === 0) {
      turns!.onProgress(1, 2);
      await wait(20);
      seen.push(...(await rows()));
    }
    return outcome({ judged: judged() });
  });
  t.equal(await running, 'finished');
  t.same(seen, [{ submission_id: job.submission_id, attempt: 1, done: 1, total: 2 }]);
  t.same([...(await rows())], []);
});

t.test('what it prints can be read while its program runs', async (t) => {
  const s = await scene(t);
  const job = await s.fetched();
  const of = { submission_id: job.submission_id, attempt: 1 };
  const outputs = () => s.runs.outputs((id) => id === job.submission_id);
  await s.run(job, async (_, __, watchers) => {
    t.same(outputs(), [], 'while it compiles');
    const peek = async () => null;
    watchers!.onRun(peek);
    t.same(outputs(), [{ ...of, peek }]);
    t.same(
      s.runs.outputs(() => false),
      [],
    );
    return outcome();
  });
  t.same(outputs(), []);
});

t.test('one that runs alone starts when every other has left', async (t) => {
  const s = await scene(t);
  const neighbour = await s.fetched();
  const end = Promise.withResolvers<ExecutionOutcome>();
  const first = s.run(neighbour, () => end.promise);
  const alone = await s.fetched({ alone: true });
  let neighbour_runs = true;
  let ran_beside = false;
  const executed = Promise.withResolvers<void>();
  const second = s.run(alone, async () => {
    ran_beside = neighbour_runs;
    executed.resolve();
    return outcome();
  });
  await Promise.race([executed.promise, wait(500)]);
  t.same(
    (await s.events(alone.submission_id)).map(({ type }) => type),
    ['submission.accepted'],
  );
  neighbour_runs = false;
  end.resolve(outcome());
  t.same(await Promise.all([first, second]), ['finished', 'finished']);
  t.equal(ran_beside, false);
  t.match((await s.events(alone.submission_id)).at(-1), { type: 'submission.completed' });
});

t.test('one that is cancelled while it waits to run alone keeps no slots', async (t) => {
  const s = await scene(t);
  const end = Promise.withResolvers<ExecutionOutcome>();
  const first = s.run(await s.fetched(), () => end.promise);
  const alone = await s.fetched({ alone: true });
  const second = s.run(alone, mustNotRun(t));
  t.equal(s.slots.free(), 0, 'nobody begins while it waits');
  t.equal(await s.w.cancel(alone.submission_id), 'cancelled');
  t.ok(s.runs.ids(0).includes(alone.submission_id), 'the worker asks whether it was cancelled');
  s.runs.cancel([alone.submission_id]);
  t.equal(await inTime(second, 'the end of the one that was cancelled'), 'finished');
  t.ok(s.slots.free() > 0);
  end.resolve(outcome());
  t.equal(await first, 'finished');
});

t.test('of two that run alone, the second goes back for another worker', async (t) => {
  const s = await scene(t);
  const [one, two] = [await s.fetched({ alone: true }), await s.fetched({ alone: true })];
  const end = Promise.withResolvers<ExecutionOutcome>();
  const first = s.run(one, () => end.promise);
  const second = s.run(two, mustNotRun(t));
  t.equal(await Promise.race([second, wait(60_000, 'it waits')]), 'returned');
  end.resolve(outcome());
  t.equal(await first, 'finished');
  t.equal(await s.run(two, async () => outcome()), 'finished', 'when it is fetched again');
});

t.test('a job that was not started goes back when the grace period is over', async (t) => {
  const s = await scene(t);
  const job = await s.fetched({ alone: true });
  s.cut.abort();
  t.equal(await s.run(job), 'returned');
  t.same(s.losses, []);
});

const withCode = (message: string, code: string) => Object.assign(new Error(message), { code });

t.test('a fault is no verdict: the execution is released for its reason', async (t) => {
  const s = await scene(t);
  const at = '/srv/runledger/store';
  const cases: [string, Error, boolean, object][] = [
    ['execution_failed', new Error(`out of memory in ${at}`), true, { fault: 'Error' }],
    ['execution_failed', withCode(`no ${at}`, at), true, { fault: 'unknown' }],
    ['launcher_died', new SandboxFault('launcher_lost', at), true, { fault: 'launcher_lost' }],
    ['database_away', new SandboxFault('deadline', 'killed'), false, {}],
    ['no_slot', new SandboxFault('no_room', `${at} is full`), false, { fault: 'no_room' }],
    ['no_slot', withCode(`write ${at}`, 'ENOSPC'), false, { fault: 'ENOSPC' }],
    ...['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM', 'ERR_WORKER_INIT_FAILED'].map(
      (fault): [string, Error, boolean, object] => [
        ...(['no_slot', withCode(`open ${at}`, fault), false, { fault }] as const),
      ],
    ),
    // A program that fills the machine stops nobody but itself.
    ['execution_failed', new SandboxFault('out_of_memory', at), true, { fault: 'out_of_memory' }],
  ];
  for (const [reason, error, counts, evidence] of cases) {
    const job = await s.fetched();
    t.equal(await s.run(job, () => Promise.reject(error)), 'finished', reason);
    const lost = (await s.events(job.submission_id)).at(-1);
    t.match(lost, { type: 'execution.lost', facts: { reason, counts } });
    t.same(lost?.facts['evidence'], evidence, 'a name alone: receipts show it');
    // Out of the way of the next one.
    await s.w
      .db`delete from graphile_worker._private_jobs where payload ->> 'id' = ${job.submission_id}`;
  }
  t.same(
    s.losses,
    cases.map(([reason]) => reason),
  );
  t.same(
    s.sandbox,
    Array(10).fill(false),
    'a fault of the sandbox, or a full disk, makes it pause',
  );
});

t.test('one that finds no room goes back at once, and waits in the queue', async (t) => {
  const s = await scene(t);
  const job = await s.fetched();
  // As after many attempts: the longest wait.
  await s.w.db`update runledger.submissions set attempts = 20 where id = ${job.submission_id}`;
  await s.w.db`update runledger.leases set attempt = 20 where submission_id = ${job.submission_id}`;
  const late = {
    ...job,
    started: { ...job.started!, order: { ...job.started!.order, attempt: 20 } },
  };
  const finds = () => Promise.reject(new SandboxFault('no_room', 'the disk is full'));
  t.equal(await s.run(late, finds), 'finished');
  const seen = await s.w.db`
    select s.status, (select count(*)::integer from runledger.leases) as leases,
      j.run_at - j.created_at > interval '9 seconds' as waits, j.run_at - j.created_at < interval '11 seconds' as comes
    from runledger.submissions s join graphile_worker._private_jobs j
      on j.payload ->> 'id' = s.id::text and j.locked_by is null where s.id = ${job.submission_id}`;
  t.same([...seen], [{ status: 'pending', leases: 0, waits: true, comes: true }]);
  t.same([s.losses, s.no_room], [['no_slot'], [1]]);
});

t.test('a submission that is given up for its failures is counted once', async (t) => {
  const s = await scene(t);
  const fetch = { consumer_id: s.consumer_id, epoch: 1, tasks: ['execute_python'], at_most: 1 };
  let job = await s.fetched();
  for (let death = 1; death <= 3; death += 1) {
    if (death > 1) [job] = (await fetchExecutions(s.w.worker, fetch)) as [FetchedJob];
    await s.run(job, () => Promise.reject(new Error('it fails')));
  }
  t.same(s.given_up, [0, 0, 1]);
});

t.test('one whose checker needs another language goes to a worker that has both', async (t) => {
  const s = await scene(t);
  const job = await s.fetched();
  const missing = new LanguageMissing('checker', 'java');
  t.equal(await s.run(job, () => Promise.reject(missing)), 'finished');
  t.match((await s.events(job.submission_id)).at(-1), {
    type: 'execution.lost',
    facts: {
      reason: 'no_slot',
      counts: false,
      evidence: { fault: 'LanguageMissing', language: 'java' },
    },
  });
  t.same([s.losses, s.sandbox], [['no_slot'], []], 'the worker goes on with others');
  const fetchedBy = async (...languages: string[]) => {
    const tasks = languages.map((language) => `execute_${language}`);
    const fetch = { consumer_id: s.consumer_id, epoch: 1, tasks, at_most: 9 };
    return (await fetchExecutions(s.w.worker, fetch)).map(({ submission_id }) => submission_id);
  };
  t.same(await fetchedBy('python'), []);
  t.same(await fetchedBy('java'), []);
  t.same(await fetchedBy('java', 'cpp', 'python'), [job.submission_id]);
});

t.test(
  'one that finds no slot in time is released, and so is one that a stop cuts off',
  async (t) => {
    const s = await scene(t, { slots: 1 });
    const end = Promise.withResolvers<ExecutionOutcome>();
    const first = s.run(await s.fetched(), () => end.promise);
    const prefetched = await s.fetched();
    t.equal(await s.run(prefetched), 'finished');
    t.match((await s.events(prefetched.submission_id)).at(-1), {
      facts: { reason: 'no_slot', counts: false },
    });
    s.cut.abort();
    end.reject(new Error('killed'));
    t.equal(await first, 'finished');
    t.same(s.losses, ['no_slot', 'shutdown']);
    t.same(s.sandbox, [], 'neither is a failure of the sandbox');
  },
);

t.test(
  'a result that the database rejects is sent again, and then its execution is released',
  async (t) => {
    const s = await scene(t);
    /** The next statements that append such an event are cancelled. */
    const cancelled = async (type: string, times: number) =>
      s.w.db.unsafe(`
      create sequence if not exists runledger.cancelled;
      select setval('runledger.cancelled', ${100 - times});
      create or replace function runledger.cancel_some() returns trigger language plpgsql as $$
      begin
        if nextval('runledger.cancelled') <= 100 then
          raise query_canceled;
        end if;
        return new;
      end $$;
      create trigger cancel_${times} before insert on runledger.events for each row
      when (new.type = '${type}') execute function runledger.cancel_some();`);
    const last = async ({ submission_id }: FetchedJob) => (await s.events(submission_id)).at(-1);
    const kept = await s.fetched();
    await cancelled('submission.completed', 1);
    t.equal(await s.run(kept), 'finished');
    t.match(await last(kept), { type: 'submission.completed' });
    t.same(s.losses, []);

    const given_up = await s.fetched();
    // Twice its end, and then its release.
    await cancelled('execution.lost', 3);
    t.equal(await s.run(given_up), 'finished');
    t.match(await last(given_up), {
      type: 'execution.lost',
      facts: { reason: 'execution_failed', evidence: { fault: '57014' } },
    });
    t.same([s.losses, s.sandbox], [['execution_failed'], [true, true]], 'the sandbox works');
  },
);

t.test('a statement that fails while it runs is a failure of the run', async (t) => {
  const s = await scene(t);
  const job = await s.fetched();
  const reading = async () => {
    await s.w.db`select 1 / 0`;
    return outcome();
  };
  t.equal(await s.run(job, reading), 'finished');
  t.match((await s.events(job.submission_id)).at(-1), {
    type: 'execution.lost',
    facts: { reason: 'execution_failed', evidence: { fault: '22012' } },
  });
  t.same(s.sandbox, [false]);
});

t.test('a lost lease makes it throw', async (t) => {
  const s = await scene(t);
  const refused = await s.fetched();
  const stolen = async () => {
    await s.executions.release([refused.submission_id], 'shutdown');
    return outcome();
  };
  await t.rejects(s.run(refused, stolen), LeaseLost, 'the report was refused');

  const gone = await s.fetched();
  const failing = async () => {
    await s.executions.release([gone.submission_id], 'shutdown');
    throw new Error('killed');
  };
  await t.rejects(s.run(gone, failing), LeaseLost, 'there was nothing to release');

  const dead = await s.fetched();
  s.lost.abort();
  await t.rejects(s.run(dead, mustNotRun(t)), LeaseLost, 'the consumer was declared dead');
});
