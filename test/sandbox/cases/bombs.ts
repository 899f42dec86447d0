/** Programs that try to use up a resource: processes, memory, stack. */
import {
  ALL,
  BOTH,
  type Case,
  CPP,
  denied,
  ends,
  JAVA,
  PYTHON,
  type Seen,
  works,
} from '../case.ts';

const MiB = 1024 * 1024;
const topic = 'bombs';
const SHORT = { cpu_ms: 1_000, wall_ms: 3_000 };
const SOON_FULL = { ...SHORT, processes: 16 };

function tooMany({ report, limits }: Seen): string | null {
  const peak = report.processes_peak;
  return peak !== null && peak > limits.processes ? `${peak} processes at once` : null;
}

const fewProcesses = (seen: Seen): string | null =>
  tooMany(seen) ?? (seen.report.pids_limit_hits === 0 ? 'the group never denied a process' : null);

/**
 * On a slow machine this program reaches its CPU limit before its process limit. That it forked is evidence
 * enough here: `fork bomb that counts` holds the limit.
 */
function forked(seen: Seen): string | null {
  const { processes_peak: peak, pids_limit_hits: denied } = seen.report;
  const several = denied > 0 || (peak !== null && peak > 2);
  return tooMany(seen) ?? (several ? null : 'it did not fork');
}

/** The kernel lets a dying task exceed the limit by what it needs to die. */
export const GRACE_BYTES = 4 * MiB;

/** The kernel charges up to the limit and little more, and a program that reached the limit has a peak near it. */
function stoppedAtLimit({ report, limits }: Seen): string | null {
  if (report.memory_peak_bytes > limits.memory_bytes + GRACE_BYTES)
    return `peak ${report.memory_peak_bytes}`;
  return report.memory_peak_bytes < limits.memory_bytes * 0.8 ? 'peak far below the limit' : null;
}

export const bombs: readonly Case[] = [
  {
    name: 'fork bomb that counts',
    topic,
    needs_box: true,
    claim: 'a program cannot have more processes than its limit',
    because: 'pids.max of its group counts every task, and at the limit fork fails with EAGAIN',
    languages: BOTH,
    hostile: ends('fork_count', 'AC', { says: /^DENIED fork EAGAIN/m, evidence: fewProcesses }),
    honest: works('fork_few'),
  },
  {
    name: 'fork storm',
    topic,
    needs_box: true,
    claim: 'children that all keep forking, each in its own session, cannot outlive the run',
    because: 'one group counts their CPU time, and the kernel kills a pid namespace with its init',
    languages: BOTH,
    hostile: ends('fork_storm', 'TLE', { limits: SOON_FULL, evidence: forked }),
    honest: works('fork_few'),
  },
  {
    name: 'fork churn',
    topic,
    claim: 'a program cannot hide CPU time in a flood of short-lived children',
    because: 'the group counts a task while it runs, and not when its parent waits for it',
    languages: CPP,
    hostile: ends('fork_churn', 'TLE', { limits: SHORT }),
    honest: works('fork_few'),
  },
  {
    name: 'zombies',
    topic,
    needs_box: true,
    claim: 'children whose parent never waits for them cannot fill the process table',
    because: 'a zombie counts towards pids.max',
    languages: CPP,
    hostile: ends('zombies', 'AC', { says: /^DENIED zombies EAGAIN/m, evidence: fewProcesses }),
    honest: works('fork_few'),
  },
  {
    name: 'thread bomb',
    topic,
    needs_box: true,
    claim: 'a program cannot use threads to exceed its process limit',
    because: 'pids.max counts threads',
    languages: ALL,
    hostile: ends('thread_count', 'AC', { says: /^DENIED thread/m, evidence: fewProcesses }),
    honest: works('thread_few'),
  },
  {
    name: 'subprocesses within the limit',
    topic,
    claim: 'a program with a small process limit can use that many processes',
    because: 'the limit counts tasks and does not forbid fork',
    languages: PYTHON,
    hostile: ends('fork_count', 'AC', { limits: { processes: 8 }, says: /EAGAIN after [1-7]$/m }),
    honest: works('subprocess_some', { limits: { processes: 8 } }),
  },
  {
    name: 'memory bomb',
    topic,
    needs_box: true,
    claim: 'a program cannot use more memory than its limit',
    because:
      'memory.max (or v1’s limit) of its group, with swap off; the kernel kills and counts it',
    languages: BOTH,
    hostile: ends('memory_bomb', 'MLE', { evidence: stoppedAtLimit }),
    honest: works('memory_touch'),
  },
  {
    name: 'memory bomb in a managed heap',
    topic,
    claim: 'a JVM that runs out of heap gets MLE, and not the verdict of an exception',
    because: 'its heap size follows the limit, and its error message identifies the cause',
    languages: JAVA,
    hostile: ends('memory_bomb', 'MLE'),
    honest: works('memory_touch'),
  },
  {
    name: 'memory outside the managed heap',
    topic,
    claim: 'a program cannot use direct buffers to exceed its memory limit',
    because: 'the JVM limits them to the heap size, and the group counts them too',
    languages: JAVA,
    hostile: ends('memory_direct', ['MLE', 'RE']),
    honest: works('memory_touch'),
  },
  {
    name: 'one huge allocation, caught',
    topic,
    claim: 'a program may ask for 64 GiB and cannot use it',
    because: 'the allocation fails in the runtime, or touched pages are charged to the group',
    languages: PYTHON,
    hostile: ends('memory_bomb_caught', ['AC', 'MLE'], {}),
    honest: works('memory_touch'),
  },
  {
    name: 'memory of many children',
    topic,
    needs_box: true,
    claim: 'children that are each below the limit cannot exceed it together',
    because: 'the limit applies to the whole group',
    languages: BOTH,
    hostile: ends('memory_children', 'MLE'),
    honest: ends('memory_children', 'SIG', { args: ['2', '16'], says: /^OK/m }),
  },
  {
    name: 'one child after another over the limit',
    topic,
    needs_box: true,
    claim: 'a program cannot make the kernel kill without end, and fill the machine’s log',
    because:
      'the launcher ends a run as soon as it sees that the kernel killed one of its processes',
    languages: CPP,
    hostile: ends('memory_in_turn', 'MLE', {
      args: ['400', '9'],
      limits: { memory_bytes: 8 * MiB, cpu_ms: 20_000, wall_ms: 30_000 },
      signal: 'SIGKILL',
    }),
    honest: works('memory_in_turn', { args: ['40', '4'], limits: { memory_bytes: 8 * MiB } }),
  },
  {
    name: 'shared memory bomb',
    topic,
    needs_box: true,
    claim: 'a program cannot use shared memory to exceed its limit',
    because: 'shmem pages are charged to the group that touches them',
    languages: BOTH,
    hostile: ends('memory_shared', 'MLE', { evidence: stoppedAtLimit }),
    honest: works('memory_touch'),
  },
  {
    name: 'memory pushed out to swap',
    topic,
    needs_box: true,
    claim: 'a program cannot use the machine’s swap instead',
    because: 'the group’s swap limit is 0',
    languages: CPP,
    hostile: ends('memory_swap_hint', 'MLE'),
    honest: works('memory_overcommit'),
  },
  {
    name: 'address space',
    topic,
    needs_box: true,
    claim: 'a million small mappings cannot exhaust the kernel',
    because:
      'vm.max_map_count limits each process, and the kernel’s memory for mappings is charged to the group',
    languages: CPP,
    hostile: ends('memory_maps', ['AC', 'MLE', 'SIG'], {}),
    honest: works('memory_overcommit'),
  },
  {
    name: 'locked memory',
    topic,
    claim: 'a program cannot lock more than a little memory',
    because: 'RLIMIT_MEMLOCK limits it, and the program has no CAP_IPC_LOCK',
    languages: CPP,
    hostile: denied('memory_lock'),
    honest: works('memory_touch'),
  },
  {
    name: 'endless recursion',
    topic,
    claim: 'a stack cannot grow until the memory is gone',
    because: 'its pages are charged to the group, and RLIMIT_STACK is never over the memory limit',
    languages: CPP,
    hostile: ends('stack_bomb', ['SIG', 'MLE'], {
      evidence: ({ verdict, signal }) =>
        verdict === 'SIG' && signal !== 'SIGSEGV' ? `signal ${signal}` : null,
    }),
    honest: works('stack_some'),
  },
  {
    name: 'endless recursion that the runtime detects',
    topic,
    claim: 'a runtime’s recursion guard gives an ordinary failure',
    because: 'RecursionError and StackOverflowError end the program with code 1',
    languages: ['python', 'java'],
    hostile: ends('recursion', 'RE', { exit_code: 1, says: /RecursionError|StackOverflowError/ }),
    honest: works('memory_touch'),
  },
  {
    name: 'recursion past the interpreter’s guard',
    topic,
    claim: 'an interpreter without its guard is stopped by the stack or the memory limit',
    because: 'RLIMIT_STACK and the group’s memory limit apply to runtimes too',
    languages: PYTHON,
    hostile: ends('recursion_unlimited', ['SIG', 'MLE', 'RE']),
    honest: works('recursion_some'),
  },
  {
    name: 'endless arithmetic',
    topic,
    claim: 'one expression that computes for hours ends at the CPU limit',
    because: 'the launcher enforces the limit from the group’s counter',
    languages: PYTHON,
    hostile: ends('integer_bomb', ['TLE', 'MLE'], { limits: SHORT }),
    honest: works('import_many'),
  },
];
