/** Two web processes on one database, with keys, and a worker that the test controls. */

import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { newSecret, secretDigest } from '../../../src/access/secret.ts';
import { connect, type Db } from '../../../src/db.ts';
import type { ExecutionOutcome } from '../../../src/judging/execution.ts';
import { createExecutions, type Executions } from '../../../src/store/executions.ts';
import { createKey, setTier } from '../../../src/store/keys.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { type Call, call, type Reply } from './call.ts';
import { type Test, type WebProcess, webProcess } from './web_process.ts';

export type Service = {
  readonly database: TestDatabase;
  /** as the owner */
  readonly db: Db;
  readonly webs: readonly WebProcess[];
  /** Calls go to the web processes in turn. */
  call(asked: Call): Promise<Reply>;
  /** A new key; without a limit unless a tier is named. */
  key(options?: { account?: string; tier?: string }): Promise<string>;
  submit(key: string, body?: object, more?: Partial<Call>): Promise<Reply>;
  worker: TestWorker;
};

export const HELLO = { language: 'python', code: 'print(6 * 7)' };

export async function startService(
  t: Test,
  options: {
    /** Default: a fresh one on the server of the tests. */
    database?: TestDatabase;
    env?: Record<string, string>;
    webs?: number;
    hand_languages?: string[];
  } = {},
): Promise<Service> {
  const database = options.database ?? (await freshDatabase(t));
  const db = connect(database.urls.owner, { name: 'runledger http test', max: 4 });
  t.teardown(() => db.end({ timeout: 1 }));
  await setTier(db, { name: 'unlimited', per_minute: 0, concurrent: 0 });
  const webs = await Promise.all(
    Array.from({ length: options.webs ?? 2 }, () => webProcess(t, database, options.env)),
  );
  let turn = 0;
  const next = (asked: Call) => call(webs[turn++ % webs.length]!.origin, asked);
  return {
    database,
    db,
    webs,
    call: next,
    async key({ account = `account ${randomUUID()}`, tier = 'unlimited' } = {}) {
      const secret = newSecret('rl');
      await createKey(db, { account, tier, prefix: 'rl', secret_digest: secretDigest(secret) });
      return secret;
    },
    submit: (key, body = HELLO, more = {}) => next({ path: '/api/submit', key, body, ...more }),
    worker: await testWorker(
      t,
      db,
      database.urls.owner,
      options.hand_languages ?? ['python', 'cpp'],
    ),
  };
}

/** Makes both processes forget the keys that are over their rate, as a change of a tier does. */
export async function announceAccessChange({ db, webs }: Service): Promise<void> {
  const noticed = ({ written }: WebProcess) =>
    written.filter((line) => line.includes('keys or limits were changed')).length;
  const before = webs.map(noticed);
  // Repeated, because a process that has just started may not listen yet (and then remembers nothing).
  for (let n = 0; webs.some((web, n) => noticed(web) === before[n]); n += 1) {
    if (n % 100 === 0) await db`select pg_notify('runledger_access', '')`;
    await wait(2);
  }
}

/** Starts and ends executions as a worker does, through the same SQL, with results that the test chooses. */
export type TestWorker = {
  start(id: string): Promise<number>;
  finish(id: string, outcome?: Partial<ExecutionOutcome>): Promise<void>;
  /** Sends a heartbeat. */
  beat(): Promise<void>;
  readonly executions: Executions;
};

/** Like every worker it is alive through a lock and a heartbeat on one connection. */
async function testWorker(t: Test, db: Db, url: string, languages: string[]): Promise<TestWorker> {
  const consumer = randomUUID();
  const lock_key = 2 ** 48 + randomBytes(6).readUIntBE(0, 6);
  const heart = new Worker(new URL('heart.ts', import.meta.url), {
    workerData: { url, consumer, languages, lock_key },
    execArgv: [],
  });
  t.teardown(() => heart.terminate());
  await once(heart, 'message');
  const beat = async () => {
    heart.postMessage('beat');
    await once(heart, 'message');
  };
  const executions = createExecutions(db, db, consumer);
  const attempts = new Map<string, number>();
  const start = async (id: string) => {
    const started = await executions.start({ submission_id: id, job_id: '0', priority: 0 });
    if (started === null) throw new Error(`${id} was not pending`);
    attempts.set(id, started.order.attempt);
    return started.order.attempt;
  };
  return {
    executions,
    start,
    beat,
    async finish(id, outcome = {}) {
      const attempt = attempts.get(id) ?? (await start(id));
      const ended = await executions.complete({
        submission_id: id,
        attempt,
        outcome: { ...HELLO_OUTCOME, ...outcome },
      });
      if (ended !== 'ended') throw new Error(`${id}: ${ended}`);
    },
  };
}

export const HELLO_OUTCOME: ExecutionOutcome = {
  verdict: 'AC',
  status: 'completed',
  exit_code: 0,
  signal: null,
  cpu_time_us: 9_214,
  wall_time_us: 12_345,
  memory_peak_bytes: 7_340_032,
  stdout: Buffer.from('42\n'),
  stderr: new Uint8Array(),
  stdout_truncated: false,
  stderr_truncated: false,
  compile: null,
  limits: {},
  limit_exceeded: null,
  evidence: {},
  judged: null,
};
