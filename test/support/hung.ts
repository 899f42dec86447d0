/**
 * Ends test files that hang, so that one of them does not hold up the whole run. Time alone cannot tell a slow file from one
 * that hangs, so this goes by the processor: a file that waits for ever uses none, however busy the machine is. The PostgreSQL
 * that files share counts for the file that started it: while others use it, that one file is ended only by tap's timeout
 * (.taprc).
 */
import { availableParallelism, loadavg } from 'node:os';
import { cpuOfTree, threadsOf, treeOf } from './processes.ts';

type Options = {
  readonly check_ms: number;
  /** So many checks in a row have to find it at rest. */
  readonly checks: number;
  readonly onHung: (command: string, processes: readonly string[]) => void;
};

/** Of one core. Servers that a hanging file has started use some for themselves. */
const AT_REST = 0.04;
/** Where more than so many wait for a core, a file that works gets less of it. */
const WAIT_AT_MOST = 5;

const atRest = () => AT_REST * Math.min(1, (WAIT_AT_MOST * availableParallelism()) / loadavg()[0]!);

/** Watches each child of the runner, with all that is below it, until the answered function is called. */
export function endHung(runner: number, { check_ms, checks, onHung }: Options): () => void {
  const seen = new Map<string, { cpu_s: number; at_rest: number }>();
  const timer = setInterval(() => {
    for (const { pid, started, parent, command, zombie } of treeOf(runner)) {
      if (parent !== runner || zombie) continue;
      const one = `${pid} ${started}`;
      const cpu_s = cpuOfTree(pid);
      const before = seen.get(one);
      // It can be less than before: what a process used is gone if nobody waited for it.
      const used_s = Math.abs(cpu_s - (before?.cpu_s ?? Number.NEGATIVE_INFINITY));
      const at_rest = used_s < (atRest() * check_ms) / 1_000 ? (before?.at_rest ?? 0) + 1 : 0;
      seen.set(one, { cpu_s, at_rest });
      if (at_rest === checks) onHung(command, whereTheyWait(pid));
      // By SIGALRM, tap says which test did not end. A file that is held up in a system call cannot even do that.
      if (at_rest >= checks) signal(pid, at_rest === checks ? 'SIGALRM' : 'SIGKILL');
    }
  }, check_ms);
  return () => clearInterval(timer);
}

/** A line for each process, with what its threads wait for in the kernel. */
const whereTheyWait = (root: number): string[] =>
  treeOf(root).map(({ pid, command }) => `${pid} ${command}: ${threadsOf(pid).join(', ')}`);

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has just ended by itself.
  }
}
