/**
 * Programs that hold a lock which their service needs, or that make it walk a long list. The service of a
 * program is its own slot, so the launcher's clock goes on and ends the run. What the launcher itself
 * spends, and that it never waits, is in `launcher_waits.test.ts`.
 */
import { type Case, CPP, ends, type Seen, works } from '../case.ts';
import { SLOWNESS } from '../slowness.ts';

/** The program has to be ready for its attack before its time is up. On an emulated machine the attack is smaller (BUSY). */
const WALL_MS = SLOWNESS > 1 ? 3_000 : 6_000;
const LIMITS = { cpu_ms: 60_000, wall_ms: WALL_MS, processes: 70, files: 64 };
/** To end 60 processes and to free what they have, on a busy machine. A launcher that waits needs 10 s and more. */
const ROOM_US = 3_000_000 * SLOWNESS;

function endedInTime({ report, limits }: Seen): string | null {
  const most = limits.wall_ms * 1_000 + ROOM_US;
  return report.wall_us <= most ? null : `${report.wall_us} µs of wall time`;
}
/** Processes, and MiB of memory that they change: an emulated machine is as busy with fewer. */
const BUSY = [String(Math.ceil(55 / SLOWNESS)), String(1024 / SLOWNESS)];
const ended = (program: string, args: string[] = []) =>
  ends(program, 'TLE', {
    args,
    limits: LIMITS,
    killed_for: 'wall',
    says: /^OK/m,
    evidence: endedInTime,
  });

export const locks: readonly Case[] = [
  {
    name: 'memory that is being changed while the service answers',
    topic: 'sharing',
    needs_box: true,
    claim: 'a program cannot stop the launcher by holding the lock of its own memory',
    because: 'its slot writes the answers, and the launcher ends the run without the slot',
    languages: CPP,
    hostile: ended('memory_changed', BUSY),
    honest: works('memory_changed_once'),
  },
  {
    name: 'a pipe whose lock is held',
    topic: 'output',
    needs_box: true,
    claim: 'a program cannot stop the launcher by holding the lock of its output',
    because: 'its slot reads the pipes, and the launcher ends the run without the slot',
    languages: CPP,
    hostile: ended('pipe_locked', BUSY),
    honest: works('stderr_read_back'),
  },
  {
    name: 'waiters on the output pipe',
    topic: 'output',
    needs_box: true,
    claim: 'a program cannot make the launcher wake tens of thousands of waiters',
    because: 'its slot reads the pipes, and leaves one that is slow alone for a while',
    languages: CPP,
    hostile: ended('pipe_waiters'),
    honest: works('pipe_waited_for'),
  },
];
