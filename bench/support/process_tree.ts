/** The processes below one process, with the CPU time of each so far. */
import { readdirSync, readFileSync } from 'node:fs';

export type Process = {
  pid: number;
  parent: number;
  command: string;
  /** of the process alone */
  cpu_s: number;
  /** of its children that have ended, and of theirs */
  ended_s: number;
};

const TICKS = 100;

/** The process itself, and all below it that have not ended. */
export function treeOf(root: number): Process[] {
  const all = processes();
  const below = new Set([root]);
  for (let size = 0; size !== below.size; ) {
    size = below.size;
    for (const { pid, parent } of all) if (below.has(parent)) below.add(pid);
  }
  return all.filter(({ pid }) => below.has(pid));
}

/** The CPU time of all processes that ever were in the tree, as long as each was waited for. */
export const cpuOfTree = (root: number): number =>
  treeOf(root).reduce((sum, { cpu_s, ended_s }) => sum + cpu_s + ended_s, 0);

function processes(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ');
        const seconds = (at: number) => (Number(fields[at]) + Number(fields[at + 1])) / TICKS;
        const times = { cpu_s: seconds(11), ended_s: seconds(13) };
        return [{ pid: Number(name), parent: Number(fields[1]), command, ...times }];
      } catch {
        return []; // the process has ended
      }
    });
}
