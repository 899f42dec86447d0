/** The whole service for judged submissions: what is submitted, killed, waited for and read again. */
import { randomUUID } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Test } from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, type Db, isAway } from '../../src/db.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { processesOf, runOf, type Stop, squares, submissionOf } from './judged_programs.ts';
import { type Member, startService, type Worker } from './service.ts';

export type TestRecord = Record<string, unknown> & { stderr: string };
export type Result = Record<string, unknown> & {
  status: string;
  attempts: number;
  tests: TestRecord[];
  progress: { done: number; of: number } | null;
};
export type LogEvent = { type: string; at: Date; facts: { reason?: string; counts?: boolean } };
export type Ended = {
  record: Result;
  events: LogEvent[];
  payloads: string[];
  progress_rows: number;
};

export type Scene = Awaited<ReturnType<typeof openScene>>;

const LOOK_MS = 50;
/** For what takes seconds. */
const SELDOM_MS = 100;
/** Before the test is ended for hanging, so that it says for what it waited. */
const PATIENCE_MS = 1_200_000;

export async function openScene(t: Test, folder: string) {
  const service = await startService(t, {
    folder,
    ...{ webs: 1, workers: 2, ca_file: '' },
    env: {
      RUNLEDGER_SLOTS: '2',
      RUNLEDGER_LANGUAGES: 'c,cpp',
      RUNLEDGER_TESTS_WALL: '30min',
    },
  });
  const db = connect(service.database.superuser_url, { name: 'test', max: 2 });
  t.teardown(() => db.end({ timeout: 1 }));
  const owner = connect(service.database.urls.owner, { name: 'test', max: 1 });
  await setTier(owner, { name: 'free', per_minute: 0, concurrent: 0 });
  const key = newSecret('rl');
  const digest = secretDigest(key);
  await createKey(owner, { account: 'a', tier: 'free', prefix: 'rl', secret_digest: digest });
  await owner.end();

  const { origin } = service.webs[0]!;
  const call = async (path: string, body?: Uint8Array | object, headers = {}) => {
    const is_zip = body instanceof Uint8Array;
    const answer = await fetch(`${origin}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        'x-api-key': key,
        'content-type': is_zip ? 'application/zip' : 'application/json',
        ...headers,
      },
      ...(body !== undefined && { body: is_zip ? body : JSON.stringify(body) }),
    });
    return { status: answer.status, json: (await answer.json()) as Record<string, unknown> };
  };
  /** Again and again while web or PostgreSQL is away. */
  const patiently = async (wanted: number[], ask: () => ReturnType<typeof call>) => {
    const answered = await until(async () => {
      const answer = await ask().catch(() => null);
      return answer === null || answer.status === 503 ? null : answer;
    });
    if (wanted.includes(answered.status)) return answered.json;
    throw new Error(`${answered.status} ${JSON.stringify(answered.json)}`);
  };

  const revivals = new Set<Promise<void>>();
  const consumers = new Map<string, Worker>();
  let submissions = 0;
  const set = await patiently([201], () => call('/api/test-sets', squares()));

  const scene = {
    service,
    /** as the superuser, who sees what statements wait for */
    db,
    async submit(stops: readonly Stop[], slow_compile?: Stop['who']): Promise<string> {
      submissions += 1;
      // Every file must be fetched again.
      for (const n of service.workers.keys()) {
        const store = join(folder, `state${n}`, 'compiled', 'artefacts');
        for (const name of await readdir(store))
          if (name.startsWith('content-')) await rm(join(store, name), { force: true });
      }
      const nonce = `submission ${submissions}`;
      const slow = slow_compile && { slow_compile };
      const order = submissionOf({ test_set: String(set['id']), nonce, stops, ...slow });
      const headers = { 'idempotency-key': randomUUID() };
      const json = await patiently([202], () => call('/api/submit', order, headers));
      return String(json['id']);
    },
    read: async (id: string) => (await patiently([200], () => call(`/api/result/${id}`))) as Result,
    /** Wakes what has stopped until it has ended. */
    async ended(id: string, stops: readonly Stop[]): Promise<Ended> {
      const record = await until(async () => {
        for (const stop of stops) scene.wake(stop);
        const record = await scene.read(id);
        return ['pending', 'running'].includes(record.status) ? null : record;
      }, SELDOM_MS);
      return {
        record,
        events: await eventsOf(id),
        payloads: (
          await db<{ kind: string }[]>`
            select kind from runledger.payloads where stream = ${id} order by kind`
        ).map(({ kind }) => kind),
        progress_rows: (await db`select from runledger.progress`).length,
      };
    },
    losses: async (id: string) =>
      (await eventsOf(id)).filter(({ type }) => type === 'execution.lost'),
    isStopped: async (stop: Stop) => runsOf(stop).length > 0,
    wake(stop: Stop): void {
      for (const pid of runsOf(stop)) tell(pid, 'SIGCONT');
    },
    /** The worker that has the lease. */
    async holder(id: string): Promise<{ holder: Worker | null; consumer_id: string | null }> {
      const rows = await db<{ id: string; launcher: number; holds: boolean }[]>`
        select c.id, (c.isolation ->> 'pid')::integer as launcher, l.submission_id is not null as holds
        from runledger.consumers c
        left join runledger.leases l on l.consumer_id = c.id and l.submission_id = ${id}
        where c.kind = 'worker' and c.ended_at is null`;
      // A launcher that was replaced stays the one that its worker registered.
      for (const { id, launcher } of rows) {
        const worker = service.workers.find((each) => each.launcher() === launcher);
        if (worker) consumers.set(id, worker);
      }
      const holding = rows.find(({ holds }) => holds);
      return {
        holder: (holding && consumers.get(holding.id)) ?? null,
        consumer_id: holding?.id ?? null,
      };
    },
    /** A commit that waits for the disk, and so brings everything before it there, too. */
    flush: () => db`select pg_logical_emit_message(true, 'test', '')`,
    async hold(take: (tx: Db, id: string) => Promise<unknown>, id: string) {
      const own = connect(service.database.superuser_url, { name: 'lock', max: 1 });
      await own`begin`;
      await take(own, id);
      return () => own.end({ timeout: 0 }).catch(() => {});
    },
    /** Kills it. Its supervisor starts it again. */
    killed(member: Member): void {
      member.kill();
      const revived = until(() => member.pid() === null)
        .then(() => member.revive())
        .finally(() => revivals.delete(revived));
      revivals.add(revived);
    },
    /**
     * Settles when all of them run again, and a death can be proved. For this, a process must have been a witness before
     * the dead one's last heartbeat (sweep.sql). It is one after its first look, and a look lies between two heartbeats.
     */
    async revived() {
      await Promise.all(revivals);
      for (let round = 0; round < 3; round++) await allHaveBeaten();
    },
    /** Settles when the last job is deleted, shortly after its result is there. */
    quiet: () =>
      until(
        async () => (await db`select from graphile_worker._private_jobs`).length === 0,
        SELDOM_MS,
      ),
    /** The control groups of every launcher that there was. */
    groups: async () =>
      (
        await db<{ groups: string }[]>`
          select distinct isolation ->> 'groups' as groups from runledger.consumers
          where isolation ->> 'groups' is not null`
      ).map(({ groups }) => groups),
  };
  async function allHaveBeaten() {
    const [row] = await db<{ at: Date }[]>`select runledger.clock() as at`;
    await until(async () => {
      const [late] = await db`
        select from runledger.consumers where ended_at is null
        and not (heartbeat_at > ${row!.at} and postmaster_start = pg_postmaster_start_time()) limit 1`;
      return late === undefined;
    }, SELDOM_MS);
  }
  const eventsOf = (id: string) =>
    db<
      LogEvent[]
    >`select type, at, facts from runledger.events where stream = ${id} order by version`;
  const runsOf = (stop: Stop) =>
    service.workers.flatMap((worker) => processesOf(worker.launcher(), runOf(stop)));
  return scene;
}

function tell(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by now.
  }
}

/** Asks until the answer is neither null nor false; also while PostgreSQL is away. */
export async function until<T>(
  ask: () => T | Promise<T>,
  look_ms = LOOK_MS,
): Promise<Exclude<T, null | false>> {
  for (const end = performance.now() + PATIENCE_MS; ; await wait(look_ms)) {
    try {
      const answer = await ask();
      if (answer !== null && answer !== false) return answer as Exclude<T, null | false>;
    } catch (error) {
      if (!isAway(error)) throw error;
    }
    if (performance.now() > end) throw new Error(`it was not so within ${PATIENCE_MS} ms: ${ask}`);
  }
}
