/**
 * Web, launcher, worker and PostgreSQL are killed, one after the other, at one step after the other of a submission with 50
 * tests and a checker. The record must be that of an undisturbed submission, but for attempts and times.
 *
 * At each step there is one submission. Web is killed first, which ends no execution; then the launcher, in the first
 * attempt; then the worker, in the second; then PostgreSQL, in the third. (A submission that kills three workers would end
 * in error.) A step is reached when the host sees the run in its box, or the compiler, or a statement that waits for the
 * test's own lock. A run waits for the test there, so no step can be missed, however busy the machine is.
 */
// needs: c, cpp
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Db } from '../../src/db.ts';
import { verify } from '../../src/store/verify.ts';
import { eventually } from '../support/eventually.ts';
import { descendants, survivors } from '../support/processes.ts';
import { leftovers } from './checks.ts';
import { COMPILERS, processesOf, runOf, type Stop, TESTS } from './judged_programs.ts';
import { type Ended, openScene, type Result, type Scene, until } from './judged_scene.ts';
import { CannotIsolate, type Worker } from './service.ts';

type Step = {
  name: string;
  stops: readonly Stop[];
  /** The lock that keeps the submission at this step. It is taken before it is submitted, or before its program ends. */
  lock?: { take: (tx: Db, id: string) => Promise<unknown>; before: 'submission' | 'end' };
  reached: (stage: Stage) => Promise<boolean>;
  /** Whose compile the step is. */
  slow_compile?: Stop['who'];
  /** The reasons of the losses, in order; where there are several, any of them. */
  losses: readonly (readonly string[])[];
};

type Stage = { scene: Scene; id: string; holder: Worker | null; consumer_id: string | null };

const FIRST: Stop = { who: 'program', test: 1 };
/**
 * Each worker is on a machine of its own, so nobody sees its process end. After 5 s without a heartbeat the free lock tells that
 * it died; but to a process that began to look after the worker's last heartbeat it tells nothing.
 */
const WORKER_LOST = ['worker_died', 'worker_silent'];
const BOTH_LOST = [['launcher_died'], WORKER_LOST];

const isSeen = (pattern: RegExp) => async (stage: Stage) =>
  processesOf(stage.holder?.launcher() ?? null, pattern).length > 0;

const duringRun = (name: string, stop: Stop): Step => ({
  name,
  stops: [stop],
  reached: isSeen(runOf(stop)),
  losses: BOTH_LOST,
});

const duringCompile = (who: Stop['who']): Step => ({
  name: `while the ${who} is compiled`,
  stops: [FIRST],
  slow_compile: who,
  // A compile that ends unseen must not make the test hang: then the first test counts.
  reached: async (stage) =>
    (await isSeen(COMPILERS[who])(stage)) || (await isSeen(runOf(FIRST))(stage)),
  losses: BOTH_LOST,
});

const waitsForLock = (statement: string) => async (stage: Stage) => {
  const who = stage.consumer_id === null ? '%' : `runledger consumer ${stage.consumer_id}`;
  const rows = await stage.scene.db`
    select from pg_stat_activity where wait_event_type = 'Lock' and query like ${`%${statement}%`}
      and application_name like ${who}`;
  return rows.length > 0;
};

const STEPS: readonly Step[] = [
  {
    name: 'before it is started',
    stops: [FIRST],
    lock: {
      take: (tx) => tx`lock table runledger.leases in access exclusive mode`,
      before: 'submission',
    },
    reached: waitsForLock('fetch_executions'),
    losses: [],
  },
  duringCompile('program'),
  duringCompile('checker'),
  {
    name: "while the set's files are fetched",
    stops: [FIRST],
    lock: {
      take: (tx) => tx`lock table runledger.content_pieces in access exclusive mode`,
      before: 'submission',
    },
    reached: waitsForLock('read_pieces'),
    // Nothing runs at the launcher.
    losses: [WORKER_LOST],
  },
  duringRun('during the first test', FIRST),
  duringRun('during a test in the middle', { who: 'program', test: 25 }),
  duringRun('while the checker judges a test in the middle', { who: 'checker', test: 25 }),
  duringRun('during the last test', { who: 'program', test: TESTS }),
  {
    name: 'while the result is stored',
    stops: [{ who: 'program', test: TESTS }],
    lock: {
      take: (tx, id) => tx`select from runledger.submissions where id = ${id} for key share`,
      before: 'end',
    },
    reached: waitsForLock('complete_many'),
    // The lock holds up who would note the worker's death, so PostgreSQL dies first.
    losses: [[...WORKER_LOST, 'database_away']],
  },
];

const folder = await mkdtemp(join(tmpdir(), 'runledger-judged-kills-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));

const scene = await openScene(t, folder).catch((error: unknown) => {
  // Not thrown: what was started must be torn down.
  if (error instanceof CannotIsolate) t.pass('judged kills', { skip: error.message });
  else t.fail(`the service did not start: ${error}`);
  return null;
});
if (scene !== null) await kills(scene);

async function kills(scene: Scene): Promise<void> {
  let undisturbed: Ended;

  t.test('an undisturbed submission', async (t) => {
    // The program waits in the middle until progress is due, and at the end until it is seen.
    const stops = [25, TESTS].map((test): Stop => ({ who: 'program', test }));
    const id = await scene.submit(stops);
    await until(() => scene.isStopped(stops[0]!));
    await wait(600);
    await until(async () => {
      scene.wake(stops[0]!);
      return (await scene.read(id)).progress !== null;
    });
    t.match((await scene.read(id)).progress, { done: Number, of: TESTS });
    undisturbed = await scene.ended(id, stops);
    t.match(undisturbed.record, { verdict: 'AC', attempts: 1, stdout: /^the square of 50/ });
    t.match(undisturbed.record.tests[24], { message: '25 gives 625', verdict: 'AC' });
    check(t, undisturbed, undisturbed, []);
  });

  for (const step of STEPS) {
    t.test(`killed ${step.name}`, async (t) => {
      const began = performance.now();
      const early =
        step.lock?.before === 'submission' ? await scene.hold(step.lock.take, '') : null;
      const id = await scene.submit(step.stops, step.slow_compile);
      const gone = await killAll(scene, step, id, (line) => t.comment(line));
      await early?.();
      check(t, await scene.ended(id, step.stops), undisturbed, step.losses);
      t.comment(`ended at ${Math.round(performance.now() - began)} ms`);
      await scene.revived();
      t.same(await survivors(gone), [], 'no process of what was killed is left');
      t.comment(`${Math.round(performance.now() - began)} ms`);
    });
  }

  t.test('nothing is left', async (t) => {
    await scene.quiet();
    t.same(await leftovers(scene.db), []);
    const { problems } = await verify(scene.db, { head: null, signers: [] });
    t.same(problems, []);
    const groups = await scene.groups();
    const { workers } = scene.service;
    const below = workers.flatMap((worker) => descendants(worker.pid()!));
    for (const worker of workers) worker.signal('SIGTERM');
    t.same(await survivors(below), [], 'no process of a worker is left');
    // Another launcher of this machine may have got the same name since. Then there are processes in it.
    const left = () => groups.filter((group) => existsSync(group) && !isUsed(group));
    t.ok(await eventually(() => left().length === 0), `no group is left of ${groups}`);
  });
}

/** False also while it is being removed. */
function isUsed(group: string): boolean {
  try {
    return readdirSync(group, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('cgroup.procs'))
      .some((name) => readFileSync(join(group, name), 'utf8') !== '');
  } catch {
    return false;
  }
}

const NOBODY = { holder: null, consumer_id: null };

/** Answers the processes that must be gone. */
async function killAll(scene: Scene, step: Step, id: string, say: (line: string) => void) {
  const began = performance.now();
  const { lock } = step;
  let release = async () => {};
  if (lock?.before === 'end') {
    await until(() => scene.isStopped(step.stops[0]!));
    release = await scene.hold(lock.take, id);
  }
  const gone: ReturnType<typeof descendants> = [];
  const kills: Record<string, (stage: Stage) => unknown> = {
    web: () => scene.killed(scene.service.webs[0]!),
    launcher({ holder }) {
      for (const { launcher } of holder ? [holder] : scene.service.workers) {
        const pid = launcher();
        if (pid === null) continue;
        gone.push(...descendants(pid));
        process.kill(pid, 'SIGKILL');
      }
    },
    worker({ holder }) {
      for (const worker of holder ? [holder] : scene.service.workers) {
        gone.push(...descendants(worker.pid()!));
        scene.killed(worker);
      }
    },
    async database() {
      // A start does not wait for the disk. Without this the crash might undo it, and then nothing was lost.
      await scene.flush();
      await scene.service.database.kill();
    },
  };
  const expected = step.losses.flat();
  for (const [victim, kill] of Object.entries(kills)) {
    const stage = await until(async () => {
      if (lock?.before === 'end') scene.wake(step.stops[0]!);
      // The lock of a step without an execution keeps out who asks for its holder, too.
      const held = step.losses.length === 0 ? NOBODY : await scene.holder(id);
      const stage = { scene, id, ...held };
      return (await step.reached(stage)) ? stage : null;
    });
    const before = (await scene.losses(id)).length;
    say(`${victim} at ${Math.round(performance.now() - began)} ms`);
    await kill(stage);
    const reason = { launcher: 'launcher_died', worker: 'worker_died' }[victim];
    if (reason === undefined || !expected.includes(reason) || lock?.before === 'end') continue;
    await until(async () => {
      const again = await scene.holder(id);
      const isBack = await isSeen(runOf(FIRST))({ scene, id, ...again });
      if ((await scene.losses(id)).length > before) return true;
      // What was seen had ended before its launcher was killed, so the attempt goes on with the next launcher.
      if (victim === 'launcher' && isBack) await kill({ scene, id, ...again });
      return false;
    });
  }
  await scene.service.database.start();
  await release();
  say(`PostgreSQL is back at ${Math.round(performance.now() - began)} ms`);
  return gone;
}

function check(t: Test, ended: Ended, undisturbed: Ended, losses: Step['losses']): void {
  const { events, record } = ended;
  t.same(alike(record), alike(undisturbed.record), 'the record is the same');
  t.same(ended.payloads, undisturbed.payloads, 'and so is what is stored of it');
  const lost = events.filter(({ type }) => type === 'execution.lost');
  t.same(
    events.map(({ type }) => type),
    [
      'submission.accepted',
      ...lost.flatMap(() => ['execution.started', 'execution.lost']),
      'execution.started',
      'submission.completed',
    ],
  );
  t.equal(record.attempts, lost.length + 1);
  // An execution outlasts a restart of PostgreSQL that is shorter than its lease, which a busy machine may not manage.
  const expected = [...losses, ...(lost.length > losses.length ? [['database_away']] : [])];
  t.equal(lost.length, expected.length, 'as many losses as kills of what it needs');
  for (const [n, { facts }] of lost.entries()) {
    t.ok(expected[n]?.includes(facts.reason!), `loss ${n + 1}: ${facts.reason}`);
    t.equal(facts.counts, /_died$/.test(facts.reason!), 'only deaths count');
  }
  // The last attempt started, and then every run of the record.
  const started = events.findLast(({ type }) => type === 'execution.started')!.at;
  const early = record.tests.filter(({ stderr }) => Number(stderr) * 1000 < +started);
  t.equal(record.tests.length, TESTS);
  t.same(early, [], 'no run of a killed attempt is in it');
  t.equal(ended.progress_rows, 0, 'no progress is left');
}

const MEASURES = ['cpu_time', 'wall_time', 'memory_peak'];
/** Of the record: its name, attempts and times. `stderr` is a time, and `proof` is there once the end is sealed. */
const TIMES = ['stderr', 'created_at', 'started_at', 'completed_at', ...MEASURES];
const OWN = ['id', 'attempts', 'proof', ...TIMES];

/** What must not differ. */
function alike(record: Result): object {
  const compile = without(record['compile'] ?? {}, ['cached', ...MEASURES]);
  const tests = record.tests.map((test) => without(test, ['stderr', ...MEASURES]));
  return { ...without(record, OWN), compile, tests };
}

const without = (fields: object, names: readonly string[]) =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));
