/**
 * What do callers that only wait cost the others? One web process has 5,000 event streams and 5,000 held requests open, of
 * several keys, each for a submission of its own. Beside them one caller submits: how long does that take, over the same
 * without them, before and after? At the end the submissions run, and each stream and each held request must say so.
 */
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTo } from 'node:net';
import { join } from 'node:path';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect } from '../src/db.ts';
import { STREAMS_PER_KEY } from '../src/http/api/event_streams.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { webProcess } from '../test/http/support/web_process.ts';
import { ownServer } from '../test/support/database.ts';
import { getRequest, leanClient, postRequest, submitRequest } from './support/lean_client.ts';
import { against, type Measure, publish } from './support/report.ts';
import { median, quantile } from './support/stats.ts';

const EACH = Number(process.env['BENCH_HELD'] ?? 5_000);
const RUNS = Number(process.env['BENCH_RUNS'] ?? 1_500);
/** V8 optimises a function within three thousand calls, which any service in use has had. */
const WARM_UP = 3_000;
const BATCH = 100;
const AT_ONCE = 50;

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };

try {
  const server = await ownServer(t, { shared_buffers: '512MB', max_wal_size: '4GB' });
  const db = connect(server.urls.owner, { name: 'runledger bench', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  await setTier(db, { name: 'bench', per_minute: 0, concurrent: 0 });
  const newKey = async () => {
    const secret = newSecret('rl');
    const key = { account: randomUUID(), tier: 'bench', prefix: 'rl' };
    await createKey(db, { ...key, secret_digest: secretDigest(secret) });
    return secret;
  };
  /** Runs the programs of one language, in no time. */
  const work = async (language: string) => {
    const worker = fork(join(import.meta.dirname, 'support/empty_worker.ts'), {
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: server.urls.worker,
        RUNLEDGER_SLOTS: '24',
        RUNLEDGER_LANGUAGES: language,
      },
    });
    t.teardown(() => worker.kill('SIGKILL'));
    await once(worker, 'message');
  };
  const { port } = await webProcess(t, server, {
    RUNLEDGER_LOG_LEVEL: 'warn',
    RUNLEDGER_QUEUE_CAPACITY: '1000000',
  });
  await work('python');
  const submitter = await newKey();
  const keys = await inParts(Math.ceil(EACH / STREAMS_PER_KEY), newKey);
  const keyOf = (n: number) => keys[n % keys.length]!;

  await submit(port, submitter, WARM_UP);
  const before = await submit(port, submitter, RUNS);
  const ids = await waitingSubmissions(port, 2 * EACH, keyOf);
  const held = {
    streams: await inParts(EACH, (n) => openStream(port, keyOf(n), ids[n]!)),
    requests: await inParts(EACH, (n) => holdRequest(port, keyOf(n), ids[EACH + n]!)),
  };
  const beside = await submit(port, submitter, RUNS);
  const early = [...held.streams, ...held.requests].filter(({ has_ended }) => has_ended()).length;
  if (early > 0) throw new Error(`${early} were not held while the others were measured`);
  await work('cpp');
  const began = performance.now();
  await Promise.all([...held.streams, ...held.requests].map(({ completed }) => completed));
  const ending_ms = performance.now() - began;
  const after = await submit(port, submitter, RUNS);

  const alone = (q: number) => (quantile(before, q) + quantile(after, q)) / 2;
  const measures: Measure[] = [
    against(
      `submit and wait, 1 client, beside ${EACH} streams and ${EACH} held requests, over without: p50`,
      'ms',
      median(beside),
      alone(0.5),
      { at_most: 1.3 },
    ),
    against('  p99', 'ms', quantile(beside, 0.99), alone(0.99)),
    {
      name: `each of these ${2 * EACH} submissions ran, and its caller knew`,
      unit: '/s',
      value: (2 * EACH) / (ending_ms / 1000),
    },
  ];
  publish('held', 'what do callers that only wait cost the others?', measures);
} finally {
  for (const work of teardowns) await work();
}

async function submit(port: number, key: string, runs: number): Promise<number[]> {
  const client = await leanClient(port, submitRequest(key, '/api/submit?wait=true'));
  const ms: number[] = [];
  while (ms.length < runs) {
    const from = performance.now();
    const { status, body } = await client.ask();
    ms.push(performance.now() - from);
    if (status !== 200 || JSON.parse(body).verdict !== 'AC') throw new Error(`${status}: ${body}`);
  }
  client.close();
  return ms;
}

/** In a language that no worker runs yet. */
async function waitingSubmissions(
  port: number,
  count: number,
  keyOf: (n: number) => string,
): Promise<string[]> {
  const client = await leanClient(port);
  const ids: string[] = [];
  const of = new Map<string, number[]>();
  for (let n = 0; n < count; n += 1) of.set(keyOf(n), [...(of.get(keyOf(n)) ?? []), n]);
  for (const [key, all] of of) {
    for (let at = 0; at < all.length; at += BATCH) {
      const some = all.slice(at, at + BATCH);
      const items = some.map(() => ({ language: 'cpp', code: 'int main() {}' }));
      const { status, body } = await client.ask(postRequest(key, '/api/submissions', items));
      if (status !== 202) throw new Error(`${status}: ${body}`);
      for (const [i, { id }] of JSON.parse(body).entries()) ids[some[i]!] = id;
    }
  }
  client.close();
  return ids;
}

type Held = { has_ended: () => boolean; completed: Promise<void> };

/** Resolves when the first event has come. */
async function openStream(port: number, key: string, id: string): Promise<Held> {
  const socket = connectTo({ port, host: '127.0.0.1' });
  const completed = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
    if (text.includes('event: accepted')) opened.resolve();
    if (text.includes('event: completed')) {
      completed.resolve();
      socket.destroy();
    }
  });
  socket.on('error', completed.reject);
  socket.on('close', () => completed.reject(new Error(`a stream was cut after ${text}`)));
  completed.promise.catch(opened.reject);
  socket.write(getRequest(key, `/api/result/${id}/events`));
  await opened.promise;
  let ended = false;
  void completed.promise.then(() => {
    ended = true;
  });
  return { has_ended: () => ended, completed: completed.promise };
}

/** Asks again when a wait is over, as a client does. */
async function holdRequest(port: number, key: string, id: string): Promise<Held> {
  const client = await leanClient(port, getRequest(key, `/api/result/${id}?wait=true`));
  let ended = false;
  const hold = async () => {
    for (;;) {
      const { status, body } = await client.ask();
      if (status !== 200) throw new Error(`${status}: ${body}`);
      const { id: answered, status: state, verdict } = JSON.parse(body);
      if (state === 'pending' || state === 'running') continue;
      ended = true;
      client.close();
      if (answered !== id || verdict !== 'AC') throw new Error(body);
      return;
    }
  };
  const completed = hold();
  completed.catch(() => {});
  return { has_ended: () => ended, completed };
}

/** A server is not asked for thousands of connections in one moment. */
async function inParts<T>(count: number, make: (n: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  while (made.length < count) {
    const room = Math.min(AT_ONCE, count - made.length);
    made.push(
      ...(await Promise.all(Array.from({ length: room }, (_, n) => make(made.length + n)))),
    );
  }
  return made;
}
