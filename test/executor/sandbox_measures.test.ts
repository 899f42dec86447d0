/**
 * What the reports say, against what the programs say of themselves and what a group above theirs
 * says, which the launcher does not read. No reading is compared with a clock that the machine's load
 * could move: a report lies between two others, or near one.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { MiB, python, said, withSandbox } from './box.ts';

const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0 });
t.teardown(close);

/** Microseconds of CPU of everything the launcher runs. */
function groupAbove(): number {
  const { kind, groups } = sandbox.isolation;
  if (kind !== 'v1')
    return Number(/usage_usec (\d+)/.exec(readFileSync(`${groups}/cpu.stat`, 'utf8'))?.[1]);
  const own = /:(?:[a-z,]*,)?cpuacct(?:,[a-z,]*)?:(.*)/.exec(
    readFileSync('/proc/self/cgroup', 'utf8'),
  )?.[1];
  const below = `${own === '/' ? '' : own}/${groups.split('/').at(-1)}`;
  return Number(readFileSync(`/sys/fs/cgroup/cpuacct${below}/cpuacct.usage`, 'utf8')) / 1000;
}

const near = (a: number, b: number, part: number, least: number) =>
  Math.abs(a - b) <= Math.max(part * b, least);

t.test('CPU of a process and its children, to 5 % or 5 ms', async (t) => {
  const source = `
import os, resource, time
for _ in range(4):
    if os.fork() == 0:
        while time.process_time() < 0.05: pass
        os._exit(0)
for _ in range(4): os.wait()
total = 0
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    used = resource.getrusage(who)
    total += used.ru_utime + used.ru_stime
print(total, flush=True)
os._exit(0)`;
  for (let i = 0; i < 3; i++) {
    const before = groupAbove();
    const report = await sandbox.run(python(source));
    const above = groupAbove() - before;
    const own = Number(said(report)) * 1e6;
    // A program cannot read what its own end costs: little, but for an emulator's twentyfold.
    const part = process.env['RUNLEDGER_GUEST'] ? 0.25 : 0.05;
    t.ok(near(report.cpu_us, own, part, 5_000), `report ${report.cpu_us}, program ${own}`);
    t.ok(report.cpu_us <= above, `report ${report.cpu_us}, group above ${above}`);
    t.ok(near(report.cpu_us, above, 0.05, 5_000), `report ${report.cpu_us}, group above ${above}`);
  }
});

t.test('CPU of a daemon that nobody waits for counts too', async (t) => {
  const daemon = `
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while time.process_time() < 0.1: pass
        os.write(1, b"spun")
        while True: time.sleep(1) if FOREVER else os._exit(0)
    os._exit(0)
os.wait()
while True: time.sleep(1)`;
  const forever = (wall_ms: number) =>
    sandbox.run(python(`FOREVER = True${daemon}`, { limits: { cpu_ms: 5_000, wall_ms } }));
  let report = await forever(1_500);
  // A busy machine may not give it its CPU time before the wall limit.
  for (const wall_ms of [6_000, 60_000])
    if (said(report) !== 'spun') report = await forever(wall_ms);
  t.match(report, { killed_for: 'wall', stdout: Buffer.from('spun') });
  t.ok(report.cpu_us >= 100_000, `${report.cpu_us}`);
  const limits = { cpu_ms: 80, wall_ms: 60_000 };
  const limited = await sandbox.run(python(`FOREVER = False${daemon}`, { limits }));
  t.equal(limited.killed_for, 'cpu', 'and against the limit');
});

t.test('wall time lies between what the program and what its caller saw', async (t) => {
  const source =
    'import time\nbegun = time.clock_gettime(time.CLOCK_MONOTONIC)\ntime.sleep(0.2)\nprint(time.clock_gettime(time.CLOCK_MONOTONIC) - begun)';
  const started = process.hrtime.bigint();
  const report = await sandbox.run(python(source));
  const outside = Number(process.hrtime.bigint() - started) / 1000;
  t.ok(report.wall_us >= Number(said(report)) * 1e6 && report.wall_us >= 200_000);
  t.ok(report.wall_us <= outside);
  t.ok(report.cpu_us < report.wall_us, 'sleeping costs no CPU');
});

t.test('memory: the peak, near what was touched; and nothing of the run before', async (t) => {
  const touch = (mib: number) =>
    python(`x = b"x" * (${mib} << 20)
print([int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("RssAnon")][0] * 1024)`);
  await sandbox.run(touch(1));
  const small = await sandbox.run(touch(1));
  const large = await sandbox.run(touch(100));
  const after = await sandbox.run(touch(1));
  for (const report of [small, large, after]) {
    const own = Number(said(report));
    // Page tables, kernel stacks and files in the work directory are the program's as well.
    t.ok(
      near(report.memory_peak_bytes, own, 0.05, MiB),
      `report ${report.memory_peak_bytes}, program ${own}`,
    );
  }
});
