/** CPU time of this process and a PostgreSQL server. Unlike a rate, it hardly depends on other load on the machine. */
import { readdirSync, readFileSync } from 'node:fs';

export type Cpu = { own: number; server: ReadonlyMap<string, number> };

/** The CPU time so far, in milliseconds: of this process, and of each process of the server. */
export function cpuNow(postmaster: number): Cpu {
  const { user, system } = process.cpuUsage();
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const server = pids.filter((pid) => Number(pid) === postmaster || parentOf(pid) === postmaster);
  return { own: (user + system) / 1000, server: new Map(server.map((pid) => [pid, ranMs(pid)])) };
}

/** The time between two readings. Processes that ended in between are left out, because theirs is unknown. */
export function cpuBetween(before: Cpu, after: Cpu): number {
  let ms = after.own - before.own;
  for (const [pid, ran] of after.server) ms += ran - (before.server.get(pid) ?? 0);
  return ms;
}

function parentOf(pid: string): number | null {
  const stat = read(`/proc/${pid}/stat`);
  return stat === null ? null : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

/** The first field of schedstat is the time on a CPU, in nanoseconds. */
const ranMs = (pid: string) => Number(read(`/proc/${pid}/schedstat`)?.split(' ')[0] ?? 0) / 1e6;

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null; // the process has ended
  }
}
