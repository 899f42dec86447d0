/** How long does a program still run after the call that cancels it? Other clients keep the other slot busy all the time. */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect } from '../src/db.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { realWorker } from '../test/http/support/real_worker.ts';
import { webProcess } from '../test/http/support/web_process.ts';
import { ownServer } from '../test/support/database.ts';
import { leanClient, postRequest } from './support/lean_client.ts';
import { type Measure, publish } from './support/report.ts';
import { median, quantile } from './support/stats.ts';

const COUNT = Number(process.env['BENCH_COUNT'] ?? 50);
const OTHERS = 8;
const ENDLESS = 'while True: pass';
const HELLO = 'print(6 * 7)';

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
try {
  const server = await ownServer(t);
  const db = connect(server.urls.owner, { name: 'runledger bench', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  await setTier(db, { name: 'bench', per_minute: 0, concurrent: 0 });
  const key = newSecret('rl');
  const named = { account: 'bench', tier: 'bench', prefix: 'rl' };
  await createKey(db, { ...named, secret_digest: secretDigest(key) });
  const { port } = await webProcess(t, server, { RUNLEDGER_LOG_LEVEL: 'warn' });
  // A program of the zygote has the zygote's command line, by which it could not be found.
  const env = {
    RUNLEDGER_SLOTS: '2',
    RUNLEDGER_PYTHON_ZYGOTE: 'off',
    RUNLEDGER_LANGUAGES: 'python',
  };
  const cannot = await realWorker(t, server, env);
  if (cannot !== null) throw new Error(cannot);

  const client = await leanClient(port);
  const beside = await Promise.all(Array.from({ length: OTHERS }, () => leanClient(port)));
  let done = false;
  const hello = postRequest(key, '/api/submit?wait=true', { language: 'python', code: HELLO });
  const load = beside.map(async (one) => {
    while (!done) {
      const { status, body } = await one.ask(hello);
      if (status !== 200 || JSON.parse(body).verdict !== 'AC')
        throw new Error(`another client got ${status}: ${body}`);
    }
  });
  const answered_ms: number[] = [];
  const ended_ms: number[] = [];
  for (let n = 0; n < COUNT; n += 1) {
    const token = randomUUID();
    const submission = { language: 'python', code: ENDLESS, args: [token] };
    const accepted = await client.ask(postRequest(key, '/api/submit', submission));
    if (accepted.status !== 202) throw new Error(`a submission got ${accepted.status}`);
    const { id } = JSON.parse(accepted.body);
    const pid = await pidOf(token);
    const began = performance.now();
    const cancelling = client.ask(
      `DELETE /api/submissions/${id} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\n\r\n`,
    );
    void cancelling.then(() => answered_ms.push(performance.now() - began));
    while (commandOf(pid).includes(token)) await wait(1);
    ended_ms.push(performance.now() - began);
    const { status, body } = await cancelling;
    if (status !== 200) throw new Error(`DELETE answered ${status}`);
    if (JSON.parse(body).status !== 'cancelled') throw new Error(`it was not cancelled: ${body}`);
  }
  done = true;
  await Promise.all(load);
  for (const one of [client, ...beside]) one.close();
  const measures: Measure[] = [
    { name: 'cancel a running program: it has ended, p50', unit: 'ms', value: median(ended_ms) },
    { name: '  p90', unit: 'ms', value: quantile(ended_ms, 0.9), at_most: 100 },
    { name: '  the slowest', unit: 'ms', value: Math.max(...ended_ms) },
    { name: '  the answer of the call, p50', unit: 'ms', value: median(answered_ms) },
  ];
  publish('cancel', 'how long does a program run after its submission was cancelled?', measures);
} finally {
  for (const work of teardowns) await work();
}

async function pidOf(token: string): Promise<number> {
  for (const began = performance.now(); performance.now() - began < 60_000; ) {
    const found = readdirSync('/proc').find(
      // Init has the launcher's command line.
      (name) => /^\d+$/.test(name) && commandOf(Number(name)).includes(token),
    );
    if (found !== undefined) return Number(found);
    await wait(5);
  }
  throw new Error('the program did not start within a minute');
}

/** Empty for one that has ended. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
