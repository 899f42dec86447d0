/**
 * How many submissions a second does the API accept durably, and how long does each caller wait? The floors, in the same
 * run: a handler with a constant answer, the same SQL statement from pgbench, bare inserts of the same event. Two more
 * questions: what does a waiting request cost besides its execution, and do all 401s and all 404s take equally long?
 */
import { fork } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect, type Db } from '../src/db.ts';
import { uuidv7 } from '../src/domain/ids.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { createSubmissions } from '../src/store/submissions.ts';
import { webProcess } from '../test/http/support/web_process.ts';
import { submission } from '../test/queue/given.ts';
import { ownServer } from '../test/support/database.ts';
import { equalTimes } from './support/equal_times.ts';
import { leanClient, submitRequest } from './support/lean_client.ts';
import { pgbenchSubmit } from './support/pgbench_submit.ts';
import { against, type Measure, publish } from './support/report.ts';
import { median, quantile } from './support/stats.ts';

const CLIENTS = [1, 8, 32, 128];
const CALLERS = 32;
const ROUND_MS = Number(process.env['BENCH_ROUND_MS'] ?? 2000);
const ROUNDS = 3;
/** V8 optimises a function within three thousand calls, which any service in use has had. */
const WAITING_WARM_UP = 3_000;
const WAITING_RUNS = 2_000;
const CAPACITY = '10000000';
const PROGRAM = { code: Buffer.from('print(6 * 7)'), stdin: Buffer.from('1 2\n') };
const PGBENCH = { capacity: CAPACITY, seconds: Math.ceil(Math.max(ROUND_MS, 2_000) / 1000) };
/** The resolution of the kernel's CPU accounting. */
const TICK_MS = 10;

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
const server = await ownServer(t, {
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  // pgbench uses one connection for each client.
  max_connections: '200',
});
const db = connect(server.urls.owner, { name: 'runledger bench', max: CALLERS });
t.teardown(() => db.end({ timeout: 1 }));

try {
  await setTier(db, { name: 'bench', per_minute: 0, concurrent: 0 });
  const web = await webProcess(t, server, {
    RUNLEDGER_LOG_LEVEL: 'warn',
    RUNLEDGER_QUEUE_CAPACITY: CAPACITY,
  });
  const floor = await constantServer();
  const keys = await Promise.all(Array.from({ length: Math.max(...CLIENTS) }, () => newKey()));
  const measures: Measure[] = [];
  for (const section of [
    // First, while the service is idle: later, PostgreSQL vacuums a million new rows.
    () => waitingRequests(web.port),
    () => submissions(web.port, web.process.pid!, floor, keys),
    () => store(keys),
    () => equalTimes(db, web.port, newKey),
  ]) {
    measures.push(...(await section()));
    console.error(`${measures.at(-1)!.name.trim()}: measured`);
  }
  publish('http', 'how many submissions a second does the API accept, and at what cost?', measures);
} finally {
  for (const work of teardowns) await work();
}

async function newKey(): Promise<string> {
  const secret = newSecret('rl');
  const account = `bench ${randomUUID()}`;
  await createKey(db, {
    account,
    tier: 'bench',
    prefix: 'rl',
    secret_digest: secretDigest(secret),
  });
  return secret;
}

async function constantServer(): Promise<{ port: number; pid: number }> {
  const child = fork(join(import.meta.dirname, 'support/constant.ts'));
  t.teardown(() => child.disconnect());
  const port = await new Promise<number>((resolve) =>
    child.once('message', (at) => resolve(Number(at))),
  );
  return { port, pid: child.pid! };
}

// Submissions a second ----------------------------------------------------------------------------

type Round = { per_s: number; ms: number[]; cpu_ms: Record<'server' | 'postgres', number> };

async function submissions(
  port: number,
  pid: number,
  floor: { port: number; pid: number },
  keys: string[],
): Promise<Measure[]> {
  await hammer(port, pid, keys.slice(0, 32), 2_000);
  await hammer(floor.port, floor.pid, keys.slice(0, 32), 1_000);
  const measures: Measure[] = [];
  for (const clients of CLIENTS) {
    const some = keys.slice(0, clients);
    const ours: Round[] = [];
    const constant: Round[] = [];
    const pgbench: number[] = [];
    for (let n = 0; n < ROUNDS; n += 1) {
      ours.push(await hammer(port, pid, some, ROUND_MS));
      constant.push(await hammer(floor.port, floor.pid, some, ROUND_MS / 2));
      const tps = await pgbenchSubmit({
        url: server.urls.owner,
        ...PGBENCH,
        keys: some,
        clients,
      });
      if (tps !== null) pgbench.push(tps);
    }
    const per_s = mean(ours.map((round) => round.per_s));
    const ms = ours.flatMap((round) => round.ms);
    const target = clients === 32 ? { at_least: 2_000 } : {};
    measures.push(
      { name: `submissions, ${clients} clients`, unit: '/s', value: per_s, ...target },
      against(`  over a constant answer`, '/s', per_s, mean(constant.map((round) => round.per_s))),
      ...(pgbench.length > 0
        ? [
            against(
              '  over pgbench, the same statement for one at a time',
              '/s',
              per_s,
              mean(pgbench),
              {
                was: 'over pgbench, the same statement',
              },
            ),
          ]
        : []),
      { name: '  p50', unit: 'ms', value: median(ms) },
      { name: '  p99', unit: 'ms', value: quantile(ms, 0.99) },
    );
    if (clients === 32) measures.push(...shares(ours, constant));
  }
  return measures;
}

/** How the CPU of one submission divides: HTTP costs as much as the constant answer; the rest of web is our own. */
function shares(ours: Round[], constant: Round[]): Measure[] {
  const each = (rounds: Round[], process: 'server' | 'postgres') =>
    sum(rounds.map((round) => round.cpu_ms[process])) / sum(rounds.map((round) => round.ms.length));
  const http = each(constant, 'server');
  const web = Math.max(each(ours, 'server') - http, 0);
  const postgres = each(ours, 'postgres');
  const all = http + web + postgres;
  return [
    { name: '  CPU of one submission', unit: 'ms', value: all },
    {
      name: '    share of HTTP (the cost of the constant answer)',
      was: 'of it HTTP (as the constant answer costs)',
      unit: '%',
      value: (100 * http) / all,
    },
    {
      name: '    share of key, validation, batching and log',
      was: 'of it key, validation, batching, log',
      unit: '%',
      value: (100 * web) / all,
    },
    {
      name: '    share of PostgreSQL',
      was: 'of it PostgreSQL',
      unit: '%',
      value: (100 * postgres) / all,
    },
  ];
}

async function hammer(port: number, pid: number, keys: string[], ms: number): Promise<Round> {
  const clients = await Promise.all(keys.map((key) => leanClient(port, submitRequest(key))));
  const taken: number[] = [];
  const cpu = cpuNow(pid);
  const began = performance.now();
  await Promise.all(
    clients.map(async (client) => {
      while (performance.now() - began < ms) {
        const from = performance.now();
        const { status, body } = await client.ask();
        if (status !== 202 || !body.includes('"id"')) throw new Error(`${status}: ${body}`);
        taken.push(performance.now() - from);
      }
    }),
  );
  const took_s = (performance.now() - began) / 1000;
  const after = cpuNow(pid);
  for (const client of clients) client.close();
  return {
    per_s: taken.length / took_s,
    ms: taken,
    cpu_ms: { server: after.server - cpu.server, postgres: after.postgres - cpu.postgres },
  };
}

function cpuNow(pid: number): Record<'server' | 'postgres', number> {
  return { server: cpuOf(pid).ms, postgres: sum(postgresPids().map((one) => cpuOf(one).ms)) };
}

function postgresPids(): number[] {
  const root = server.pid();
  const below = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return [root, ...below.map(Number).filter((pid) => cpuOf(pid).parent === root)];
}

function cpuOf(pid: number): { ms: number; parent: number } {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { ms: (Number(fields[11]) + Number(fields[12])) * TICK_MS, parent: Number(fields[1]) };
  } catch {
    return { ms: 0, parent: 0 }; // the process has ended
  }
}

// The store, without HTTP ---------------------------------------------------------------------------

async function store(keys: string[]): Promise<Measure[]> {
  const digests = keys.slice(0, CALLERS).map((key) => secretDigest(key));
  const { submit } = createSubmissions(db, { queue_capacity: Number(CAPACITY) });
  const spread = (n: number) => submitOne(submit, digests[n]!);
  const hot = () => submitOne(submit, digests[0]!);
  const [example] = await db<{ id: string }[]>`select id from runledger.submissions limit 1`;
  const rates: Record<'spread' | 'hot' | 'bare', number[]> = { spread: [], hot: [], bare: [] };
  for (let n = 0; n < ROUNDS; n += 1) {
    rates.spread.push(await many(spread));
    rates.bare.push(await many(() => insertEvent(db, example!.id)));
    rates.hot.push(await many(hot));
  }
  const [ours, bare, hotKey] = [mean(rates.spread), mean(rates.bare), mean(rates.hot)];
  return [
    against(
      `store: submit with all checks, ${CALLERS} callers, over bare inserts of the event`,
      '/s',
      ours,
      bare,
      { at_least: 0.55 },
    ),
    against('store: one key for all callers, over one key each', '/s', hotKey, ours, {
      at_least: 0.9,
      was: 'store: one hot key over spread keys',
    }),
  ];
}

async function submitOne(
  submit: ReturnType<typeof createSubmissions>['submit'],
  secret_digest: Uint8Array,
): Promise<void> {
  const { kind } = await submit({ secret_digest, submission: submission(newId(), PROGRAM) });
  if (kind !== 'accepted') throw new Error(kind);
}

function newId(): string {
  return uuidv7(Date.now(), randomBytes(10));
}

/** Inserts the row that a submission appends, and nothing else: no key, rate, queue place, payload, projection or job. */
async function insertEvent(db: Db, example: string): Promise<void> {
  const id = newId();
  await db`insert into runledger.events (stream, version, type, at, generation, facts)
    select ${id}, 1, e.type, runledger.clock(), e.generation, e.facts
    from (select type, generation, facts from runledger.events where stream = ${example} and version = 1) e`;
}

async function many(once: (n: number) => Promise<void>): Promise<number> {
  const began = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, n) => {
      while (performance.now() - began < ROUND_MS) {
        await once(n);
        done += 1;
      }
    }),
  );
  return done / ((performance.now() - began) / 1000);
}

// Waiting requests ---------------------------------------------------------------------------------

/** Executions take no time here, so all of it is the cost of waiting, queueing and answering. */
async function waitingRequests(port: number): Promise<Measure[]> {
  const worker = fork(join(import.meta.dirname, 'support/empty_worker.ts'), {
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: server.urls.worker,
      RUNLEDGER_SLOTS: '24',
      RUNLEDGER_QUEUE_CAPACITY: CAPACITY,
    },
  });
  t.teardown(() => worker.kill('SIGTERM'));
  await once(worker, 'message');
  const client = await leanClient(port, submitRequest(await newKey(), '/api/submit?wait=true'));
  const ms: number[] = [];
  for (let n = 0; n < WAITING_WARM_UP + WAITING_RUNS; n += 1) {
    const from = performance.now();
    const { status, body } = await client.ask();
    if (status !== 200 || JSON.parse(body).verdict !== 'AC') throw new Error(body);
    if (n >= WAITING_WARM_UP) ms.push(performance.now() - from);
  }
  client.close();
  // Otherwise it would empty the queue during the next measurements.
  worker.kill('SIGTERM');
  await once(worker, 'exit');
  return [
    {
      name: 'waiting request without its execution, 1 client, p50',
      was: 'held call over its execution, 1 client, p50',
      unit: 'ms',
      value: median(ms),
      at_most: 4,
    },
    { name: '  p99', unit: 'ms', value: quantile(ms, 0.99) },
  ];
}

function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}

function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0);
}
