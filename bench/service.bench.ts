/**
 * Is asking Runledger faster than running the bare command? Everything runs on this machine: PostgreSQL with fsync, web,
 * worker and the client. The bare commands run between the measures, so that both see the same machine.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { createBare } from './support/bare.ts';
import { picture } from './support/picture.ts';
import { type Program, programs, source } from './support/programs.ts';
import { against, BENCH_DIR, type Measure, publish } from './support/report.ts';
import { type Service, startService } from './support/service.ts';
import { median, quantile } from './support/stats.ts';

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
const service = await startService();
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
  const report = publish(
    'service',
    'does a durable answer arrive sooner than from the bare command?',
    [...latency, ...rate, ...cpu],
  );
  const drawn = [...latency.filter((m) => m.name.endsWith('p50')), ...rate];
  writeFileSync(
    join(BENCH_DIR, 'service.svg'),
    picture(`Runledger, ${report.at.slice(0, 10)}`, drawn),
  );
} finally {
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
  const answer = await service.run(program.language, code);
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
  const until = performance.now() + LATENCY_S * 1000;
  while (performance.now() < until || ours.length < 15) {
    const turn_until = performance.now() + TURN_MS;
    let runs = 0;
    for (; runs === 0 || performance.now() < turn_until; runs++) ours.push(await once(program));
    floor.push(...(await bare.run(program, 1, runs)).ms);
  }
  return [
    against(`${program.name}: p50`, 'ms', median(ours), median(floor), {
      at_most: program.p50_at_most,
    }),
    against(`${program.name}: p99`, 'ms', quantile(ours, 0.99), quantile(floor, 0.99)),
  ];
}

/** 16 clients, in turn with bare commands, two at a time. */
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
    const { all_s } = await bare.run(program, 2, batch);
    bare_done += batch;
    bare_s += all_s;
    batch = Math.max(8, Math.round((batch / all_s) * WINDOW_S));
  }
  return against(`${program.name}: rate`, 'runs/s', done / ours_s, bare_done / bare_s, {
    at_least: program.rate_at_least,
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
  const before = service.cpu_s();
  const done = await crowd(programs[0]!, 2 * WINDOW_S);
  const after = service.cpu_s();
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
  ];
}
