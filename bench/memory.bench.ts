/**
 * How much memory does the service take, without the programs that were submitted? `serve` runs with Python, C++, Java and
 * two slots. The proportional set size of each process is read from /proc after a load of mixed runs, whose answers are all
 * checked, and again when nothing was asked for a minute.
 *
 * The floor is the same programs without a line of ours (support/bare_memory.ts).
 *
 * A page that several processes map counts for each of them in part. So the service runs with a copy of Node that nothing
 * else on this machine maps. Pages of the JDK, of PostgreSQL and of the system's libraries count in part for whatever else
 * maps them: measure on a machine that does nothing else.
 */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { bareMemory } from './support/bare_memory.ts';
import { type Program, programs, source } from './support/programs.ts';
import { isMet, type Measure, publish } from './support/report.ts';
import { type Service, startService } from './support/service.ts';
import { type Kind, kinds, type Memory, memoryOf } from './support/service_memory.ts';

const RUNS = Number(process.env['BENCH_RUNS'] ?? 1_000);
const CLIENTS = 4;
/** The start makes headers, archives and spare compilers. */
const SETTLE_S = 15;
/** Until what the last run started is there: a spare compiler, an interpreter. */
const LOADED_S = 3;
/** What ends after a minute has ended by then. Spare compilers and idle sessions end after ten: BENCH_IDLE=660 shows it. */
const IDLE_S = Number(process.env['BENCH_IDLE'] ?? 75);
const GOALS = { loaded: 350, idle: 250 };
/** One part of each program for each mention. */
const MIX = [
  'Python hello',
  'C++ iostream hello, never seen',
  'Python hello',
  'Java hello, never seen',
  'Python hello',
  'C++ seen before',
  'Java 100 lines, never seen',
  'Python hello',
  'C++ iostream hello, never seen',
  'Java hello, never seen',
].map((name) => programs.find((program) => program.name === name)!);

const folder = mkdtempSync(join(tmpdir(), 'runledger-bench-'));
const node = join(folder, 'node');
copyFileSync(process.execPath, node);
let service: Service | null = null;
const start = () =>
  startService({ RUNLEDGER_LANGUAGES: 'python,cpp,java', RUNLEDGER_SLOTS: '2' }, node);
try {
  // Only the first start after a change compiles modules, and Node then keeps its compiler.
  await (await start()).stop();
  service = await start();
  await wait(SETTLE_S * 1000);
  const before = memoryOf(service.pid);
  await load(service);
  await wait(LOADED_S * 1000);
  const loaded = memoryOf(service.pid);
  await wait((IDLE_S - LOADED_S) * 1000);
  const idle = memoryOf(service.pid);
  await service.stop();
  service = null;
  const floors = await bareMemory(idle, node);
  const measures = [
    ...rows('after the start', before),
    ...rows(`after ${RUNS} runs`, loaded, { goal: GOALS.loaded }),
    ...rows(`idle for ${IDLE_S} s`, idle, { goal: GOALS.idle, floors }),
  ];
  publish('memory', 'how much memory does the service take?', measures);
  if (measures.some((measure) => isMet(measure) === false)) process.exitCode = 1;
} finally {
  await service?.stop();
  rmSync(folder, { recursive: true });
}

async function load(to: Service): Promise<void> {
  let next = 0;
  const client = async () => {
    while (next < RUNS) {
      const number = next;
      next += 1;
      await once(to, MIX[number % MIX.length]!, number);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}

async function once(to: Service, program: Program, number: number): Promise<void> {
  const answer = await to.run(program.language, source(program, number));
  if (answer.verdict !== 'AC' || answer.stdout !== program.expected)
    throw new Error(`${program.name}: ${JSON.stringify(answer)}`);
}

type Judged = { goal?: number; floors?: Record<Kind, number> };

function rows(when: string, memory: Memory, { goal, floors }: Judged = {}): Measure[] {
  const sum = (of: 'pss_mb' | 'page_tables_mb' | 'count') =>
    kinds.reduce((total, kind) => total + memory[kind][of], 0);
  const row = (kind: Kind): Measure => ({
    name: `  ${kind}, ${memory[kind].count} processes`,
    was: `  ${kind}`,
    unit: 'MB',
    value: memory[kind].pss_mb,
    ...(floors && { floor: floors[kind] }),
  });
  const floor = floors && kinds.reduce((total, kind) => total + floors[kind], 0);
  return [
    {
      ...{ name: when, unit: 'MB', value: sum('pss_mb') },
      ...(goal && { at_most: goal }),
      ...(floor && { floor }),
    },
    ...kinds.map(row),
    { name: '  page tables, which are not in the sum', unit: 'MB', value: sum('page_tables_mb') },
  ];
}
