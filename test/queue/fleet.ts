/** Real worker processes on one database, for tests that harm them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { secretDigest } from '../../src/access/secret.ts';
import { connect, type Db } from '../../src/db.ts';
import { uuidv7 } from '../../src/domain/ids.ts';
import type { ResultRow } from '../../src/domain/record.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { createResults } from '../../src/store/results.ts';
import { createSubmissions, type NewSubmission } from '../../src/store/submissions.ts';
import { createWaiters } from '../../src/store/waiters.ts';
import { eventually, until } from '../support/eventually.ts';
import { submission } from './given.ts';

type Test = { teardown(work: () => unknown): void };

export type WorkerProcess = {
  readonly pid: number;
  readonly child: ChildProcess;
  /** The first consumer that it registered. */
  readonly consumer_id: string;
  signal(signal: NodeJS.Signals): void;
  /** Settles when the process has ended. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
};

export type WorkerOptions = {
  slots?: number;
  env?: Record<string, string>;
  /** The command that runs it, such as `nsenter --net=...`. */
  within?: readonly string[];
  url?: string;
};

export type Run = { at_ms: number; event: 'begin' | 'end' | 'killed'; id: string; attempt: number };

export type Fleet = {
  readonly db: Db;
  worker(options?: WorkerOptions): Promise<WorkerProcess>;
  /**
   * Settles when every worker has seen every other alive, and has reached those on its machine: from then on a death is
   * distinguished from silence, and found at once.
   */
  acquainted(): Promise<void>;
  submit(code: string, facts?: Partial<NewSubmission>): Promise<string>;
  /** The record when the submission has ended. */
  ended(id: string): Promise<ResultRow>;
  /** Settles when the run has begun, as the launcher's stand-in recorded it. */
  begun(id: string, attempt?: number): Promise<Run>;
  runs(): Run[];
  events(id: string): Promise<{ type: string; facts: Record<string, unknown>; at: Date }[]>;
  /** Counts that must all be 0 when everything has ended. */
  leftovers(): Promise<Record<string, number>>;
};

const PROGRAM = fileURLToPath(new URL('worker_process.ts', import.meta.url));

export async function startFleet(
  t: Test,
  database: { url: string; worker_url?: string },
): Promise<Fleet> {
  const { url } = database;
  const folder = await mkdtemp(join(tmpdir(), 'runledger-fleet-'));
  const runs_file = join(folder, 'runs');
  const log_file = join(folder, 'log');
  const log = openSync(log_file, 'a');
  const db = connect(url, { name: 'test', max: 6 });
  const children = new Set<ChildProcess>();
  /** Those that are on no machine of their own. */
  const here = new Set<ChildProcess>();
  await setTier(db, { name: 'free', per_minute: 0, concurrent: 0 });
  const digest = secretDigest(`rl_live_${randomUUID()}`);
  await createKey(db, { account: 'a', tier: 'free', prefix: 'rl', secret_digest: digest });
  const submissions = createSubmissions(db, { queue_capacity: 100_000 });
  const waiters = await createWaiters(db, createResults(db), () => {});
  t.teardown(async () => {
    await Promise.all(
      [...children].map(async (child) => {
        const exited = once(child, 'exit');
        child.kill('SIGKILL');
        await exited;
      }),
    );
    await waiters.close();
    await db.end({ timeout: 1 });
    if (process.env['RUNLEDGER_TEST_KEEP']) console.error(`kept: ${folder}`);
    else await rm(folder, { recursive: true, force: true });
  });

  /** Each worker on this machine has reached all the others, says its log. */
  function haveMet(): boolean {
    const reached = new Map<number, number>();
    for (const line of readFileSync(log_file, 'utf8').split('\n')) {
      if (!/^\{.*"reached":.*\}$/.test(line)) continue;
      const said = JSON.parse(line) as { pid: number; reached: number };
      reached.set(said.pid, said.reached);
    }
    return [...here].every(({ pid }) => (reached.get(pid!) ?? 0) === here.size - 1);
  }

  const runs = (): Run[] => {
    let text = '';
    try {
      text = readFileSync(runs_file, 'utf8');
    } catch {
      return [];
    }
    return text
      .trim()
      .split('\n')
      .filter(Boolean)
      .map((line) => {
        const [at = '', event = '', run = ''] = line.split(' ');
        const [id = '', attempt = ''] = run.split('#');
        const at_ms = Number(BigInt(at) / 1000n) / 1000;
        return { at_ms, event: event as Run['event'], id, attempt: Number(attempt) };
      });
  };

  return {
    db,
    runs,
    async worker({ slots = 4, env = {}, within = [], url: other } = {}) {
      const [command = '', ...args] = [...within, process.execPath, PROGRAM, runs_file, `${slots}`];
      const child = spawn(command, args, {
        stdio: ['ignore', log, log, 'ipc'],
        env: {
          PATH: process.env['PATH'],
          NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
          DATABASE_URL: other ?? database.worker_url ?? url,
          RUNLEDGER_LOG_LEVEL: 'debug',
          RUNLEDGER_DATABASE_TLS: 'disable',
          ...env,
        },
      });
      children.add(child);
      if (within.length === 0) here.add(child);
      const exited = once(child, 'exit').then(([code, signal]) => {
        children.delete(child);
        here.delete(child);
        return { code, signal };
      });
      const consumer_id = await Promise.race([
        once(child, 'message').then(([said]) => said),
        exited.then(() => {
          throw new Error(`the worker did not start: ${readFileSync(log_file, 'utf8')}`);
        }),
      ]);
      return {
        pid: child.pid!,
        consumer_id,
        child,
        exited,
        signal: (signal) => void child.kill(signal),
      };
    },
    async acquainted() {
      await until(async () => {
        const [row] = await db<{ done: boolean }[]>`
          select min(heartbeat_at) > max(started_at) + interval '0.6 s' as done
          from runledger.consumers where ended_at is null`;
        return Boolean(row?.done) && haveMet();
      });
    },
    async submit(code, facts = {}) {
      const { id = uuidv7(Date.now(), randomBytes(10)) } = facts;
      const order = submission(id, { code: Buffer.from(code), ...facts });
      const taken = await submissions.submit({ secret_digest: digest, submission: order });
      if (taken.kind !== 'accepted') throw new Error(taken.kind);
      return id;
    },
    async ended(id) {
      const row = await waiters.wait(id, { timeout_ms: 1_200_000 });
      if (row === null) throw new Error(`${id} has not ended`);
      return row;
    },
    async begun(id, attempt = 1) {
      let found: Run | undefined;
      await until(() => {
        found = runs().find(
          (run) => run.event === 'begin' && run.id === id && run.attempt === attempt,
        );
        return found !== undefined;
      });
      return found!;
    },
    events: (id) =>
      db<{ type: string; facts: Record<string, unknown>; at: Date }[]>`
        select type, facts, at from runledger.events where stream = ${id} order by version`,
    async leftovers() {
      const [row] = await db<Record<string, number>[]>`
        select (select count(*)::integer from graphile_worker.jobs) as jobs,
          (select count(*)::integer from graphile_worker.jobs where locked_by is not null) as locked,
          (select count(*)::integer from runledger.leases) as leases,
          (select count(*)::integer from runledger.gated) as gated,
          (select sum(dispatched)::integer from runledger.key_usage) as places,
          (select sum(pending)::integer from runledger.account_usage) as pending,
          (select (q.accepted - p.started)::integer from runledger.queue_state q, runledger.queue_progress() p) as waiting`;
      return row!;
    },
  };
}

/** The longest wait for the last jobs. */
const LAST_JOBS_MS = 120_000;

export const NOTHING = {
  jobs: 0,
  locked: 0,
  leases: 0,
  gated: 0,
  places: 0,
  pending: 0,
  waiting: 0,
};

type LogEvent = { type: string; facts: Record<string, unknown> };

/**
 * The events without the attempts that were lost because a worker was not heard of for the time of a lease: a busy machine
 * may keep one from its heartbeats for so long. Such a loss does not count.
 */
export function withoutSilence<E extends LogEvent>(events: readonly E[]): E[] {
  const silent = silentAttempts(events);
  return events.filter(
    ({ type, facts }) =>
      !(/^execution\.(started|lost)$/.test(type) && silent.has(facts['attempt'])),
  );
}

export function silentAttempts(events: readonly LogEvent[]): Set<unknown> {
  const silent = events.filter(
    ({ type, facts: { reason, counts } }) =>
      type === 'execution.lost' && reason === 'worker_silent' && counts === false,
  );
  return new Set(silent.map(({ facts }) => facts['attempt']));
}

/** Runs of one submission that overlapped in time; there must be none. */
export function overlaps(runs: readonly Run[]): string[] {
  const open = new Map<string, number>();
  const found: string[] = [];
  for (const run of [...runs].sort((a, b) => a.at_ms - b.at_ms)) {
    if (run.event === 'begin') {
      if (open.has(run.id)) found.push(`${run.id}: ${open.get(run.id)} and ${run.attempt}`);
      open.set(run.id, run.attempt);
    } else if (open.get(run.id) === run.attempt) open.delete(run.id);
  }
  return found;
}

/** Waits for the last jobs, which are deleted shortly after the last result. */
export async function nothingIsLeft(
  t: { same(a: unknown, b: unknown, why: string): boolean },
  fleet: Fleet,
): Promise<void> {
  await eventually(async () => (await fleet.leftovers())['jobs'] === 0, LAST_JOBS_MS);
  t.same(await fleet.leftovers(), NOTHING, 'nothing is left over');
}
