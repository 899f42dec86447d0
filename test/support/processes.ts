/** Processes as /proc shows them: those below a process, what they took, and which of them still exist. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

export type Process = {
  pid: number;
  parent: number;
  /** A pid together with its start time identifies one process, even if the pid is reused. */
  started: string;
  /** As the kernel has it: at most 15 bytes. */
  name: string;
  /** It has ended, and its parent has not asked for its status. */
  zombie: boolean;
  command: string;
  /** of the process alone */
  cpu_s: number;
  /** of its children that have ended, and of theirs */
  ended_s: number;
};

/** Of the kernel's clock, in which /proc counts. */
const TICKS_PER_S = 100;

/** Null: there is no such process. */
export function processOf(pid: number): Process | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const seconds = (at: number) => (Number(fields[at]) + Number(fields[at + 1])) / TICKS_PER_S;
    return {
      pid,
      parent: Number(fields[1]),
      started: fields[19]!,
      name: stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')')),
      zombie: fields[0] === 'Z',
      command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim(),
      cpu_s: seconds(11),
      ended_s: seconds(13),
    };
  } catch {
    return null; // it has ended
  }
}

/** Of each thread its name, its state, and the kernel's function in which it waits (only root sees that). */
export function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map((thread) => {
      const of = (name: string) => readFileSync(`/proc/${pid}/task/${thread}/${name}`, 'utf8');
      const [, state] = /^State:\s+(\S)/m.exec(of('status')) ?? [];
      return `${of('comm').trim()} ${state} ${of('wchan')}`;
    });
  } catch {
    return []; // it has ended
  }
}

/** Some kernels are built without these lists. */
const HAS_LISTS = existsSync(`/proc/self/task/${process.pid}/children`);

/** The pids of its children, without a look at all processes. */
export function childrenOf(pid: number): number[] {
  // Otherwise no process would seem to have children, and a test that harms them would pass.
  if (!HAS_LISTS) throw new Error('this kernel lists no children (CONFIG_PROC_CHILDREN)');
  const unlessEnded = <T>(read: () => T[]): T[] => {
    try {
      return read();
    } catch {
      return [];
    }
  };
  const threads = unlessEnded(() => readdirSync(`/proc/${pid}/task`));
  return threads
    .flatMap((thread) =>
      unlessEnded(() => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ')),
    )
    .filter(Boolean)
    .map(Number);
}

/** The process itself, and all below it that have not ended, or are zombies. */
export function treeOf(root: number): Process[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => processOf(Number(name)))
    .filter((found) => found !== null);
  const below = new Set([root]);
  for (let size = 0; size !== below.size; ) {
    size = below.size;
    for (const { pid, parent } of all) if (below.has(parent)) below.add(pid);
  }
  return all.filter(({ pid }) => below.has(pid));
}

export const descendants = (pid: number): Process[] =>
  treeOf(pid).filter((found) => found.pid !== pid && !found.zombie);

/** The CPU time of all processes that ever were in the tree, as long as each was waited for. */
export const cpuOfTree = (root: number): number =>
  treeOf(root).reduce((sum, { cpu_s, ended_s }) => sum + cpu_s + ended_s, 0);

/**
 * The processes that have not ended within the timeout. It polls, because the end of a process that is not our child
 * cannot be awaited. The default is long: a loaded machine is slow, and survivors live for ever.
 */
export async function survivors(
  of: readonly Process[],
  timeout_ms = 120_000,
): Promise<readonly Process[]> {
  const deadline = performance.now() + timeout_ms;
  for (;;) {
    const left = of.filter(({ pid, started }) => {
      const now = processOf(pid);
      return now?.started === started && !now.zombie;
    });
    if (left.length === 0 || performance.now() > deadline) return left;
    await wait(20);
  }
}
