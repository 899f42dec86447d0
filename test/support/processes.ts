/** Processes as /proc shows them: who descends from whom, and who is still there. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

type Entry = { pid: number; parent: number; started: string };

/** A number together with its start names one process for ever. */
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

/** Those that have not ended within the patience. The end of a stranger's process cannot be awaited. */
export async function survivors(of: readonly Entry[], patience_ms = 10_000): Promise<Entry[]> {
  const deadline = performance.now() + patience_ms;
  for (;;) {
    const left = of.filter(({ pid, started }) => entry(pid)?.started === started);
    if (left.length === 0 || performance.now() > deadline) return left;
    await wait(20);
  }
}
