/** Counts what runs in boxes could leave on this machine. If a count differs before and after, something leaks. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Isolation } from '../../src/executor/sandbox.ts';
import { pids } from '../executor/processes.ts';
import { childrenOf } from '../support/processes.ts';

export type Leftovers = {
  /** descendants of the launcher, and processes of a box's user */
  processes: number;
  launcher_descriptors: number;
  slot_descriptors: number;
  mounts: number;
  launcher_mounts: number;
  slot_mounts: number;
  groups: number;
  store_entries: number;
  files_of_users: number;
  ipc_objects: number;
};

/** `users`: the user ids, on this machine, of the boxes' programs. */
export function leftovers(
  isolation: Isolation,
  store_dir: string,
  users: ReadonlySet<number>,
): Leftovers {
  const { pid, groups } = isolation;
  const slots = childrenOf(pid);
  const ours = new Set([...slots, ...slots.flatMap(childrenOf)]);
  for (const each of pids()) if (users.has(userOf(each))) ours.add(each);
  return {
    processes: ours.size,
    launcher_descriptors: entries(`/proc/${pid}/fd`),
    slot_descriptors: slots.reduce((sum, slot) => sum + entries(`/proc/${slot}/fd`), 0),
    mounts: mountsIn('self'),
    launcher_mounts: mountsIn(pid),
    slot_mounts: slots.reduce((sum, slot) => sum + mountsIn(slot), 0),
    groups: groupsBelow(groups),
    store_entries: entries(store_dir),
    files_of_users: [tmpdir(), '/dev/shm', '/var/tmp'].flatMap((place) => ownedBy(users, place))
      .length,
    ipc_objects: IPC_TABLES.flatMap((table) => objectsOf(users, table)).length,
  };
}

/** Without the named network namespaces that another test may make at the same time: no launcher makes any. */
const mountsIn = (pid: number | 'self') =>
  read(`/proc/${pid}/mountinfo`)
    .trim()
    .split('\n')
    .filter((line) => !line.includes(' /run/netns')).length;

const IPC_TABLES = ['/proc/sysvipc/shm', '/proc/sysvipc/msg', '/proc/sysvipc/sem'];

function ownedBy(users: ReadonlySet<number>, directory: string): string[] {
  return list(directory).filter((name) => {
    const state = statSync(join(directory, name), { throwIfNoEntry: false });
    return state !== undefined && users.has(state.uid);
  });
}

/** The first line of the table names its columns. */
function objectsOf(users: ReadonlySet<number>, table: string): string[] {
  const [head = '', ...rows] = read(table).trim().split('\n');
  const column = head.trim().split(/\s+/).indexOf('uid');
  return rows.filter((row) => users.has(Number(row.trim().split(/\s+/)[column])));
}

/** Resident bytes of the launcher itself. */
export function launcherBytes({ pid }: Isolation): number {
  const status = read(`/proc/${pid}/status`);
  const bytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
  // Not the pages that it shares with its slots, which hold the output of one run after the other.
  return bytes('VmRSS') - bytes('RssShmem');
}

/** The counts that differ, as text. */
export function differences(before: Leftovers, after: Leftovers): string[] {
  const names = Object.keys(before) as (keyof Leftovers)[];
  return names
    .filter((name) => before[name] !== after[name])
    .map((name) => `${name}: ${before[name]} before, ${after[name]} after`);
}

function groupsBelow(directory: string): number {
  let count = 0;
  // v1 has a tree for each hierarchy. A group that is left in another hierarchy is left in this one too.
  for (const name of list(directory)) {
    const path = join(directory, name);
    if (isDirectory(path)) count += 1 + groupsBelow(path);
  }
  return count;
}

function userOf(pid: number): number {
  return Number(/^Uid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? -2);
}

const list = (path: string): string[] => {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
};
const entries = (path: string) => list(path).length;
const isDirectory = (path: string) => {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
};
const read = (path: string) => {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
};
