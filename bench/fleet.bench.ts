/**
 * What do a long history, more processes and more accounts cost? Services run beside each other, each with a PostgreSQL of its
 * own, and are asked in turn, so that all see the same machine. Each answer is checked. BENCH_SUBMISSIONS: the longest history.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { rebuild } from '../src/store/rebuild.ts';
import { type BenchFleet, FLEET_ACCOUNTS, startFleet } from './support/fleet.ts';
import { growLog } from './support/grow_log.ts';
import { against, isMet, type Measure, publish } from './support/report.ts';
import { median } from './support/stats.ts';

const LONGEST = Number(process.env['BENCH_SUBMISSIONS'] ?? 1_000_000);
const SIZES = [1_000, 10_000, 100_000, 1_000_000].filter((size) => size <= LONGEST);
const ROUNDS = 3;
const WINDOW_MS = Number(process.env['BENCH_ROUND_MS'] ?? 3_000);
const CLIENTS = 16;
const CROWD = 64;
const WARM_RUNS = 200;
const AT_ONCE = 25_000;
const SEALED_WITHIN_S = 600;

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
try {
  const measures = [...(await history()), ...(await processes()), ...(await accounts())];
  publish('fleet', 'what do a long history, more processes and more accounts cost?', measures);
  if (measures.some((measure) => isMet(measure) === false)) process.exitCode = 1;
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
await tearDown();
process.exit();

async function tearDown(): Promise<void> {
  for (const work of teardowns.splice(0)) await work();
}

async function history(): Promise<Measure[]> {
  const shape = { webs: 1, workers: 1, slots: 2 };
  const [long, empty] = [await startFleet(t, shape), await startFleet(t, shape)];
  for (const fleet of [long, empty]) await warmUp(fleet);
  const measures: Measure[] = [];
  let grown = 0;
  for (const size of SIZES) {
    await growLog(long.owner, size - grown, AT_ONCE);
    await rebuild(long.owner);
    await sealed(long);
    grown = size;
    const one = await inTurn([long.hello, empty.hello], 1);
    const many = await inTurn([long.hello, empty.hello], CLIENTS);
    const name = `${size.toLocaleString('en')} submissions in the log, over none`;
    measures.push(
      against(`${name}: p50`, 'ms', median(one[0]!.ms), median(one[1]!.ms), { at_most: 1.1 }),
      against(`${name}: rate`, 'runs/s', many[0]!.rate, many[1]!.rate, { at_least: 0.9 }),
    );
  }
  await tearDown();
  return measures;
}

async function processes(): Promise<Measure[]> {
  const one = await startFleet(t, { webs: 1, workers: 1, slots: 2 });
  const two = await startFleet(t, { webs: 1, workers: 2, slots: 1 });
  const many = await startFleet(t, { webs: 2, workers: 4, slots: 1 });
  for (const fleet of [one, two, many]) await warmUp(fleet);
  const [of_one, of_two, of_many] = await inTurn(
    [one, two, many].map(({ hello }) => hello),
    CROWD,
  );
  const over = `over one web and a worker of two slots, ${CROWD} clients`;
  return [
    against(`one web and two workers of one slot, ${over}`, 'runs/s', of_two!.rate, of_one!.rate, {
      at_least: 0.9,
    }),
    against(`two web and four workers of one slot, ${over}`, 'runs/s', of_many!.rate, of_one!.rate),
  ];
}

/** An account never runs in the warm interpreter of another. */
async function accounts(): Promise<Measure[]> {
  await tearDown();
  const fleet = await startFleet(t, { webs: 1, workers: 1, slots: 2 });
  await warmUp(fleet, FLEET_ACCOUNTS);
  const [one, several] = await inTurn(
    [() => fleet.hello(), () => fleet.hello(FLEET_ACCOUNTS)],
    CLIENTS,
  );
  const name = `${FLEET_ACCOUNTS} accounts in turn, over one, ${CLIENTS} clients`;
  return [against(name, 'runs/s', several!.rate, one!.rate, { at_least: 0.75 })];
}

/** Brings caches and spare processes to the state of a service in use. */
async function warmUp(fleet: BenchFleet, accounts = 1): Promise<void> {
  for (let n = 0; n < WARM_RUNS; n += 1) await fleet.hello(accounts);
}

/** Until all that was appended is signed: else that would be done beside what is measured. */
async function sealed({ owner }: BenchFleet): Promise<void> {
  for (let n = 0; n < SEALED_WITHIN_S; n += 1) {
    const [row] = await owner<{ left: number }[]>`
      select (select count(*) from runledger.events)
        - coalesce((select max(size) from runledger.checkpoints), 0) as left`;
    if (Number(row!.left) === 0) return;
    await wait(1_000);
  }
  throw new Error('the log is not sealed');
}

async function inTurn(hellos: readonly (() => Promise<unknown>)[], clients: number) {
  const seen = hellos.map(() => ({ ms: [] as number[], rates: [] as number[] }));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [n, hello] of hellos.entries()) {
      const ms: number[] = [];
      const began = performance.now();
      const client = async () => {
        while (performance.now() - began < WINDOW_MS) {
          const from = performance.now();
          await hello();
          ms.push(performance.now() - from);
        }
      };
      await Promise.all(Array.from({ length: clients }, client));
      seen[n]!.rates.push((ms.length * 1_000) / (performance.now() - began));
      seen[n]!.ms.push(...ms);
    }
  }
  return seen.map(({ ms, rates }) => ({ ms, rate: median(rates) }));
}
