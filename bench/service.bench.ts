/**
 * Is asking Runledger faster than running the bare command? Everything runs on this machine: PostgreSQL with fsync, web,
 * worker and the client. The bare commands run between the measures, so that both see the same machine.
 */
import { setTimeout as wait } from 'node:timers/promises';
import postgres from 'postgres';
import { createBare, LANES } from './support/bare.ts';
import { type Program, programs, source } from './support/programs.ts';
import { against, type Measure, publish } from './support/report.ts';
import { type Service, startService } from './support/service.ts';
import { median, quantile } from './support/stats.ts';

/** What a result that is on disk cannot do without. */
const LEAST = {
  program: 'C++ seen before',
  name: 'over the program alone, and a durable insert of one row',
  at_most: 2.5,
};
const CLIENTS = 16;
const ROUNDS = 3;
// The time for one program in the two halves of the bench: latency, and rate.
const LATENCY_S = 8;
const WINDOW_S = 3;
const TURN_MS = 100;
const WARM_S = 5;
/** The start builds headers and spare compilers, which uses the processors for some seconds. */
const SETTLE_S = 15;

const bare = createBare();
// With a slot for each core, the ratio of the rates would grow with the cores.
const service = await startService({ RUNLEDGER_SLOTS: `${LANES}` });
const inserts = await durableInserts(service);
let number = 0;
try {
  await wait(SETTLE_S * 1000);
  const latency: Measure[] = [];
  const rate: Measure[] = [];
  for (const program of programs) {
    await warmUp(program);
    latency.push(...(await latencies(program)));
    rate.push(await rates(program));
  }
  const cpu = await cpuPerSubmission();
  publish('service', 'does a durable answer arrive sooner than from the bare command?', [
    ...latency,
    ...rate,
    ...cpu,
  ]);
} finally {
  await inserts.end();
  await service.stop();
  bare.remove();
}

/** Brings caches, spare processes and pages to the state of a service in use. */
async function warmUp(program: Program): Promise<void> {
  const began = performance.now();
  for (let n = 0; n < 20 && performance.now() - began < WARM_S * 1000; n++) await once(program);
}

async function once(program: Program): Promise<number> {
  const code = source(program, number++);
  const start = performance.now();
  const { language, stdin } = program;
  const answer = await service.judge({ language, code, ...(stdin && { stdin }) });
  const ms = performance.now() - start;
  if (answer.verdict !== 'AC' || answer.stdout !== program.expected) {
    throw new Error(`${program.name}: ${JSON.stringify(answer)}`);
  }
  return ms;
}

/**
 * One client with one request at a time. After each turn of requests there are as many bare runs. A turn is short, so that
 * both see the same machine, but long enough that most runs do not find the processor's caches filled by the other kind.
 */
async function latencies(program: Program): Promise<Measure[]> {
  const ours: number[] = [];
  const floor: number[] = [];
  const least: number[] = [];
  const until = performance.now() + LATENCY_S * 1000;
  while (performance.now() < until || ours.length < 15) {
    const turn_until = performance.now() + TURN_MS;
    let runs = 0;
    for (; runs === 0 || performance.now() < turn_until; runs++) ours.push(await once(program));
    floor.push(...(await bare.run(program, 1, runs)).ms);
    if (program.name === LEAST.program) {
      const alone = await bare.run({ ...program, compiled_before: true }, 1, runs);
      for (const ms of alone.ms) least.push(ms + (await inserts.one()));
    }
  }
  const p50 = median(ours);
  return [
    against(`${program.name}: p50`, 'ms', p50, median(floor), {
      ...(program.p50_at_most !== null && { at_most: program.p50_at_most }),
    }),
    ...(least.length === 0
      ? []
      : [against(`  ${LEAST.name}`, 'ms', p50, median(least), { at_most: LEAST.at_most })]),
    against(`${program.name}: p99`, 'ms', quantile(ours, 0.99), quantile(floor, 0.99)),
  ];
}

/** Inserts of one row by a prepared statement, each on disk when it is answered. */
async function durableInserts(service: Service) {
  const db = postgres(await service.superuserUrl(), { max: 1 });
  await db`create table public.floor (id bigint generated always as identity primary key, text text)`;
  return {
    async one(): Promise<number> {
      const began = performance.now();
      await db`insert into public.floor (text) values (${'hello'})`;
      return performance.now() - began;
    },
    end: () => db.end(),
  };
}

/** 16 clients, in turn with bare commands, as many at a time as the service has slots. */
async function rates(program: Program): Promise<Measure> {
  let done = 0;
  let ours_s = 0;
  let bare_done = 0;
  let bare_s = 0;
  let batch = 8;
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    done += await crowd(program, WINDOW_S);
    ours_s += (performance.now() - start) / 1000;
    const { all_s } = await bare.run(program, LANES, batch);
    bare_done += batch;
    bare_s += all_s;
    batch = Math.max(8, Math.round((batch / all_s) * WINDOW_S));
  }
  return against(`${program.name}: rate`, 'runs/s', done / ours_s, bare_done / bare_s, {
    ...(program.rate_at_least !== null && { at_least: program.rate_at_least }),
  });
}

async function crowd(program: Program, seconds: number): Promise<number> {
  const until = performance.now() + seconds * 1000;
  let done = 0;
  const client = async () => {
    while (performance.now() < until) {
      await once(program);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return done;
}

async function cpuPerSubmission(): Promise<Measure[]> {
  const [before, all_before] = [service.cpu_s(), service.cpu_all_s()];
  const done = await crowd(programs[0]!, 2 * WINDOW_S);
  const [after, all_after] = [service.cpu_s(), service.cpu_all_s()];
  const everything = ((all_after - all_before) / done) * 1000;
  const each = (kind: keyof ReturnType<Service['cpu_s']>) =>
    ((after[kind] - before[kind]) / done) * 1000;
  const kinds = (['web', 'worker', 'postgres'] as const).map((kind) => ({
    name: `CPU per submission outside the box: ${kind}`,
    value: each(kind),
    unit: 'ms',
  }));
  const value = kinds.reduce((sum, one) => sum + one.value, 0);
  return [
    ...kinds,
    { name: 'CPU per submission outside the box: all', value, unit: 'ms', at_most: 3 },
    { name: 'CPU per submission of everything', value: everything, unit: 'ms', at_most: 5.5 },
  ];
}
