/** CPU that this process and a PostgreSQL server took: what a busy machine cannot falsify as it does rates. */
import { readdirSync, readFileSync } from 'node:fs';

export type Cpu = { us: number; server: ReadonlyMap<string, number> };

/** What was used so far, in milliseconds: ours, and that of each process of the server. */
export function cpuNow(postmaster: number): Cpu {
  const { user, system } = process.cpuUsage();
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const server = pids.filter((pid) => Number(pid) === postmaster || parentOf(pid) === postmaster);
  return { us: (user + system) / 1000, server: new Map(server.map((pid) => [pid, ranMs(pid)])) };
}

/** Between two looks; processes that ended between them are left out, for nobody knows theirs. */
export function cpuBetween(before: Cpu, after: Cpu): number {
  let ms = after.us - before.us;
  for (const [pid, ran] of after.server) ms += ran - (before.server.get(pid) ?? 0);
  return ms;
}

function parentOf(pid: string): number | null {
  const stat = read(`/proc/${pid}/stat`);
  return stat === null ? null : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

/** Its first field is nanoseconds on a CPU. */
const ranMs = (pid: string) => Number(read(`/proc/${pid}/schedstat`)?.split(' ')[0] ?? 0) / 1e6;

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null; // it ended while we looked
  }
}
