/** Processes as /proc shows them: the descendants of a process, and which of them still exist. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

type Entry = { pid: number; parent: number; started: string };

/** A pid together with its start time identifies one process, even if the pid is reused. */
const entry = (pid: number): Entry | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z') return null;
    return { pid, parent: Number(fields[1]), started: fields[19]! };
  } catch {
    return null;
  }
};

export function descendants(pid: number): Entry[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => entry(Number(name)))
    .filter((found) => found !== null);
  const below = (parent: number): Entry[] =>
    all.filter((found) => found.parent === parent).flatMap((found) => [found, ...below(found.pid)]);
  return below(pid);
}

/**
 * The processes that have not ended within the timeout. It polls, because the end of a process that is not our child
 * cannot be awaited. The default is long: a loaded machine is slow, and survivors live for ever.
 */
export async function survivors(of: readonly Entry[], timeout_ms = 120_000): Promise<Entry[]> {
  const deadline = performance.now() + timeout_ms;
  for (;;) {
    const left = of.filter(({ pid, started }) => entry(pid)?.started === started);
    if (left.length === 0 || performance.now() > deadline) return left;
    await wait(20);
  }
}
