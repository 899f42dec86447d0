/** The memory of a service, by the kind of process. */
import { readFileSync } from 'node:fs';
import { treeOf } from '../../test/support/processes.ts';
import { kindOf as kindOfProcess } from './service.ts';

/** `java` are the resident compilers, `python` the interpreters from which runs are forked, `boxes` the launcher and the rest. */
export const kinds = ['serve', 'web', 'worker', 'postgres', 'java', 'python', 'boxes'] as const;
export type Kind = (typeof kinds)[number];
export type Memory = Record<Kind, { count: number; pss_mb: number; page_tables_mb: number }>;

/** Call it while no submitted program runs: it would be counted, too. */
export function memoryOf(serve: number): Memory {
  const memory = Object.fromEntries(
    kinds.map((kind) => [kind, { count: 0, pss_mb: 0, page_tables_mb: 0 }]),
  ) as Memory;
  const seen = new Set<string>();
  for (const { pid, command } of treeOf(serve)) {
    const of = memory[kindOf(command)];
    of.count += 1;
    // An interpreter shares its whole memory with the first process of its next box: the kernel counts it for both.
    const rollup = readIfThere(`/proc/${pid}/smaps_rollup`);
    if (rollup === '' || seen.has(rollup)) continue;
    seen.add(rollup);
    of.pss_mb += pssOf(pid);
    of.page_tables_mb += megabytes(`/proc/${pid}/status`, 'VmPTE');
  }
  return memory;
}

export const pssOf = (pid: number): number => megabytes(`/proc/${pid}/smaps_rollup`, 'Pss');

function kindOf(command: string): Kind {
  const process = kindOfProcess(command);
  if (process !== null) return process;
  if (/main\.js serve\b/.test(command)) return 'serve';
  if (/^\S*\/java /.test(command)) return 'java';
  return /^\S*\/python/.test(command) ? 'python' : 'boxes';
}

/** Of a line as the kernel writes it: `Pss:    1234 kB`. */
function megabytes(path: string, name: string): number {
  const [, kib = 0] = readIfThere(path).match(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm')) ?? [];
  return (Number(kib) * 1024) / 1e6;
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return ''; // the process has ended
    throw error;
  }
}
