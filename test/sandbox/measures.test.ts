/**
 * Measurements are accurate: CPU time, wall time and memory of known programs are within 5 %, 5 ms or
 * 1 MiB of the program's own readings, and of the readings of the parent group, which the launcher never
 * uses. A group counts work that getrusage does not (start, exit, page tables). Readings are compared
 * with each other and never with a clock, which a busy machine would affect.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import t from 'tap';
import type { LanguageName as Language } from '../../src/domain/limits.ts';
import { ends } from './case.ts';
import { ROOM, SLOWNESS } from './slowness.ts';
import { openBench, requestFor } from './suite.ts';

const MiB = 1024 * 1024;
const MS = 1_000;
/** The parent group includes the slot's own work for a run: a millisecond, or tens in an emulated machine. */
const SLOT_US = SLOWNESS > 1 ? 100 * MS : 5 * MS;

const bench = await openBench(['cpp', 'python', 'java']);
t.teardown(() => bench.close());
const { kind, groups } = bench.single.isolation;

type Reading = { cpu_us: number; wall_us: number; rss_bytes: number };

async function measured(language: Language, args: string[]) {
  const side = ends('measured', 'AC', { args, limits: { wall_ms: 30_000 } });
  const { request } = requestFor(bench, side, 'endings', language);
  const above = groupAbove();
  const resting_bytes = resetPeakAbove();
  const before = above.cpu_us();
  const report = await bench.single.run(request);
  const said = Buffer.from(report.stdout).toString();
  const own = Object.fromEntries(
    [...said.matchAll(/(\w+_\w+) (\d+)/g)].map(([, name, value]) => [name, Number(value)]),
  );
  return {
    report,
    own: own as Reading,
    above_us: above.cpu_us() - before,
    above_peak_bytes: peakAbove(resting_bytes),
  };
}

/** Up to three times: other work on a busy machine can only add to what one run takes. The last reading is the one to check. */
async function measuredNear(
  language: Language,
  args: string[],
  isNear: (reading: Awaited<ReturnType<typeof measured>>) => boolean,
) {
  let reading = await measured(language, args);
  for (let again = 0; again < 2 && !isNear(reading); again++)
    reading = await measured(language, args);
  return reading;
}

const near = (a: number, b: number, least: number) =>
  Math.abs(a - b) <= Math.max(0.05 * Math.max(a, b), least);

t.test('0.2 s of CPU over four processes', async (t) => {
  for (let round = 0; round < 5; round++) {
    const { report, own, above_us } = await measuredNear(
      'cpp',
      ['4', '200', '0', '0'],
      (one) =>
        near(one.report.cpu_us, one.own.cpu_us, 5 * MS) &&
        near(one.report.cpu_us, one.above_us, SLOT_US),
    );
    t.ok(own.cpu_us >= 200 * MS, `the program used ${own.cpu_us} µs`);
    t.ok(near(report.cpu_us, own.cpu_us, 5 * MS), `reported ${report.cpu_us}, own ${own.cpu_us}`);
    t.ok(
      near(report.cpu_us, above_us, SLOT_US),
      `reported ${report.cpu_us}, the parent group ${above_us}`,
    );
  }
});

t.test('0.2 s of CPU in an interpreter and in a JVM', async (t) => {
  for (const language of ['python', 'java'] as const) {
    if (!bench.toolchains.has(language)) continue;
    const { report, own, above_us } = await measuredNear(language, [], (one) =>
      near(one.report.cpu_us, one.above_us, SLOT_US),
    );
    t.ok(own.cpu_us >= 100 * MS, `${language} used ${own.cpu_us} µs`);
    // The program cannot count what its runtime does after the program's last reading.
    t.ok(
      report.cpu_us >= own.cpu_us * 0.95 - 5 * MS,
      `reported ${report.cpu_us}, own ${own.cpu_us}`,
    );
    t.ok(
      near(report.cpu_us, above_us, SLOT_US),
      `reported ${report.cpu_us}, the parent group ${above_us}`,
    );
  }
});

t.test('100 MiB touched', async (t) => {
  for (const mib of [1, 100, 1]) {
    const { report, own, above_peak_bytes } = await measured('cpp', ['1', '0', `${mib}`, '0']);
    const { memory_peak_bytes } = report;
    t.ok(near(memory_peak_bytes, mib * MiB, MiB), `reported ${memory_peak_bytes} for ${mib} MiB`);
    t.ok(
      near(memory_peak_bytes, own.rss_bytes, 1.5 * MiB),
      `reported ${memory_peak_bytes}, own ${own.rss_bytes}`,
    );
    if (above_peak_bytes === null || mib === 1) continue;
    t.ok(
      near(memory_peak_bytes, above_peak_bytes, 5 * MiB),
      `reported ${memory_peak_bytes}, the parent group ${above_peak_bytes}`,
    );
  }
});

t.test('a sleep takes wall time and no CPU time', async (t) => {
  const { report, own } = await measured('cpp', ['1', '0', '0', '300']);
  t.ok(
    own.wall_us >= 300 * MS && report.wall_us >= own.wall_us,
    `reported ${report.wall_us}, own ${own.wall_us}`,
  );
  t.ok(report.cpu_us < 50 * MS * SLOWNESS, `${report.cpu_us} µs of CPU`);
});

/**
 * What the launcher may spend on a program's output, as a part of the time that the program has for it. A launcher that
 * reads whatever the program writes spends more than half. Less than a twentieth is usual, a busy machine's caches cost more.
 */
const LAUNCHER_PART = 0.2;

/** Its answers take one or two hundredths. A launcher that answers without pauses spends a fifth. */
const ANSWERS_PART = 0.1;

function launcherUs(): number {
  const stat = readFileSync(`/proc/${bench.single.isolation.pid}/schedstat`, 'utf8');
  return Number(stat.split(' ')[0]) / 1_000;
}

for (const [program, what] of [
  ['output_by_pages', 'pages that cost it almost nothing'],
  ['output_by_bytes', 'single bytes'],
] as const) {
  t.test(`a program that floods stderr with ${what} costs the launcher little`, async (t) => {
    const side = ends(program, ['AC', 'TLE'], { limits: { wall_ms: 2_000 } });
    const { request } = requestFor(bench, side, 'bombs', 'cpp');
    const before = launcherUs();
    const report = await bench.single.run(request);
    const spent = launcherUs() - before;
    t.ok(report.stderr_seen_bytes > request.limits.stderr_bytes, 'the flood was read');
    t.ok(spent <= report.wall_us * LAUNCHER_PART, `${spent} µs in ${report.wall_us} µs`);
  });
}

t.test('a program that prints 300 MB of messages ends within its wall time', async (t) => {
  // At the pace of a flood, one pipe's content every 20 ms, it would need 90 s. A guest is too slow for so many.
  const bytes = SLOWNESS > 1 ? 60_000_000 : 300_000_000;
  const side = ends('messages', 'AC', { args: [`${bytes}`] });
  const { request } = requestFor(bench, side, 'bombs', 'cpp');
  request.limits.wall_ms = SLOWNESS > 1 ? 10_000 * SLOWNESS * ROOM : 60_000;
  const before = launcherUs();
  const report = await bench.single.run(request);
  const spent = launcherUs() - before;
  t.match(report, { exit_code: 0, killed_for: null, stderr_seen_bytes: bytes });
  t.ok(spent <= report.wall_us * LAUNCHER_PART, `${spent} µs in ${report.wall_us} µs`);
});

t.test('many processes do not use much more than their CPU limit', async (t) => {
  const limits = { cpu_ms: 10, wall_ms: 60_000, processes: 70 };
  const side = ends('spin_many', 'TLE', { args: ['61'], limits });
  const { request } = requestFor(bench, side, 'endings', 'cpp');
  const used: number[] = [];
  for (let round = 0; round < 8; round++) {
    const { killed_for, cpu_us, wall_us } = await bench.single.run(request);
    t.equal(killed_for, 'cpu');
    t.ok(wall_us >= cpu_us / cpus().length, `${wall_us} µs of wall time for ${cpu_us} µs`);
    used.push(cpu_us);
  }
  // 12 to 25 ms. If init waited for a processor like each of them, they would use 20 to 250 ms, and 80 on average.
  const median_us = used.toSorted((a, b) => a - b)[used.length / 2]!;
  t.ok(median_us >= 10 * MS && median_us < 45 * MS * SLOWNESS, used.join(' '));
  const few = await measured('cpp', ['4', '200', '0', '0']);
  t.match(few.report, { exit_code: 0, killed_for: null }, 'within its limit');
});

t.test('a program that is refused memory without end costs the launcher little', async (t) => {
  const limits = { wall_ms: 4_000 };
  const side = ends('memory_refused_often', ['AC', 'TLE'], { args: ['2000'], limits });
  const { request } = requestFor(bench, side, 'bombs', 'cpp');
  const before = launcherUs();
  const report = await bench.single.run(request);
  const spent = launcherUs() - before;
  t.ok(report.memory_refused > 0, 'it was refused memory');
  t.ok(spent <= report.wall_us * ANSWERS_PART, `${spent} µs in ${report.wall_us} µs`);
});

/** The group of all slots. In v1 the launcher reports its path in the memory hierarchy; CPU time has another hierarchy. */
function groupAbove() {
  if (kind !== 'v1') {
    const usage = () =>
      Number(/usage_usec (\d+)/.exec(readFileSync(`${groups}/cpu.stat`, 'utf8'))?.[1]);
    return { cpu_us: usage };
  }
  const own =
    /:(?:[a-z,]*,)?cpuacct(?:,[a-z,]*)?:(.*)/.exec(
      readFileSync('/proc/self/cgroup', 'utf8'),
    )?.[1] ?? '/';
  const usage = `/sys/fs/cgroup/cpuacct${own === '/' ? '' : own}/${groups.split('/').at(-1)}/cpuacct.usage`;
  return { cpu_us: () => Number(readFileSync(usage, 'utf8')) / 1_000 };
}

/** Answers what the group has without a run: the slots, and what past runs left in the kernel's caches. */
function resetPeakAbove(): number {
  if (kind !== 'v1') return 0;
  writeFileSync(`${groups}/memory.max_usage_in_bytes`, '0');
  return Number(readFileSync(`${groups}/memory.usage_in_bytes`, 'utf8'));
}

function peakAbove(resting_bytes: number): number | null {
  if (kind !== 'v1') return null;
  return Number(readFileSync(`${groups}/memory.max_usage_in_bytes`, 'utf8')) - resting_bytes;
}
