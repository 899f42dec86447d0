/** A ledger of its own for a test, used as its roles use it, with a clock that can be set. */
import { randomBytes, randomUUID } from 'node:crypto';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, type Db } from '../../src/db.ts';
import { uuidv7 } from '../../src/domain/ids.ts';
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import { type CancelOutcome, createCancel } from '../../src/store/cancel.ts';
import { createExecutions, type Executions } from '../../src/store/executions.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import {
  createSubmissions,
  type NewSubmission,
  type Submissions,
  type SubmitOutcome,
} from '../../src/store/submissions.ts';
import { type DatabaseOptions, freshDatabase, type TestDatabase } from '../support/database.ts';

type Test = { teardown(work: () => unknown): void };

export type Key = { id: string; digest: Uint8Array; account: string };

export type World = {
  database: TestDatabase;
  /** The owner's, the web's and the worker's connections. */
  db: Db;
  web: Db;
  worker: Db;
  connect(url: string, max?: number): Db;
  clock: { set(at: Date): Promise<void>; advance(ms: number): Promise<void> };
  key(options?: { account?: string; tier?: string }): Promise<Key>;
  tier(name: string, per_minute: number, concurrent: number): Promise<void>;
  submissions(capacity?: number): Submissions;
  /** Asked for by the key of the submission, or by another. */
  cancel(id: string, by?: Key): Promise<CancelOutcome>;
  /** A worker's consumer, registered. */
  consumer(options?: {
    slots?: number;
    language?: string;
    also?: readonly string[];
  }): Promise<{ id: string; executions: Executions }>;
};

export async function world(t: Test, options: DatabaseOptions = {}): Promise<World> {
  const database = await freshDatabase(t, options);
  const opened: Db[] = [];
  const open = (url: string, max = 4) => {
    const db = connect(url, { name: 'test', max });
    opened.push(db);
    return db;
  };
  t.teardown(() => Promise.all(opened.map((db) => db.end({ timeout: 1 }))));
  const db = open(database.url);
  const web = open(database.urls.web);
  const worker = open(database.urls.worker);
  return {
    database,
    db,
    web,
    worker,
    connect: open,
    clock: settableClock(db),
    async key({ account = `account ${randomUUID()}`, tier = 'beta' } = {}) {
      const digest = secretDigest(newSecret('rl'));
      const id = await createKey(db, { account, tier, prefix: 'rl', secret_digest: digest });
      return { id, digest, account };
    },
    tier: (name, per_minute, concurrent) => setTier(db, { name, per_minute, concurrent }),
    submissions: (queue_capacity = 10_000) => createSubmissions(web, { queue_capacity }),
    async cancel(id, by) {
      const [key] = await db<{ account_id: string; key_id: string }[]>`
        select account_id, id as key_id from runledger.keys
        where id = ${by?.id ?? null} or (${by === undefined} and id = (select key_id from runledger.submissions where id = ${id}))`;
      return createCancel(web)(key!, id, { request_id: 'a call', traceparent: null });
    },
    async consumer({ slots = 2, language = 'python', also = [] } = {}) {
      const id = randomUUID();
      await worker`
        select runledger.register_consumer(${id}, 'worker', 'host', ${slots}, ${JSON.stringify(Object.fromEntries([language, ...also].map((one) => [one, 'none'])))}::text::jsonb, '{}', ${2 ** 40 + Math.floor(Math.random() * 2 ** 40)})`;
      return { id, executions: createExecutions(worker, worker, id) };
    },
  };
}

/** From its first use it replaces the real clock, in this database only. */
function settableClock(db: Db): World['clock'] {
  let laid: Promise<unknown> | undefined;
  const lay = () => {
    laid ??= db.unsafe(`
      create table if not exists runledger.test_clock (at timestamptz not null);
      insert into runledger.test_clock values (clock_timestamp());
      create or replace function runledger.clock() returns timestamptz language sql volatile
      as $$ select at from runledger.test_clock $$`);
    return laid;
  };
  return {
    async set(at) {
      await lay();
      await db`update runledger.test_clock set at = ${at}`;
    },
    async advance(ms) {
      await lay();
      await db`update runledger.test_clock set at = at + make_interval(secs => ${ms / 1000}::double precision)`;
    },
  };
}

export const newId = (at_ms = Date.now()) => uuidv7(at_ms, randomBytes(10));

export function submission(change: Partial<NewSubmission> = {}): NewSubmission {
  return {
    id: newId(),
    language: 'python',
    code: Buffer.from('print(1)'),
    stdin: new Uint8Array(),
    args: [],
    expected_output: null,
    compare: 'lenient',
    limits: {},
    judging: null,
    webhook: null,
    idempotency_key: null,
    request_digest: Buffer.from('same request'),
    request_id: null,
    traceparent: null,
    ...change,
  };
}

export const webhook = (): NonNullable<NewSubmission['webhook']> => ({
  url: 'https://receiver.test/hook',
  encrypted_secret: {
    key_id: 'k1',
    nonce: Buffer.alloc(12, 1),
    ciphertext: Buffer.alloc(40, 2),
  },
});

export function outcome(change: Partial<ExecutionOutcome> = {}): ExecutionOutcome {
  return {
    verdict: 'AC',
    status: 'completed',
    exit_code: 0,
    signal: null,
    cpu_time_us: 1200,
    wall_time_us: 3400,
    memory_peak_bytes: 5_000_000,
    stdout: Buffer.from('1\n'),
    stderr: new Uint8Array(),
    stdout_truncated: false,
    stderr_truncated: false,
    compile: null,
    limits: {},
    limit_exceeded: null,
    evidence: { isolation: 'v2' },
    judged: null,
    ...change,
  };
}

export const failed = (): ExecutionOutcome => ({
  ...outcome({ verdict: 'IE', status: 'error', stdout: new Uint8Array() }),
  ...{ exit_code: null, cpu_time_us: null, wall_time_us: null, memory_peak_bytes: null },
});

export const start = (executions: Executions, submission_id: string, job = 1) =>
  executions.start({ submission_id, job_id: String(job), priority: 0 });

/** The id of the account. */
export async function ownerOf(db: Db, submission_id: string): Promise<string> {
  const [row] = await db<{ account_id: string }[]>`
    select account_id from runledger.submissions where id = ${submission_id}`;
  return row!.account_id;
}

export function idOf(answer: SubmitOutcome): string {
  if (answer.kind !== 'accepted') throw new Error(`not accepted: ${answer.kind}`);
  return answer.id;
}

export const tally = (answers: readonly { kind: string }[]): Record<string, number> => {
  const count: Record<string, number> = {};
  for (const { kind } of answers) count[kind] = (count[kind] ?? 0) + 1;
  return count;
};

/** A generator of numbers from a seed (mulberry32): the same history again from the same seed. */
export function seeded(seed: number) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number) => Math.floor(next() * n);
  return { next, below, pick: <T>(items: readonly T[]): T => items[below(items.length)]! };
}

/** The seed of this run: RUNLEDGER_TEST_SEED repeats one. */
export const seedOfRun = () =>
  Number(process.env['RUNLEDGER_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
