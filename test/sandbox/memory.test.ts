/**
 * Memory is exact: the peak of a program is its own, whatever ran before or runs beside it, and no program gets a page
 * more than its limit. Programs of three languages touch a known amount in a random order, while others in the next slot read 250 MB
 * of /usr and ask the kernel to forget them. RUNLEDGER_MEMORY_RUNS sets how many (200 takes some minutes).
 */
import { availableParallelism } from 'node:os';
import t from 'tap';
import type { LanguageName as Language } from '../../src/domain/limits.ts';
import { ends } from './case.ts';
import { openBench, requestFor, see } from './suite.ts';

const MiB = 1024 * 1024;
const PAGE = 4096;
const RUNS = Number(process.env['RUNLEDGER_MEMORY_RUNS'] ?? 24);
/** 500 MiB and more are for the full number of runs. */
const MOST_MIB = RUNS >= 200 ? 512 : 160;
/** An interpreter is measured against its own figure for this much. */
const REFERENCE_MIB = 4;
/** A JVM's own memory depends on the size of its heap, so it has one figure for each of these. */
const JAVA_MIB = [4, 32, 96];
/** One JVM in twenty collects garbage earlier than the others and needs this much less. */
const EARLY_COLLECTION_BYTES = 5 * MiB;
/** What the kernel has charged in advance for each processor. A busy processor may return it after the kernel has killed. */
const STEPS_BYTES = availableParallelism() * 256 * 1024;

const bench = await openBench();
t.teardown(() => bench.close());

type Kind = 'cpp' | 'python' | 'warm' | 'java';
const KINDS: readonly Kind[] = ['cpp', 'python', 'warm', 'java'];
const languageOf = (kind: Kind): Language => (kind === 'warm' ? 'python' : kind);
const kinds = KINDS.filter((kind) => bench.toolchains.has(languageOf(kind)));

async function run(language: Language, program: string, arg: number, memory: number, warm = false) {
  const limits = { memory_bytes: memory, cpu_ms: 60_000, wall_ms: 120_000 };
  const side = ends(program, 'AC', { args: [`${arg}`], limits });
  const { request, limits: all } = requestFor(bench, side, 'bombs', language);
  const zygote = { zygote: { account: 'memory' } };
  return see(await bench.many.run({ ...request, ...(warm && zygote) }), all, language);
}

/** Its limit leaves room for the runtime. */
function touch(kind: Kind, mib: number) {
  if (kind === 'cpp') return run('cpp', 'memory_bytes', mib * MiB, (mib + 8) * MiB);
  const memory = kind === 'java' ? 160 + 2 * mib : mib + 40;
  return run(languageOf(kind), 'memory_some', mib, memory * MiB, kind === 'warm');
}

/** What it uses besides what it touches. A C++ program of a few hundred KiB has nothing else worth counting. */
async function ownBytes(kind: Kind, mib: number): Promise<number> {
  if (kind === 'cpp') return 0;
  const reports = [await touch(kind, mib), await touch(kind, mib), await touch(kind, mib)];
  return Math.max(...reports.map(({ report }) => report.memory_peak_bytes)) - mib * MiB;
}

/** Numbers that look random and are the same each time (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

t.test(`${RUNS} programs that touch a known amount, beside runs that evict files`, async (t) => {
  const own = new Map<string, number>();
  for (const kind of kinds)
    for (const mib of kind === 'java' ? JAVA_MIB : [REFERENCE_MIB])
      own.set(`${kind} ${kind === 'java' ? mib : ''}`, await ownBytes(kind, mib));
  let over = false;
  const beside = (async () => {
    while (!over && bench.toolchains.has('python')) {
      const { stdout, stderr } = await run('python', 'files_read_and_evicted', 250, 300 * MiB);
      t.match(stdout, /^OK read/, stderr);
    }
  })();
  const next = seeded(RUNS);
  for (let number = 0; number < RUNS; number++) {
    const kind = kinds[Math.floor(next() * kinds.length)]!;
    const mib =
      kind === 'java'
        ? JAVA_MIB[Math.floor(next() * JAVA_MIB.length)]!
        : 4 + Math.floor(next() * (MOST_MIB - 3));
    const { verdict, report, stderr } = await touch(kind, mib);
    const expected = mib * MiB + own.get(`${kind} ${kind === 'java' ? mib : ''}`)!;
    const apart = report.memory_peak_bytes - expected;
    const least = kind === 'java' ? -EARLY_COLLECTION_BYTES : -Math.max(expected / 100, MiB);
    t.equal(verdict, 'AC', `${kind} ${mib} MiB: ${stderr}`);
    t.ok(
      apart >= least && apart <= Math.max(expected / 100, MiB),
      `${kind} ${mib} MiB: ${report.memory_peak_bytes}, ${apart} from what is expected`,
    );
  }
  over = true;
  await beside;
});

t.test('a limit holds to the page', async (t) => {
  // In v2 a program's process is confined inside its run group, and the kernel's memory for that is more than 1 % of 16 MiB.
  for (const mib of bench.many.isolation.kind === 'v1' ? [16, 64, 256] : [64, 256]) {
    const limit = mib * MiB;
    const over = await run('cpp', 'memory_bytes', limit + PAGE, limit);
    t.equal(over.verdict, 'MLE', `a page over ${mib} MiB`);
    t.ok(over.report.memory_peak_bytes <= limit, `peak ${over.report.memory_peak_bytes}`);
    const bytes = limit - Math.max(limit / 100, STEPS_BYTES);
    const below = await run('cpp', 'memory_in_all', Math.floor(bytes), limit);
    t.equal(below.verdict, 'AC', `${bytes} of ${mib} MiB: ${below.stdout}`);
  }
});

t.test('files that a program loads neither count nor hide what it used', async (t) => {
  const hidden = await run('cpp', 'memory_then_files', 100 * MiB, 256 * MiB);
  t.match(hidden, { verdict: 'AC' });
  const { memory_peak_bytes } = hidden.report;
  t.ok(memory_peak_bytes > 99 * MiB && memory_peak_bytes < 102 * MiB, `${memory_peak_bytes}`);
});

t.test('no program is so small that it uses nothing', async (t) => {
  for (let number = 0; number < 20; number++) {
    const { report } = await run('cpp', 'memory_bytes', PAGE, 64 * MiB);
    t.ok(report.memory_peak_bytes > 0 && report.memory_peak_bytes < MiB);
  }
});
