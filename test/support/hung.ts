/**
 * Ends test files that hang, so that one of them does not hold up the whole run. Time alone cannot tell a slow file from one
 * that hangs, so this goes by the processor: a file that waits for ever uses none, however busy the machine is. One that gets
 * little of it, because much else runs, looks alike: the more processes wait for a processor, the longer it takes. The
 * PostgreSQL that files share counts for the file that started it: while others use it, that one file is ended only by tap's
 * timeout (.taprc).
 */
import { availableParallelism, loadavg } from 'node:os';
import { cpuOfTree, treeOf } from './processes.ts';

type Options = {
  readonly check_ms: number;
  /** So many checks in a row have to find it at rest; more on a machine that has more to do than it has processors. */
  readonly checks: number;
  readonly onHung: (command: string) => void;
};

/** Of one core. Servers that a hanging file has started use some for themselves. */
const AT_REST = 0.04;

/** Watches each child of the runner, with all that is below it, until the answered function is called. */
export function endHung(runner: number, { check_ms, checks, onHung }: Options): () => void {
  const seen = new Map<string, { cpu_s: number; at_rest: number }>();
  const timer = setInterval(() => {
    const weight = Math.min(1, availableParallelism() / loadavg()[0]!);
    for (const { pid, started, parent, command, zombie } of treeOf(runner)) {
      if (parent !== runner || zombie) continue;
      const one = `${pid} ${started}`;
      const cpu_s = cpuOfTree(pid);
      const before = seen.get(one);
      // It can be less than before: what a process used is gone if nobody waited for it.
      const used_s = Math.abs(cpu_s - (before?.cpu_s ?? Number.NEGATIVE_INFINITY));
      const rested = before?.at_rest ?? 0;
      const at_rest = used_s < (AT_REST * check_ms) / 1_000 ? rested + weight : 0;
      seen.set(one, { cpu_s, at_rest });
      if (at_rest < checks) continue;
      // By SIGALRM, tap says which test did not end. A file that is held up in a system call cannot even do that.
      signal(pid, rested < checks ? 'SIGALRM' : 'SIGKILL');
      if (rested < checks) onHung(command);
    }
  }, check_ms);
  return () => clearInterval(timer);
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has just ended by itself.
  }
}
