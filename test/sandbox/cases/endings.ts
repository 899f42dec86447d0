/** Programs that try not to end, to hide what they use, or to leave something behind. */
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
import { SLOWNESS } from '../slowness.ts';

const topic = 'endings';
/** Much more wall time than CPU time, so that the CPU limit is exceeded first even on a busy machine. */
const CPU = { cpu_ms: 500, wall_ms: 30_000 };
const WALL = { cpu_ms: 5_000, wall_ms: 1_000 };

/** So late a busy machine may be. None of these programs ever ends. */
const LATE_MS = 10_000 * SLOWNESS;

/** The limit ended the run, soon after it was exceeded. */
function nearLimit({ report, limits }: Seen): string | null {
  const late_ms = (report.limit_at_us ?? report.wall_us) / 1_000 - limits.wall_ms;
  if (report.killed_for === 'wall' && (late_ms < 0 || late_ms > LATE_MS))
    return `wall limit off by ${late_ms} ms`;
  if (report.killed_for === 'cpu' && report.cpu_us / 1_000 < limits.cpu_ms)
    return 'killed before the limit';
  return null;
}
/** The answer does not wait for processes that are left behind: they go on for ever, so the wall limit would end them. */
const atOnce = ({ report, limits }: Seen) =>
  report.wall_us < (limits.wall_ms * 1_000) / 2 ? null : `the answer took ${report.wall_us} µs`;

export const endings: readonly Case[] = [
  {
    name: 'endless loop',
    topic,
    needs_box: true,
    claim: 'a program cannot spin beyond its CPU limit',
    because: 'the launcher reads the group’s counter and kills the run',
    languages: ALL,
    hostile: ends('loop_spin', 'TLE', { limits: CPU, killed_for: 'cpu', evidence: nearLimit }),
    honest: works('sleep_some'),
  },
  {
    name: 'endless sleep',
    topic,
    claim: 'a program that uses no CPU time cannot run forever',
    because: 'the launcher limits wall time by a monotonic clock',
    languages: ALL,
    hostile: ends('loop_sleep', 'TLE', { limits: WALL, killed_for: 'wall', evidence: nearLimit }),
    honest: works('sleep_some'),
  },
  {
    name: 'catching every signal',
    topic,
    claim: 'a program cannot stay alive by catching SIGXCPU, SIGTERM and other signals',
    because: 'SIGKILL cannot be caught',
    languages: BOTH,
    hostile: ends('loop_catch', 'TLE', { limits: CPU, signal: 'SIGKILL' }),
    honest: works('spin_some'),
  },
  {
    name: 'ignoring and blocking every signal',
    topic,
    claim: 'a program that receives no signal cannot exceed its wall limit',
    because: 'SIGKILL cannot be ignored or blocked, and init’s death kills the whole pid namespace',
    languages: BOTH,
    hostile: ends('loop_ignore', 'TLE', { limits: WALL, signal: 'SIGKILL' }),
    honest: works('sleep_some'),
  },
  {
    name: 'raising the soft CPU limit',
    topic,
    claim: 'a program cannot gain CPU time by changing its RLIMIT_CPU',
    because: 'the launcher enforces the limit from the group’s counter',
    languages: CPP,
    hostile: ends('loop_rearm', 'TLE', { limits: CPU }),
    honest: works('spin_some'),
  },
  {
    name: 'one endless call inside the runtime',
    topic,
    claim: 'a program cannot run on inside a call of the runtime that ignores signals',
    because: 'SIGKILL needs no cooperation of the runtime',
    languages: PYTHON,
    hostile: ends('loop_in_c', 'TLE', { limits: CPU }),
    honest: works('spin_some'),
  },
  {
    name: 'default signal handling',
    topic,
    claim: 'a program starts with no signal blocked or ignored, and is not process 1',
    because: 'the slot resets masks and handlers, and the launcher’s init is process 1',
    languages: CPP,
    hostile: ends('signals_default', 'SIG', {
      signal: 'SIGTERM',
      exit_code: 143,
      says: /^OK signals/m,
    }),
    honest: works('kill_child'),
  },
  {
    name: 'daemon',
    topic,
    claim:
      'a process in another session, without parent or streams, that ignores all signals cannot outlive its run',
    because: 'the kernel kills every process of a pid namespace with its init',
    languages: BOTH,
    hostile: ends('daemonize', 'AC', { says: /^OK/m, evidence: atOnce }),
    honest: works('sleep_some'),
  },
  {
    name: 'chain of daemons',
    topic,
    claim: 'a process that keeps replacing itself cannot escape the kill',
    because: 'the kernel kills the namespace as a whole, and not pid by pid',
    languages: CPP,
    hostile: ends('daemonize_deep', 'AC', { says: /^OK/m, evidence: atOnce }),
    honest: works('children_some'),
  },
  {
    name: 'stdout kept open',
    topic,
    claim: 'a grandchild that keeps stdout open cannot delay the answer',
    because:
      'the run ends with the program: then all processes are killed and the pipe is read to its end',
    languages: ALL,
    hostile: ends('stdout_kept_open', 'AC', { says: /^OK/m, evidence: atOnce }),
    honest: works('sleep_some'),
  },
  {
    name: 'spinning orphan',
    topic,
    claim: 'a child cannot keep spinning after its parent has ended',
    because: 'it is killed with the namespace, before the answer',
    languages: BOTH,
    hostile: ends('orphan_spins', 'AC', { says: /^OK/m, evidence: atOnce }),
    honest: works('children_some'),
  },
  {
    name: 'writing orphan',
    topic,
    claim: 'a child cannot keep printing into the result after the program ended',
    because: 'it is killed at once',
    languages: CPP,
    hostile: ends('orphan_writes', 'AC', {
      evidence: ({ stdout }) => (stdout.length > 200 ? 'an orphan kept writing' : null),
    }),
    honest: works('children_some'),
  },
  {
    name: 'main thread leaves',
    topic,
    claim: 'threads cannot run on after the main thread has exited',
    because: 'the process lives as long as its threads, and the wall limit applies to it',
    languages: CPP,
    hostile: ends('main_thread_leaves', 'TLE', { limits: WALL }),
    honest: works('spin_some'),
  },
  {
    name: 'threads that the runtime waits for',
    topic,
    claim: 'a thread that never ends cannot keep the slot',
    because: 'the wall limit applies to the process',
    languages: PYTHON,
    hostile: ends('thread_survives', 'TLE', { limits: WALL }),
    honest: works('sleep_some'),
  },
  {
    name: 'code at exit',
    topic,
    claim: 'atexit and shutdown hooks cannot prolong a run',
    because: 'limits apply until the process is gone',
    languages: ['python'],
    hostile: ends('atexit_spins', 'TLE', { limits: CPU, says: /^OK/m }),
    honest: works('sleep_some'),
  },
  {
    name: 'shutdown hook',
    topic,
    claim: 'a JVM’s shutdown hook cannot prolong a run',
    because: 'limits apply until the process is gone',
    languages: JAVA,
    hostile: ends('hooks', 'TLE', { limits: { cpu_ms: 1_500, wall_ms: 30_000 }, says: /^OK/m }),
    honest: works('sleep_some'),
  },
  {
    name: 'stopping itself',
    topic,
    claim: 'a stopped program cannot exceed its wall limit',
    because: 'SIGKILL kills stopped processes too',
    languages: BOTH,
    hostile: ends('stops_itself', 'TLE', { limits: WALL, killed_for: 'wall' }),
    honest: works('sleep_some'),
  },
  {
    name: 'parent of a hanging vfork',
    topic,
    claim: 'a process that waits uninterruptibly for its child cannot exceed its wall limit',
    because: 'that wait is killable',
    languages: CPP,
    hostile: ends('vfork_hangs', 'TLE', { limits: WALL }),
    honest: works('vfork_some'),
  },
  {
    name: 'spinning processes',
    topic,
    needs_box: true,
    claim: 'many processes cannot each use the CPU limit',
    because: 'the limit applies to the sum over the group',
    languages: BOTH,
    hostile: ends('spin_many', 'TLE', {
      limits: CPU,
      killed_for: 'cpu',
      // If each of the 16 processes had the limit, they would use 16 times as much. A busy machine finds the sum late, so it may
      // be half of that.
      evidence: ({ report, limits }) =>
        report.cpu_us > 8 * limits.cpu_ms * 1_000 ? `used ${report.cpu_us} µs` : null,
    }),
    honest: works('children_some'),
  },
  {
    name: 'spinning threads',
    topic,
    needs_box: true,
    claim: 'many threads cannot each use the CPU limit, even if main sleeps',
    because: 'the limit applies to the sum over the group',
    languages: CPP,
    hostile: ends('spin_threads', 'TLE', { limits: CPU, killed_for: 'cpu' }),
    honest: works('spin_some'),
  },
  {
    name: 'spinning threads of a JVM',
    topic,
    claim: 'Java threads cannot each use the CPU limit',
    because: 'the limit applies to the sum over the group',
    languages: JAVA,
    hostile: ends('loop_threads', 'TLE', {
      limits: { cpu_ms: 1_500, wall_ms: 30_000 },
      killed_for: 'cpu',
    }),
    honest: works('sleep_some'),
  },
  {
    name: 'CPU time in children',
    topic,
    needs_box: true,
    claim: 'a program cannot hide CPU time in children that it never waits for',
    because: 'the group counts it, whatever the parent’s rusage says',
    languages: CPP,
    hostile: ends('spin_in_children', 'TLE', { limits: CPU, killed_for: 'cpu' }),
    honest: works('children_some'),
  },
  {
    name: 'CPU time in orphans',
    topic,
    needs_box: true,
    claim: 'a program cannot hide CPU time by passing work from one dying process to the next',
    because: 'the group keeps the CPU time of tasks that are gone',
    languages: CPP,
    hostile: ends('spin_in_orphans', 'TLE', { limits: CPU, killed_for: 'cpu' }),
    honest: works('children_some'),
  },
  {
    name: 'killing everything',
    topic,
    claim: 'a program cannot stop or kill the processes that supervise it',
    because:
      'its pid namespace contains only its own processes and an init that ignores signals from inside',
    languages: BOTH,
    hostile: ends('kill_all', 'AC', { says: /^OK still judged/m }),
    honest: works('kill_child'),
  },
  {
    name: 'signalling by number',
    topic,
    claim: 'a program cannot signal other runs’ processes',
    because: 'they have no number in its pid namespace, and no other slot has its uid',
    languages: CPP,
    hostile: denied('kill_numbers'),
    honest: works('kill_child'),
  },
  {
    name: 'priority',
    topic,
    claim: 'a program cannot raise its priority',
    because: 'it has no CAP_SYS_NICE, and RLIMIT_NICE and RLIMIT_RTPRIO are 0',
    languages: BOTH,
    hostile: denied('priority_raise'),
    honest: works('priority_lower'),
  },
  {
    name: 'core dump',
    topic,
    claim: 'a crash leaves no core file on this machine',
    because: 'RLIMIT_CORE forbids it, and the program cannot raise it',
    languages: CPP,
    hostile: ends('dumps_core', 'SIG', { signal: 'SIGABRT', exit_code: 134, says: /^DENIED/m }),
    honest: works('spin_some'),
  },
  {
    name: 'crash',
    topic,
    claim: 'a crash is reported as the program’s own ending',
    because: 'the report carries the wait status of the program itself',
    languages: BOTH,
    hostile: ends('segfault', 'SIG', { signal: 'SIGSEGV', exit_code: 139 }),
    honest: works('spin_some'),
  },
  {
    name: 'SIGKILL to itself',
    topic,
    claim: 'a program that kills itself does not get TLE or MLE',
    because: 'the verdict depends on the limit that was exceeded, and not on the signal',
    languages: CPP,
    hostile: ends('dies_of', 'SIG', { args: ['9'], signal: 'SIGKILL', killed_for: null }),
    honest: ends('ends_with', 'AC', { exit_code: 0 }),
  },
  {
    name: 'SIGXCPU to itself',
    topic,
    claim: 'a program that sends itself SIGXCPU does not get TLE',
    because: 'the verdict depends on the group’s counter',
    languages: CPP,
    hostile: ends('dies_of', 'SIG', { args: ['24'], signal: 'SIGXCPU', killed_for: null }),
    honest: ends('ends_with', 'AC', { exit_code: 0 }),
  },
  {
    name: 'exit codes that shells use for signals',
    topic,
    claim: 'exit codes 137, 124 and 255 are exit codes, not verdicts',
    because: 'the wait status distinguishes exit codes from signals',
    languages: CPP,
    hostile: ends('ends_with', 'RE', { args: ['137'], exit_code: 137, killed_for: null }),
    honest: ends('ends_with', 'RE', { args: ['1'], exit_code: 1 }),
  },
  {
    name: 'uncaught exception',
    topic,
    claim: 'a failure that the runtime reports is the program’s own',
    because: 'its exit code is not 0',
    languages: ['python', 'java'],
    hostile: ends('uncaught', 'RE', { exit_code: 1, says: /as users know it/ }),
    honest: ends('exit_three', 'RE', { exit_code: 3 }),
  },
];
