/** A database with submissions that have ended and wait for delivery, made through the store's own functions. */
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { secretDigest } from '../../src/access/secret.ts';
import { type Config, loadConfig } from '../../src/config.ts';
import { connect, type Db, isAway } from '../../src/db.ts';
import { uuidv7 } from '../../src/domain/ids.ts';
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import { createLog, type Log } from '../../src/log.ts';
import { openLargeRecords } from '../../src/processes/open_large_records.ts';
import { createDelivering, type DeliveringOptions } from '../../src/queue/delivery_setup.ts';
import { startWebJobs } from '../../src/queue/web_jobs.ts';
import { registerConsumer } from '../../src/store/consumers.ts';
import { createExecutions } from '../../src/store/executions.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { runIn } from '../../src/store/lanes.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import { compareAll } from '../../src/store/verify_projections.ts';
import { type EncryptionKey, encryptSecret } from '../../src/webhooks/encrypt_secret.ts';
import type { Resolver } from '../../src/webhooks/resolve.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { type Answer, type Got, RECEIVER_NAME, trusted } from '../webhooks/receiver.ts';
import { outcome as given, submission } from './given.ts';

export const quiet: Log = createLog({ level: 'silent', process: 'test', to: 'stderr' });
export const SECRET = 'the secret of a delivery';
export const encryptionKey: EncryptionKey = { id: 'k1', bytes: randomBytes(32) };
const ACCOUNT_SECRET = secretDigest('a key of the test');

/** Resolves every name to this machine. */
const toLoopback: Resolver = async () => ({ kind: 'addresses', addresses: ['127.0.0.1'] });

export type Bench = {
  /** the owner's connection */
  db: Db;
  env: NodeJS.ProcessEnv;
  config: Config;
  /** Submits, runs and ends a submission; its delivery is then in the queue. */
  ended(url: string, secret_digest?: Uint8Array): Promise<string>;
  /** Starts what a web process does; it stops within the configured grace period. */
  start(over?: Partial<DeliveringOptions>): Promise<{ stop(): Promise<void> }>;
  /** The delivery's events. */
  facts(id: string): Promise<{ type: string; facts: Record<string, unknown> }[]>;
};

/** The part of tap's `t` that is needed here. */
type Assertions = { same(found: unknown, wanted: unknown): boolean };
type Test = Parameters<typeof freshDatabase>[0];
type Settings = Readonly<Record<string, string>>;

export async function openBench(
  t: Test,
  settings: Settings = {},
  given_database?: TestDatabase,
): Promise<Bench> {
  const database = given_database ?? (await freshDatabase(t));
  const db = connect(database.url, { name: 'test', max: 4 });
  t.teardown(() => db.end({ timeout: 1 }));
  await setTier(db, { name: 'free', per_minute: 0, concurrent: 0 });
  await createKey(db, { account: 'a', tier: 'free', prefix: 'rl', secret_digest: ACCOUNT_SECRET });
  const consumer_id = randomUUID();
  const consumer = {
    id: consumer_id,
    kind: 'worker' as const,
    host: 'test',
    slots: 1,
    toolchains: {},
    isolation: {},
  };
  await registerConsumer(db, { ...consumer, lock_key: String(2 ** 40) });
  const submissions = createSubmissions(db, { queue_capacity: 10_000 });
  const executions = createExecutions(db, db, consumer_id);
  const env = {
    DATABASE_URL: database.url,
    RUNLEDGER_WEB_DATABASE_URL: database.urls.web,
    RUNLEDGER_WEBHOOK_KEYS: `k1:${Buffer.from(encryptionKey.bytes).toString('base64')}`,
    RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK: 'on',
    RUNLEDGER_WEBHOOK_SCHEDULE: '10ms,10ms,10ms',
    RUNLEDGER_SHUTDOWN_GRACE: '10s',
    ...settings,
  };
  const config = loadConfig(env);
  const web = connect(database.urls.web, { name: 'test web', max: 4 });
  t.teardown(() => web.end({ timeout: 1 }));
  const large_records = openLargeRecords(config);
  t.teardown(() => large_records.close());
  return {
    db,
    env,
    config,
    async ended(url, secret_digest = ACCOUNT_SECRET) {
      const sent = withWebhook(url);
      await submissions.submit({ secret_digest, submission: sent });
      const command = { submission_id: sent.id, job_id: '1', priority: 0 };
      const started = await executions.start(command);
      const { attempt } = started!.order;
      await executions.complete({ submission_id: sent.id, attempt, outcome });
      return sent.id;
    },
    async start(over = {}) {
      const shared = { config, log: quiet, db: web, large_records };
      const options = { ...shared, resolve: toLoopback, ca: trusted, ...over };
      const deliver = createDelivering(options);
      const jobs = await startWebJobs({ config, log: quiet, db: web, deliver, sealer: null });
      return { stop: () => jobs.stop(config.shutdown_grace_ms) };
    },
    facts: (id) =>
      db`select type, facts from runledger.log where stream = ${id} and type like 'delivery.%' order by version`,
  };
}

function withWebhook(url: string) {
  const id = uuidv7(Date.now(), randomBytes(10));
  return submission(id, {
    webhook: { url, encrypted_secret: encryptSecret([encryptionKey], id, SECRET) },
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  });
}

const outcome: ExecutionOutcome = {
  ...given,
  stdout: Buffer.from(`${'ü€😀'.repeat(10_000)}\n`),
  stderr: Buffer.from('a word\n'),
};

export const urlTo = (port: number, name = RECEIVER_NAME) => `https://${name}:${port}/hook`;
const library = (secret = SECRET) => new Webhook(Buffer.from(secret), { format: 'raw' });
export const verify = ({ body, headers }: Got, secret?: string) =>
  library(secret).verify(body, headers as Record<string, string>) as {
    data: Record<string, unknown>;
  };
/** Answers these statuses in turn, then 204. */
export const answers = (...statuses: number[]): Answer => {
  const left = [...statuses];
  return (_got, response) => void response.writeHead(left.shift() ?? 204).end();
};
export const silent: Answer = () => {};

export async function delivery({ db }: Bench, id: string) {
  const [row] = await db`select status, attempts, failures, next_at, ended_at,
    exists (select from runledger.webhook_secrets w where w.submission_id = d.id) as has_secret
    from runledger.deliveries d where d.id = ${id}`;
  return row;
}

/** The tables agree with the log. A waiting delivery has a job and a secret, an ended one has neither. */
export async function judgeTables(t: Assertions, { db }: Bench): Promise<void> {
  const compared = await db.begin((tx) => compareAll(runIn(tx)));
  t.same(
    compared.filter(({ differences }) => differences > 0),
    [],
  );
}

/** Waits until so many jobs are due, and so many of them locked. */
export async function jobsAre(
  { db }: Bench,
  wanted: { due: number; taken: number },
): Promise<void> {
  for (;;) {
    const [row] = await db`
      select count(*)::integer as due, count(locked_by)::integer as taken from graphile_worker.jobs
      where task_identifier = 'deliver_webhook' and run_at <= now()`;
    if (row!['due'] === wanted.due && row!['taken'] === wanted.taken) return;
    await wait(5);
  }
}

/** Asks until the condition holds; asks again while the database is away. */
export async function until(
  bench: Bench,
  id: string,
  holds: (row: Record<string, unknown>) => boolean,
): Promise<void> {
  for (;;) {
    const row = await delivery(bench, id).catch((error) => {
      if (!isAway(error)) throw error;
    });
    if (row !== undefined && holds(row)) return;
    await wait(5);
  }
}
