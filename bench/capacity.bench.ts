/**
 * Are the figures of `./runledger capacity` still true? It starts PostgreSQL, one web process and eight workers with their
 * launchers, each worker in a network namespace of its own where that is possible, and drives them at a fixed rate. CPU times
 * come from /proc, sizes from PostgreSQL. Each figure is printed beside the one in src/cli/capacity_figures.ts; then the cores
 * that the model predicts for another rate beside those measured. Exits 1 where a ratio is outside the bounds.
 *
 * What it is not: all processes share the cores, the disk and the caches of one machine, and the network is a bridge in the
 * kernel. So it shows what work is done for a submission, and not how a real network or a busy disk delays it.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { FIGURES, LANGUAGE_FIGURES } from '../src/cli/capacity_figures.ts';
import { loadOf } from '../src/cli/capacity_model.ts';
import { connect } from '../src/db.ts';
import { BY_NAME } from '../src/languages/common/registry.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { realWorker } from '../test/http/support/real_worker.ts';
import { webProcess } from '../test/http/support/web_process.ts';
import { admit, makeNetwork, noNetworks, ON_THE_NETWORK, urlFrom } from '../test/queue/network.ts';
import { ownServer } from '../test/support/database.ts';
import { cpuOfTree, treeOf } from '../test/support/processes.ts';
import { type LeanClient, leanClient, postRequest } from './support/lean_client.ts';
import { against, isMet, type Measure, publish } from './support/report.ts';
import { median } from './support/stats.ts';

const WORKERS = Number(process.env['BENCH_WORKERS'] ?? 8);
const RATE = Number(process.env['BENCH_RATE'] ?? 60);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 25);
const SLOTS = '2';
const WARM_S = 5;
const IDLE_S = 15;
/** The rate by which the model is checked, of the rate by which the figures are measured. */
const OTHER_RATE = 0.5;
const PAYLOAD_BYTES = 4096;
const PER_LANGUAGE = Number(process.env['BENCH_RUNS'] ?? 9);
/** At most. A worker that has just started still makes the precompiled headers and the class archives. */
const SETTLE_MS = 60_000;
/** BENCH_ONLY=driven,languages,others: only these parts. */
const ONLY = (process.env['BENCH_ONLY'] ?? '').split(',').filter(Boolean);
/** One part in five, up or down. */
const BOUNDS = { at_least: 0.8, at_most: 1.25 };
/** Of a small difference between two measurements. */
const LOOSE = { at_least: 0.5, at_most: 2 };

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
const apart = noNetworks() === null;
let number = 0;
// A namespace would outlive us.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => tearDown().finally(() => process.exit(1)));

try {
  const measures: Measure[] = [];
  for (const [name, part] of Object.entries({ driven, languages, others }))
    if (ONLY.length === 0 || ONLY.includes(name)) measures.push(...(await part()));
  publish('capacity', 'are the figures of `./runledger capacity` still true?', measures);
  const outside = measures.filter((measure) => isMet(measure) === false);
  for (const { name, ratio } of outside)
    console.error(`OUTSIDE THE BOUNDS: ${name.trim()}: ${ratio?.toFixed(2)} times the figure`);
  if (outside.length > 0) process.exitCode = 1;
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
await tearDown();
process.exit();

async function tearDown(): Promise<void> {
  for (const work of teardowns.splice(0)) await work();
}

function beside(
  name: keyof typeof FIGURES,
  measured: number,
  extra: Partial<Measure> = {},
): Measure {
  const { what, unit, value } = FIGURES[name];
  return against(what, unit, measured, value, { ...BOUNDS, ...extra });
}

async function driven(): Promise<Measure[]> {
  const service = await startService({ RUNLEDGER_LANGUAGES: 'python' });
  const small = () => python('');
  const large = () => python(randomBytes((PAYLOAD_BYTES * 3) / 4).toString('base64'));
  const resting = () => measured(service, () => wait(IDLE_S * 1000).then(() => 0));
  const driving = (rate: number, seconds: number, submission = small) =>
    measured(service, () => drive(service, rate, seconds, submission));
  await service.hire(1);
  await drive(service, RATE, WARM_S, small);
  const idle_one = await resting();
  const one = await driving(RATE, SECONDS);
  const larger = await driving(RATE, SECONDS, large);
  await service.hire(WORKERS - 1);
  await drive(service, RATE, WARM_S, small);
  const idle = await resting();
  const all = await driving(RATE, SECONDS);
  const other = await driving(RATE * OTHER_RATE, SECONDS);
  const [events] = await service.owner<{ n: number }[]>`
    select (count(*) / count(distinct stream))::float8 as n from runledger.events
    where stream in (select id from runledger.submissions)`;
  await tearDown();
  const a_second = (of: keyof Measured, when: Measured) => when[of] / when.seconds;
  /** Of one submission, without what the processes take while nothing is sent. */
  const each = (of: keyof Measured, when: Measured, rest: Measured) =>
    (when[of] - a_second(of, rest) * when.seconds) / when.count;
  const each_ms = (of: keyof Measured) => each(of, one, idle_one) * 1000;
  const further_ms = (of: keyof Measured) =>
    (each(of, all, idle) * 1000 - each_ms(of)) / (WORKERS - 1);
  const payload = (of: 'data_bytes' | 'wal_bytes') =>
    (each(of, larger, idle_one) - each(of, one, idle_one)) / PAYLOAD_BYTES;
  const idle_ms = (of: keyof Measured) => a_second(of, idle) * 1000;
  const predicted = loadOf(
    { per_second: other.count / other.seconds, languages: { python: 1 }, cpu_seconds: 0 },
    { web: 1, workers: WORKERS },
  );
  const worker_cores = a_second('worker', other) + a_second('boxes', other);
  const cores = { database: a_second('database', other), web: a_second('web', other) };
  return [
    { name: 'submissions driven', value: one.count + all.count + other.count, unit: '' },
    { name: '  a second', value: a_second('count', all), unit: '/s' },
    { name: '  workers in network namespaces of their own', value: apart ? WORKERS : 0, unit: '' },
    { name: '  cores busy with the boxes', value: a_second('boxes', all), unit: 'cores' },
    beside('database_ms', each_ms('database')),
    beside('web_ms', each_ms('web')),
    beside('worker_ms', each_ms('worker')),
    beside('further_database_ms', further_ms('database'), LOOSE),
    beside('further_worker_ms', further_ms('worker'), LOOSE),
    beside('idle_database_ms', idle_ms('database') / (WORKERS + 1)),
    beside('idle_web_ms', idle_ms('web')),
    beside('idle_worker_ms', (idle_ms('worker') + idle_ms('boxes')) / WORKERS),
    beside('events', events!.n),
    beside('data_bytes', each('data_bytes', one, idle_one)),
    beside('wal_bytes', each('wal_bytes', one, idle_one)),
    beside('payload_data', payload('data_bytes')),
    beside('payload_wal', payload('wal_bytes')),
    against(
      `cores at ${RATE * OTHER_RATE}/s, over the prediction`,
      'cores',
      cores.database + cores.web + worker_cores,
      predicted.database + predicted.web + predicted.worker,
      BOUNDS,
    ),
    against('  database', 'cores', cores.database, predicted.database),
    against('  web', 'cores', cores.web, predicted.web),
    against('  workers with their boxes', 'cores', worker_cores, predicted.worker),
  ];
}

/** Sources that were never seen, one at a time, on one worker with everything ready. */
async function languages(): Promise<Measure[]> {
  const names = Object.keys(LANGUAGE_FIGURES);
  const service = await startService({
    RUNLEDGER_LANGUAGES: names.join(),
    RUNLEDGER_PRECOMPILED_HEADERS: 'on',
  });
  await service.hire(1);
  const measures: Measure[] = [];
  for (const name of names) {
    const language = BY_NAME.get(name)!;
    const comment = language.hello.includes('#include') || name.startsWith('java') ? '//' : '#';
    const submission = () => ({
      language: name,
      code: `${language.hello}\n${comment} ${number++}\n`,
    });
    const took: number[] = [];
    const once = async () => {
      const began = performance.now();
      await service.run(submission());
      took.push(performance.now() - began);
    };
    for (let n = 0; n < PER_LANGUAGE / 3; n += 1) await once();
    await settled(service);
    took.length = 0;
    const { boxes, count } = await measured(service, async () => {
      for (let n = 0; n < PER_LANGUAGE; n += 1) await once();
      await settled(service);
      return PER_LANGUAGE;
    });
    const { box_ms, wall_ms } = LANGUAGE_FIGURES[name]!;
    measures.push(
      against(`${name}: CPU in boxes`, 'ms', (boxes * 1000) / count, box_ms, BOUNDS),
      against(`${name}: time from request to result`, 'ms', median(took), wall_ms, BOUNDS),
    );
  }
  await tearDown();
  return measures;
}

/** What was prepared after the last run belongs to it: spare compilers and interpreters. */
async function settled(service: Service): Promise<void> {
  const until = performance.now() + SETTLE_MS;
  for (let before = -1; performance.now() < until; await wait(500)) {
    const { boxes } = service.cpu();
    if (boxes - before < 0.02) return;
    before = boxes;
  }
  throw new Error(`the worker still prepares something after ${SETTLE_MS / 1000} s`);
}

/** The figures that the other benches print, from shorter runs of them. */
async function others(): Promise<Measure[]> {
  const ledger = rowsOf('ledger', {
    BENCH_ROUNDS: '1',
    BENCH_EVENTS: '600000',
  });
  const service = rowsOf('service', {});
  return [
    beside('tree_bytes', ledger('  bytes of its hashes in the tree')),
    beside('seal_us', ledger('  CPU of one, in web and PostgreSQL')),
    beside('verified', ledger('  on one core, with PostgreSQL')),
    // More is no problem.
    beside('passed', service('Python hello: rate'), {
      at_most: Number.POSITIVE_INFINITY,
    }),
  ];
}

function rowsOf(bench: string, env: Record<string, string>): (name: string) => number {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-bench-'));
  try {
    const args = [...process.execArgv, join(import.meta.dirname, `${bench}.bench.ts`)];
    const options = { env: { ...process.env, ...env, BENCH_DIR: folder } };
    // It may miss goals of its own.
    spawnSync(process.execPath, args, { ...options, stdio: ['ignore', 'ignore', 'inherit'] });
    const { measures } = JSON.parse(readFileSync(join(folder, `${bench}.json`), 'utf8'));
    return (name) => {
      const row = (measures as Measure[]).find((measure) => measure.name === name);
      if (!row) throw new Error(`${bench}.bench.ts has no row "${name}"`);
      return row.value;
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

type Service = Awaited<ReturnType<typeof startService>>;

async function startService(env: Record<string, string>) {
  const server = await ownServer(t, apart ? ON_THE_NETWORK : {});
  if (apart) await admit(server);
  const network = apart ? makeNetwork(t) : null;
  const owner = connect(server.url, { name: 'bench', max: 1 });
  const superuser = connect(server.superuser_url, { name: 'bench', max: 1 });
  t.teardown(() => Promise.all([owner, superuser].map((db) => db.end({ timeout: 1 }))));
  await setTier(owner, { name: 'bench', per_minute: 0, concurrent: 0 });
  const key = newSecret('rl');
  await createKey(owner, {
    account: 'bench',
    tier: 'bench',
    prefix: 'rl',
    secret_digest: secretDigest(key),
  });
  const web = await webProcess(t, server, {
    ...env,
    RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64'),
    RUNLEDGER_LOG_LEVEL: 'warn',
  });
  const isWorker = (command: string) => /main\.js worker/.test(command);
  const clients: LeanClient[] = [];
  t.teardown(() => {
    for (const client of clients) client.close();
  });
  const hireOne = () => {
    const machine = network?.machine();
    const url = network ? urlFrom(network, server.urls.worker) : server.urls.worker;
    const variables = {
      ...env,
      DATABASE_URL: url,
      RUNLEDGER_DATABASE_TLS: 'disable',
      RUNLEDGER_SLOTS: SLOTS,
      // Each launcher counts its own programs only, and the rate leaves the processors time.
      RUNLEDGER_CPU_RESERVE_PERCENT: '0',
    };
    return realWorker(t, server, variables, machine?.within);
  };
  return {
    owner,
    /** Resolves when so many more workers are ready. */
    async hire(workers: number): Promise<void> {
      const ready = await Promise.all(Array.from({ length: workers }, hireOne));
      for (const reason of ready) if (reason) throw new Error(reason);
    },
    async run(submission: object): Promise<void> {
      const client = clients.pop() ?? (await leanClient(web.port));
      const answer = await client.ask(postRequest(key, '/api/submit?wait=true', submission));
      clients.push(client);
      if (answer.status !== 200 || JSON.parse(answer.body).verdict !== 'AC')
        throw new Error(`${answer.status}: ${answer.body}`);
    },
    /** CPU seconds so far. */
    cpu() {
      const tree = treeOf(process.pid);
      const roots = tree.filter(({ command }) => isWorker(command));
      const worker = roots.reduce((sum, { cpu_s }) => sum + cpu_s, 0);
      const with_boxes = roots.reduce((sum, { pid }) => sum + cpuOfTree(pid), 0);
      return {
        database: cpuOfTree(server.pid()),
        web: cpuOfTree(web.process.pid!),
        worker,
        boxes: with_boxes - worker,
      };
    },
    async bytes() {
      const [row] = await superuser<{ data: number; wal: number }[]>`
        select pg_database_size('runledger')::float8 as data,
          (pg_current_wal_insert_lsn() - '0/0')::float8 as wal`;
      return row!;
    },
  };
}

type Measured = Record<
  'seconds' | 'count' | 'database' | 'web' | 'worker' | 'boxes' | 'data_bytes' | 'wal_bytes',
  number
>;

async function measured(service: Service, work: () => Promise<number>): Promise<Measured> {
  const [bytes, cpu, began] = [await service.bytes(), service.cpu(), performance.now()];
  const count = await work();
  const [seconds, used, sizes] = [
    (performance.now() - began) / 1000,
    service.cpu(),
    await service.bytes(),
  ];
  return {
    seconds,
    count,
    database: used.database - cpu.database,
    web: used.web - cpu.web,
    worker: used.worker - cpu.worker,
    boxes: used.boxes - cpu.boxes,
    data_bytes: sizes.data - bytes.data,
    wal_bytes: sizes.wal - bytes.wal,
  };
}

/** Sends so many a second, whether or not earlier ones were answered; resolves to their number when all were. */
async function drive(
  service: Service,
  per_second: number,
  seconds: number,
  submission: () => object,
): Promise<number> {
  const began = performance.now();
  const sent: Promise<void>[] = [];
  while (sent.length < per_second * seconds) {
    const due = began + (sent.length * 1000) / per_second;
    const early = due - performance.now();
    if (early > 0) await wait(early);
    sent.push(service.run(submission()));
    // One that fails is reported below, when all have ended.
    sent.at(-1)!.catch(() => {});
  }
  await Promise.all(sent);
  return sent.length;
}

function python(payload: string): object {
  return { language: 'python', code: `print("hello")\n# ${number++} ${payload}\n` };
}
