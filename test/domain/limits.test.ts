import t from 'tap';
import {
  DEFAULT_BOUNDS,
  DEFAULT_POLICY,
  limitsFor,
  policyFrom,
  REQUEST_LIMITS,
} from '../../src/domain/limits.ts';

const MiB = 1024 * 1024;
const NONE = {
  wall_factor: 1,
  more_processes: 0,
  more_files: 0,
  least_memory_bytes: 0,
  least_stack_bytes: 0,
  least_processes: 1,
};
const JVM = {
  wall_factor: 2,
  more_processes: 32,
  more_files: 64,
  least_memory_bytes: 96 * MiB,
  least_stack_bytes: MiB / 2,
  least_processes: 40,
};

t.test('without overrides and needs the limits are the defaults', async (t) => {
  t.strictSame(limitsFor(NONE), { ...DEFAULT_POLICY.run, stack_bytes: 256 * MiB });
  t.match(DEFAULT_POLICY.run, { cpu_ms: 5_000, wall_ms: 10_000, memory_bytes: 256 * MiB });
});

t.test('each limit of a request sets its own field', async (t) => {
  for (const { field, stored } of REQUEST_LIMITS) {
    const { max } = DEFAULT_BOUNDS[stored];
    const memory_bytes = DEFAULT_BOUNDS.memory_bytes.max;
    t.equal(limitsFor(NONE, { memory_bytes, [stored]: max })[field], max, stored);
  }
});

t.test('the stack is as large as the memory, unless a request asks for less', async (t) => {
  t.equal(limitsFor(NONE, { memory_bytes: 512 * MiB }).stack_bytes, 512 * MiB);
  t.equal(limitsFor(NONE, { stack_bytes: 8 * MiB }).stack_bytes, 8 * MiB);
  t.equal(limitsFor(NONE, { stack_bytes: 512 * MiB }).stack_bytes, 256 * MiB);
});

t.test('the names and bounds of requests are those of the API', async (t) => {
  const rows = REQUEST_LIMITS.map(({ name, stored, min, max }) => [name, stored, min, max]);
  t.strictSame(rows, [
    ['cpu_time', 'cpu_time_ms', 10, 15_000],
    ['wall_time', 'wall_time_ms', 10, 30_000],
    ['memory', 'memory_bytes', 4 * MiB, 1024 * MiB],
    ['stack', 'stack_bytes', 64 * 1024, 1024 * MiB],
    ['output', 'output_bytes', 0, 4 * MiB],
    ['processes', 'processes', 1, 256],
  ]);
});

t.test('what a runtime takes for itself is added to the limits', async (t) => {
  t.strictSame(limitsFor(JVM), {
    ...DEFAULT_POLICY.run,
    stack_bytes: 256 * MiB,
    wall_ms: 20_000,
    processes: 96,
    files: 128,
  });
});

t.test('more processes have no more descriptors in all', async (t) => {
  const { files, processes } = DEFAULT_POLICY.run;
  for (const asked of [1, 16, 64, 65, 100, 200, 256]) {
    const limits = limitsFor(NONE, { processes: asked });
    t.ok(limits.files * limits.processes <= files * processes, `${asked} processes`);
    t.ok(limits.files <= files && limits.files >= 16);
  }
  t.equal(limitsFor(JVM, { processes: 256 }).files, limitsFor(NONE, { processes: 224 }).files + 64);
});

t.test("an operator's settings are the policy", async (t) => {
  const policy = policyFrom({
    limits_cpu_ms: 1,
    limits_max_cpu_ms: 2,
    limits_wall_ms: 3,
    limits_max_wall_ms: 400,
    limits_memory_bytes: 5 * MiB,
    limits_max_memory_bytes: 600 * MiB,
    limits_stack_bytes: 6 * MiB,
    limits_max_stack_bytes: 700 * MiB,
    limits_stdout_bytes: 7,
    limits_max_stdout_bytes: 8,
    limits_stderr_bytes: 9,
    limits_processes: 10,
    limits_max_processes: 11,
    limits_disk_bytes: 12,
    limits_inodes: 13,
    limits_files: 14,
    limits_compile_cpu_ms: 15,
    limits_compile_wall_ms: 16,
    limits_compile_memory_bytes: 17,
    limits_compile_output_bytes: 18,
  });
  t.strictSame(limitsFor(NONE, {}, policy), {
    cpu_ms: 1,
    wall_ms: 3,
    memory_bytes: 5 * MiB,
    stack_bytes: 5 * MiB,
    processes: 10,
    stdout_bytes: 7,
    stderr_bytes: 9,
    disk_bytes: 12,
    inodes: 13,
    files: 14,
  });
  t.strictSame(policy.compile, {
    cpu_ms: 15,
    wall_ms: 16,
    memory_bytes: 17,
    stack_bytes: 64 * MiB,
    processes: 64,
    stdout_bytes: 18,
    stderr_bytes: 18,
    disk_bytes: 256 * MiB,
    inodes: 4_096,
    files: 256,
  });
  t.strictSame(policy.bounds, {
    cpu_time_ms: { min: 2, max: 2 },
    wall_time_ms: { min: 10, max: 400 },
    memory_bytes: { min: 4 * MiB, max: 600 * MiB },
    stack_bytes: { min: 64 * 1024, max: 700 * MiB },
    output_bytes: { min: 0, max: 8 },
    processes: { min: 1, max: 11 },
  });
});

t.test('an override within its bounds is used', async (t) => {
  const limits = limitsFor(NONE, {
    cpu_time_ms: 1_500,
    wall_time_ms: 4_000,
    memory_bytes: 64 * MiB,
    output_bytes: 10,
    processes: 3,
  });
  t.match(limits, {
    cpu_ms: 1_500,
    wall_ms: 4_000,
    memory_bytes: 64 * MiB,
    stdout_bytes: 10,
    processes: 3,
  });
  t.equal(limits.stderr_bytes, DEFAULT_POLICY.run.stderr_bytes, 'and no other limit changes');
});

t.test('an accepted override is clamped to bounds that were narrowed later', async (t) => {
  const policy = {
    ...DEFAULT_POLICY,
    bounds: { ...DEFAULT_BOUNDS, cpu_time_ms: { min: 100, max: 2_000 } },
  };
  t.equal(limitsFor(NONE, { cpu_time_ms: 9_000 }, policy).cpu_ms, 2_000);
  t.equal(limitsFor(NONE, { cpu_time_ms: 1 }, policy).cpu_ms, 100);
  t.equal(limitsFor(NONE, { cpu_time_ms: Number.NaN }, policy).cpu_ms, 5_000);
});

t.test('more CPU time raises the wall time', async (t) => {
  t.equal(limitsFor(NONE, { cpu_time_ms: 10_000 }).wall_ms, 20_000);
  t.equal(limitsFor(NONE, { cpu_time_ms: 10_000, wall_time_ms: 11_000 }).wall_ms, 11_000);
  t.equal(limitsFor(NONE, { cpu_time_ms: 1_000 }).wall_ms, 10_000);
});

t.test('a limit is never below the least that a runtime starts with', async (t) => {
  const tight = limitsFor(JVM, { memory_bytes: 16 * MiB, stack_bytes: 64 * 1024, processes: 1 });
  t.equal(tight.stack_bytes, MiB / 2);
  t.equal(tight.memory_bytes, 96 * MiB);
  t.equal(tight.processes, 40);
  t.equal(limitsFor(NONE, { memory_bytes: 16 * MiB, processes: 1 }).processes, 1);
});
