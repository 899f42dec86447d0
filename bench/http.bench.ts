/**
 * How many submissions a second does the API accept, durably, and how long does each caller wait? Beside it, in the
 * same run: a handler that answers a constant, the same SQL statement from pgbench, bare inserts of the same event.
 * Before that what a held call costs over the execution itself; after it whether 401s and 404s take equally long.
 */
import { execFile, execFileSync, fork } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect, type Db } from '../src/db.ts';
import { uuidv7 } from '../src/domain/ids.ts';
import { createKey, revokeKey, rotateKey, setTier } from '../src/store/keys.ts';
import { createSubmissions } from '../src/store/submissions.ts';
import { webProcess } from '../test/http/support/web_process.ts';
import { submission } from '../test/queue/given.ts';
import { ownServer } from '../test/support/database.ts';
import { getRequest, type LeanClient, leanClient, submitRequest } from './support/lean_client.ts';
import { against, type Measure, publish } from './support/report.ts';
import { median, quantile } from './support/stats.ts';

const CLIENTS = [1, 8, 32, 128];
const CALLERS = 32;
const ROUND_MS = Number(process.env['BENCH_ROUND_MS'] ?? 2000);
const ROUNDS = 3;
const TRIES = 2_000;
/** V8 compiles a function for good after three thousand calls of it, and a service at rest has had them. */
const SYNC_WARM_UP = 3_000;
const SYNC_RUNS = 2_000;
const CAPACITY = '10000000';
const PROGRAM = { code: Buffer.from('print(6 * 7)'), stdin: Buffer.from('1 2\n') };
/** Of the kernel's CPU accounts. */
const TICK_MS = 10;

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
const server = await ownServer(t, {
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  // pgbench takes a connection a client.
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
  for (const part of [
    // first: a service at rest, without a million rows that have just been written and are tidied up
    () => heldCalls(web.port),
    () => submissions(web.port, web.process.pid!, floor, keys),
    () => store(keys),
    () => equalTimes(web.port),
  ]) {
    measures.push(...(await part()));
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
      const tps = await pgbenchSubmit(some[0]!, clients);
      if (tps !== null) pgbench.push(tps);
    }
    const per_s = mean(ours.map((round) => round.per_s));
    const ms = ours.flatMap((round) => round.ms);
    const target = clients === 32 ? { at_least: 2_000 } : {};
    measures.push(
      { name: `submissions, ${clients} clients`, unit: '/s', value: per_s, ...target },
      against(`  over a constant answer`, '/s', per_s, mean(constant.map((round) => round.per_s))),
      ...(pgbench.length > 0
        ? [against('  over pgbench, the same statement', '/s', per_s, mean(pgbench))]
        : []),
      { name: '  p50', unit: 'ms', value: median(ms) },
      { name: '  p99', unit: 'ms', value: quantile(ms, 0.99) },
    );
    if (clients === 32) measures.push(...shares(ours, constant));
  }
  return measures;
}

/** Of the CPU that one submission costs: the floor's part is HTTP, what web does beyond it is ours. */
function shares(ours: Round[], constant: Round[]): Measure[] {
  const each = (rounds: Round[], part: 'server' | 'postgres') =>
    sum(rounds.map((round) => round.cpu_ms[part])) / sum(rounds.map((round) => round.ms.length));
  const http = each(constant, 'server');
  const web = Math.max(each(ours, 'server') - http, 0);
  const postgres = each(ours, 'postgres');
  const all = http + web + postgres;
  return [
    { name: '  CPU of one submission', unit: 'ms', value: all },
    { name: '    of it HTTP (as the constant answer costs)', unit: '%', value: (100 * http) / all },
    { name: '    of it key, validation, batching, log', unit: '%', value: (100 * web) / all },
    { name: '    of it PostgreSQL', unit: '%', value: (100 * postgres) / all },
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
    return { ms: 0, parent: 0 }; // it ended while we looked
  }
}

/** The same function with a batch of one, a connection a client; null where there is no pgbench. */
async function pgbenchSubmit(key: string, clients: number): Promise<number | null> {
  if (!hasPgbench()) return null;
  const folder = mkdtempSync(join(tmpdir(), 'runledger-pgbench-'));
  const script = join(folder, 'submit.sql');
  const digest = Buffer.from(secretDigest(key)).toString('hex');
  writeFileSync(
    script,
    `select * from runledger.submit_many(jsonb_build_array(jsonb_build_object('digest', '${digest}', 'id',
      (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
        || '8' || substr(md5(random()::text), 1, 15))::uuid, 'language', 'python', 'args', '[]'::jsonb, 'compare', 'lenient',
      'limits', '{}'::jsonb, 'request_digest', '00')), array['print(6 * 7)'::bytea], array['1 2'::bytea], array[null::bytea], ${CAPACITY});`.replace(
      /\s+/g,
      ' ',
    ),
  );
  const args = [
    '-n',
    '-f',
    script,
    '-c',
    String(clients),
    '-j',
    '2',
    '-T',
    String(Math.ceil(Math.max(ROUND_MS, 2_000) / 1000)),
    server.urls.owner,
  ];
  const { stdout, stderr } = await promisify(execFile)('pgbench', args);
  rmSync(folder, { recursive: true });
  if (stderr.includes('error')) throw new Error(stderr);
  // None at all within the time: it has no figure, and says so by the absence of one.
  const tps = /tps = ([\d.]+)/.exec(stdout)?.[1];
  return tps === undefined ? null : Number(tps);
}

function hasPgbench(): boolean {
  try {
    execFileSync('pgbench', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

// The store, without HTTP ---------------------------------------------------------------------------

async function store(keys: string[]): Promise<Measure[]> {
  const digests = keys.slice(0, CALLERS).map((key) => secretDigest(key));
  const { submit } = createSubmissions(db, { queue_capacity: Number(CAPACITY) });
  const spread = (n: number) => submitOne(submit, digests[n]!);
  const hot = () => submitOne(submit, digests[0]!);
  const [like] = await db<{ id: string }[]>`select id from runledger.submissions limit 1`;
  const rates: Record<'spread' | 'hot' | 'bare', number[]> = { spread: [], hot: [], bare: [] };
  for (let n = 0; n < ROUNDS; n += 1) {
    rates.spread.push(await many(spread));
    rates.bare.push(await many(() => insertEvent(db, like!.id)));
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
    against('store: one hot key over spread keys', '/s', hotKey, ours, { at_least: 0.9 }),
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

/** The row that submit appends, and nothing else: no key, rate, bound, payload, projection or job. */
async function insertEvent(db: Db, like: string): Promise<void> {
  const id = newId();
  await db`insert into runledger.events (stream, version, type, at, generation, facts)
    select ${id}, 1, e.type, runledger.clock(), e.generation, e.facts
    from (select type, generation, facts from runledger.events where stream = ${like} and version = 1) e`;
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

// Equal times -------------------------------------------------------------------------------------------

/** Each kind in turn, so that what else the machine does falls on all of them. */
async function equalTimes(port: number): Promise<Measure[]> {
  const [mine, theirs, revoked, expired] = await Promise.all([
    newKey(),
    newKey(),
    newKey(),
    newKey(),
  ]);
  await revokeKey(db, await idOf(revoked));
  const rotation = {
    id: await idOf(expired),
    secret_digest: secretDigest(newSecret('rl')),
    grace_ms: 0,
  };
  await rotateKey(db, rotation);
  const submitter = await leanClient(port, submitRequest(theirs));
  const { id } = JSON.parse((await submitter.ask()).body);
  submitter.close();
  const path = `/api/result/${randomUUID()}`;
  const unauthorized = await timed(port, 401, {
    unknown: getRequest(newSecret('rl'), path),
    revoked: getRequest(revoked, path),
    expired: getRequest(expired, path),
  });
  const notFound = await timed(port, 404, {
    'of nobody': getRequest(mine, path),
    "of another's": getRequest(mine, `/api/result/${id}`),
  });
  return [...unauthorized, ...notFound];
}

async function idOf(secret: string): Promise<string> {
  const [row] = await db`
    select key_id from runledger.key_secrets where digest = ${secretDigest(secret)}`;
  return row!['key_id'];
}

async function timed(
  port: number,
  expected: number,
  kinds: Record<string, string>,
): Promise<Measure[]> {
  const clients: [string, LeanClient, number[]][] = [];
  for (const [kind, request] of Object.entries(kinds)) {
    clients.push([kind, await leanClient(port, request), []]);
  }
  for (let n = 0; n < TRIES; n += 1) {
    for (const [kind, client, ms] of clients) {
      const from = performance.now();
      const { status } = await client.ask();
      ms.push(performance.now() - from);
      if (status !== expected) throw new Error(`${kind}: ${status}`);
    }
  }
  const first = median(clients[0]![2]);
  return clients.map(([kind, client, ms], at) => {
    client.close();
    const name = `${expected}, ${kind}: p50 of ${TRIES}`;
    return at === 0
      ? { name, unit: 'ms', value: first }
      : against(`${name}, over the first`, 'ms', median(ms), first);
  });
}

// Held calls -----------------------------------------------------------------------------------------------

/** Executions take no time here: all of it is what holding, queueing and answering cost. */
async function heldCalls(port: number): Promise<Measure[]> {
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
  for (let n = 0; n < SYNC_WARM_UP + SYNC_RUNS; n += 1) {
    const from = performance.now();
    const { status, body } = await client.ask();
    if (status !== 200 || JSON.parse(body).verdict !== 'AC') throw new Error(body);
    if (n >= SYNC_WARM_UP) ms.push(performance.now() - from);
  }
  client.close();
  // It would empty the queue under the measures that follow.
  worker.kill('SIGTERM');
  await once(worker, 'exit');
  return [
    {
      name: 'held call over its execution, 1 client, p50',
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
