/**
 * Does heavy work of 60 keys delay another account? Each key is of the smallest tier and asks for nearly as much as its rate
 * allows, all at once, of one web process. In the meantime another account submits, one request at a time, and a router
 * probes. The floor of a row is the same account on the idle process, before and after, because the machine may be shared.
 * Each kind of weight has a web process of its own. BENCH_ONLY names the kinds, BENCH_EACH the requests of a key.
 */
import { fork } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect, type Db } from '../src/db.ts';
import { renderResult } from '../src/domain/record.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { withPayloads } from '../src/store/payloads.ts';
import { createResults } from '../src/store/results.ts';
import { type WebProcess, webProcess } from '../test/http/support/web_process.ts';
import { ownServer, type TestDatabase } from '../test/support/database.ts';
import { CAPACITY, ended, finisher } from './support/finished.ts';
import {
  getRequest,
  type LeanClient,
  leanClient,
  postRequest,
  submitRequest,
} from './support/lean_client.ts';
import { against, isMet, type Measure, publish } from './support/report.ts';
import { quantile } from './support/stats.ts';
import type { Order, Outcome } from './support/weight_load.ts';
import type { WebhookOrder, WebhookOutcome } from './support/weight_webhooks.ts';

const KEYS = 60;
/** Below the 60 requests a minute of the smallest tier. */
const EACH = Number(process.env['BENCH_EACH'] ?? 58);
const WINDOW_MS = 30_000;
const IDLE_MS = 4_000;
const OTHER_EVERY_MS = 10;
const PROBE_EVERY_MS = 50;
const P99_AT_MOST = 3;
const READY_AT_MOST_MS = 250;
const MEMORY_AT_MOST_MIB = 300;
const DELIVERY_AT_MOST_MS = 3_000;
/** All of the heavy ones, with 128 KiB of output each. */
const DELIVERIES_AT_LEAST = (KEYS / 10) * EACH;
/** Each is a body of more than a MiB. */
const ESCAPES_AT_LEAST = 100;
const MiB = 2 ** 20;
const TEXT_LIMIT = 64 * 1024;

/** `right`: how many requests were served as they should be, and how many at least: what is refused weighs nothing. */
type Weight = { outcome: Outcome | null; right?: Measure; rows?: Measure[] };
/** Each time it is called it weighs on the process that has this port. */
type Work = (port: number) => Promise<Weight>;
/** Prepared first, so that only the weight itself is measured. `by_clients`: all of it comes from the heavy clients. */
type Kind = { name: string; by_clients: boolean; prepare(): Promise<Work> };

/** What the clients cost by themselves. */
const BESIDE = '  the same, while the clients send to a process that only rejects';
/** Of those that are pipelined and not read. What is refused at its first request weighs nothing. */
const BEGUN_AT_LEAST = KEYS / 2;

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
const folder = mkdtempSync(join(tmpdir(), 'runledger-weight-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const bodyFile = join(folder, 'body');
const only = new RegExp(process.env['BENCH_ONLY'] ?? '');
const measures: Measure[] = [];
let failed = false;
let server: TestDatabase;
let db: Db;
/** Of the worker that is alive. */
let consumer: string;
const load = fork(join(import.meta.dirname, 'support/weight_load.ts'));
t.teardown(() => load.disconnect());
const rejecting = fork(join(import.meta.dirname, 'support/weight_reject.ts'));
t.teardown(() => rejecting.kill());
const [rejecting_port] = (await once(rejecting, 'message')) as [number];

try {
  server = await ownServer(t, { max_wal_size: '4GB' });
  db = connect(server.urls.owner, { name: 'runledger bench', max: 8 });
  t.teardown(() => db.end({ timeout: 1 }));
  await setTier(db, { name: 'unlimited', per_minute: 0, concurrent: 0 });
  consumer = await aliveWorker();
  for (const kind of kinds()) if (only.test(kind.name)) await weigh(kind);
  publish('weight', 'does heavy work of 60 keys delay another account?', measures);
  failed = measures.some((one) => isMet(one) === false);
} catch (error) {
  console.error(error);
  failed = true;
}
for (const work of teardowns) await work();
process.exit(failed ? 1 : 0);

function kinds(): Kind[] {
  const reading = (
    name: string,
    stdout: Buffer,
    how: (requests: string[]) => Omit<Order, 'for_ms'>,
    right_at_least?: number,
  ) => ({
    name,
    by_clients: true,
    prepare: async () => {
      const order = how(await requestsFor(stdout));
      const send = await ordered(order);
      return async (port: number) => {
        const outcome = await send(port);
        if (order.deaf) {
          const begun = row('connections with the beginning of an answer', '', begunOf(outcome));
          return { outcome, rows: [{ ...begun, at_least: BEGUN_AT_LEAST }] };
        }
        const name = 'answers that were right to the last byte';
        const right = served(name, outcome.whole, right_at_least);
        return { outcome, right };
      };
    },
  });
  const atOnce = (requests: string[]) => ({
    requests,
    each: EACH,
    expected: bodyFile,
    deaf: false,
  });
  const pipelined = (requests: string[]) => ({
    requests: requests.map((one) => one.replace('Connection: close\r\n', '').repeat(EACH)),
    each: 1,
    expected: null,
    deaf: true,
  });
  return [
    reading('results of 4 MiB', Buffer.alloc(4 * MiB), atOnce, 50),
    reading('results of 1 MiB', Buffer.alloc(MiB), atOnce, 180),
    reading('results of 32 KB', Buffer.alloc(32_000), atOnce, 1_000),
    reading('results of 4 MiB, pipelined and not read', Buffer.alloc(4 * MiB), pipelined),
    reading('results of 32 KB, pipelined and not read', Buffer.alloc(32_000), pipelined),
    { name: 'submissions of escapes', by_clients: true, prepare: escapes },
    { name: 'webhooks of 64 KiB twice', by_clients: false, prepare: webhooks },
  ];
}

async function weigh({ name, by_clients, prepare }: Kind): Promise<void> {
  const web = await webProcess(t, server, {
    RUNLEDGER_LOG_LEVEL: 'warn',
    RUNLEDGER_QUEUE_CAPACITY: String(CAPACITY),
    RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK: 'on',
  });
  const other = await leanClient(web.port, submitRequest(await newKey('unlimited')));
  const router = await leanClient(web.port, 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const work = await prepare();
  await measure(other, router, wait(IDLE_MS / 2));
  const before = await measure(other, router, wait(IDLE_MS));
  const memory_before_mib = peakMemory(web);
  const from = performance.now();
  const working = work(web.port);
  const busy = await measure(other, router, working);
  const lasted_ms = performance.now() - from;
  const { outcome, right, rows = [] } = await working;
  if (busy.submit_ms.length === 0 || busy.ready_ms.length === 0)
    throw new Error(`${name}: nothing was asked beside it`);
  const machine_load = loadavg()[0]!;
  const memory_mib = peakMemory(web);
  const after = await measure(other, router, wait(IDLE_MS));
  // The same clients, and for as long: their requests go to a process that rejects all of them.
  const beside = by_clients ? await measure(other, router, rejected(work, lasted_ms)) : null;
  for (const client of [other, router]) client.close();
  await web.stop();
  const idle = quantile([...before.submit_ms, ...after.submit_ms], 0.99);
  const p99 = quantile(busy.submit_ms, 0.99);
  const dead = web.written.filter((line) => /declared dead|no heartbeat/.test(line)).length;
  measures.push(
    against(`${name}: another account's submit, p99`, 'ms', p99, idle, { at_most: P99_AT_MOST }),
    ...(beside ? [against(BESIDE, 'ms', quantile(beside.submit_ms, 0.99), idle)] : []),
    row("another account's submit, slowest", 'ms', Math.max(...busy.submit_ms)),
    row('/readyz, slowest', 'ms', Math.max(...busy.ready_ms), READY_AT_MOST_MS),
    row('/readyz that was not 200', '', busy.unready, 0),
    row('pools declared dead', '', dead, 0),
    row('memory of web, peak', 'MiB', memory_mib, MEMORY_AT_MOST_MIB),
    row('memory of web, before', 'MiB', memory_before_mib),
    ...rows,
    ...(outcome === null ? [] : answered(outcome)),
    ...(right === undefined ? [] : [right]),
    row('load average of the machine', '', machine_load),
  );
  console.error(`${name}: measured`);
}

function begunOf({ statuses }: Outcome): number {
  return statuses['200'] ?? 0;
}

async function rejected(work: Work, for_ms: number): Promise<void> {
  const [{ outcome }] = await Promise.all([work(rejecting_port), wait(for_ms)]);
  if (outcome?.statuses['503'] !== outcome?.connections)
    throw new Error(`not all were rejected: ${JSON.stringify(outcome)}`);
}

function row(name: string, unit: string, value: number, at_most?: number): Measure {
  return { name: `  ${name}`, unit, value, ...(at_most !== undefined && { at_most }) };
}

function served(name: string, value: number, at_least?: number): Measure {
  const most = KEYS * EACH;
  const bound = at_least !== undefined && { at_least: Math.min(at_least, most) };
  return { ...row(name, '', value), ...bound };
}

function answered({ statuses, wrong }: Outcome): Measure[] {
  const counts = Object.entries(statuses);
  return [
    ...counts.map(([status, count]) => row(`answers ${status}`, '', count)),
    ...(wrong === null ? [] : [row('answers with a wrong byte', '', wrong, 0)]),
  ];
}

async function measure(other: LeanClient, router: LeanClient, until: Promise<unknown>) {
  const seen = { submit_ms: [] as number[], ready_ms: [] as number[], unready: 0 };
  let over = false;
  // The caller awaits the work itself, and gets its failure.
  const end = () => {
    over = true;
  };
  until.then(end, end);
  const ask = async (
    client: LeanClient,
    every_ms: number,
    note: (s: number, ms: number) => void,
  ) => {
    while (!over) {
      const from = performance.now();
      const { status } = await client.ask();
      note(status, performance.now() - from);
      await wait(every_ms);
    }
  };
  await Promise.all([
    ask(other, OTHER_EVERY_MS, (status, took_ms) => {
      if (status !== 202) throw new Error(`another account's submission: ${status}`);
      seen.submit_ms.push(took_ms);
    }),
    ask(router, PROBE_EVERY_MS, (status, took_ms) => {
      seen.ready_ms.push(took_ms);
      if (status !== 200) seen.unready += 1;
    }),
  ]);
  return seen;
}

function peakMemory(web: WebProcess): number {
  const status = readFileSync(`/proc/${web.process.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)![1]) / 1024;
}

/** The clients have read the order before anything is measured: it has up to 70 MB. */
async function ordered(order: Omit<Order, 'for_ms'>): Promise<(port: number) => Promise<Outcome>> {
  const path = join(folder, 'order.json');
  writeFileSync(path, JSON.stringify({ ...order, for_ms: WINDOW_MS }));
  load.send({ order: path });
  await once(load, 'message');
  return async (port) => {
    load.send({ port });
    const [outcome] = (await once(load, 'message')) as [Outcome];
    return outcome;
  };
}

async function newKey(tier: string, account: string = randomUUID()): Promise<string> {
  const secret = newSecret('rl');
  await createKey(db, { account, tier, prefix: 'rl', secret_digest: secretDigest(secret) });
  return secret;
}

function newKeys(account?: string): Promise<string[]> {
  return Promise.all(Array.from({ length: KEYS }, () => newKey('beta', account)));
}

/** Like every worker it is alive through a lock and a heartbeat. */
async function aliveWorker(): Promise<string> {
  const consumer = randomUUID();
  const lock_key = 2 ** 48 + randomBytes(6).readUIntBE(0, 6);
  const heart = new Worker(new URL('../test/http/support/heart.ts', import.meta.url), {
    workerData: { url: server.urls.owner, consumer, languages: ['python'], lock_key },
  });
  t.teardown(() => heart.terminate());
  await once(heart, 'message');
  return consumer;
}

/** A request of each key for one result. The keys are of one account, so all get the same bytes. */
async function requestsFor(stdout: Buffer): Promise<string[]> {
  const account = randomUUID();
  const keys = await newKeys(account);
  const id = await ended(finisher(db, consumer), keys[0]!, { stdout });
  const [record] = await createResults(db).ended([id], true);
  writeFileSync(bodyFile, JSON.stringify(renderResult(await withPayloads(db, record!))));
  return keys.map((key) =>
    getRequest(key, `/api/result/${id}`).replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
  );
}

async function escapes(): Promise<Work> {
  const text = 'A'.repeat(TEXT_LIMIT);
  const content = { language: 'python', code: text, stdin: text, expected_output: text };
  const body = JSON.stringify(content).replaceAll('A', '\\u0041');
  const requests = (await newKeys()).map((key) => {
    const [head] = postRequest(key, '/api/submit', {}).split('Content-Length');
    return `${head}Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  });
  const send = await ordered({ requests, each: EACH, expected: null, deaf: false });
  return async (port) => {
    const outcome = await send(port);
    const right = served('submissions accepted', outcome.statuses['202'] ?? 0, ESCAPES_AT_LEAST);
    return { outcome, right };
  };
}

/** A backlog of six accounts, and once in a second a delivery of another account to the same host. */
async function webhooks(): Promise<Work> {
  const order: WebhookOrder = {
    database_url: server.urls.owner,
    consumer,
    keys: (await newKeys()).slice(0, KEYS / 10),
    other: await newKey('unlimited'),
    each: EACH,
    output_bytes: TEXT_LIMIT,
  };
  const backlog = fork(join(import.meta.dirname, 'support/weight_webhooks.ts'));
  t.teardown(() => backlog.kill());
  return async () => {
    backlog.send(order);
    const ended = once(backlog, 'exit').then(([code]) => {
      throw new Error(`the webhooks' process ended with ${code}`);
    });
    const [{ took_ms, arrived }] = (await Promise.race([once(backlog, 'message'), ended])) as [
      WebhookOutcome,
    ];
    ended.catch(() => {});
    const slowest = Math.max(...took_ms);
    const name = "another account's delivery to the same host, slowest";
    return {
      outcome: null,
      rows: [row(name, 'ms', slowest, DELIVERY_AT_MOST_MS)],
      right: served('heavy deliveries that arrived', arrived, DELIVERIES_AT_LEAST),
    };
  };
}
