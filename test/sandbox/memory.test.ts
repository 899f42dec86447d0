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
/** A runtime is measured against its own figure for this much. */
const REFERENCE_MIB = 4;
/** What the kernel has charged in advance for each processor. A busy processor may return it after the kernel has killed. */
const STEPS_BYTES = availableParallelism() * 256 * 1024;

const bench = await openBench(['cpp', 'python', 'java']);
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
  const env = { ...request.env, ...(language === 'java' && ONLY_INTERPRETED) };
  return see(await bench.many.run({ ...request, env, ...(warm && zygote) }), all, language);
}

/** A JVM's compilers take up to 2 MiB at times of their own, also after the program has said what it has. */
const ONLY_INTERPRETED = { JDK_JAVA_OPTIONS: '-Xint' };

/** Its limit leaves room for the runtime. */
function touch(kind: Kind, mib: number) {
  if (kind === 'cpp') return run('cpp', 'memory_bytes', mib * MiB, (mib + 8) * MiB);
  if (kind === 'java') return run('java', 'memory_said', mib, (160 + 3 * mib) * MiB);
  return run(languageOf(kind), 'memory_some', mib, (mib + 40) * MiB, kind === 'warm');
}

/**
 * What its peak has above what the program touches. A JVM decides itself when it collects garbage and frees what it needed to
 * compile, so it is asked what it has, and how much more it had.
 */
function above({ report, stdout }: Awaited<ReturnType<typeof touch>>, kind: Kind, mib: number) {
  const said = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(stdout)?.[1]) * 1024;
  const touched = kind === 'java' ? said('RssAnon') + said('VmHWM') - said('VmRSS') : mib * MiB;
  return report.memory_peak_bytes - touched;
}

/** The same for a small amount. A C++ program of a few hundred KiB has nothing else worth counting. */
async function ownBytes(kind: Kind): Promise<number> {
  if (kind === 'cpp') return 0;
  const own: number[] = [];
  for (let time = 0; time < 5; time++)
    own.push(above(await touch(kind, REFERENCE_MIB), kind, REFERENCE_MIB));
  // The median: on a busy machine one of these may have a thread more.
  return own.sort((a, b) => a - b)[2]!;
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
  const own = new Map<Kind, number>();
  for (const kind of kinds) own.set(kind, await ownBytes(kind));
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
    const mib = 4 + Math.floor(next() * (MOST_MIB - 3));
    const result = await touch(kind, mib);
    const apart = above(result, kind, mib) - own.get(kind)!;
    const most = Math.max(result.report.memory_peak_bytes / 100, MiB);
    t.equal(result.verdict, 'AC', `${kind} ${mib} MiB: ${result.stderr}`);
    t.ok(
      Math.abs(apart) <= most,
      `${kind} ${mib} MiB: ${result.report.memory_peak_bytes}, ${apart} from what is expected`,
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
