/** The options of a sandbox, the launcher's arguments for them, and the isolation that the launcher reports. */

import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

/** A read-only root: which parts of the machine a box sees, and where. */
export type Profile = {
  mounts: readonly { from: string; to: string }[];
  /** small files, copied when the launcher starts: a mount for each would cost every run */
  copies?: readonly { from: string; to: string }[];
  /** files that programs map: a slot that runs programs has its own copies */
  own?: readonly { from: string; to: string }[];
  /** folders that are copied whole */
  trees?: readonly { from: string; to: string }[];
  /** like `own`, of files in folders that are mounted */
  fronts?: readonly { from: string; to: string }[];
  links?: readonly { target: string; at: string }[];
};

export type IsolationKind = 'v1' | 'v2' | 'v2-user' | 'rlimits';

export type SandboxOptions = {
  /** path of the launcher's binary */
  launcher: string;
  /** programs at one time */
  slots: number;
  /** boxes that may stay open at one time; they have slots of their own */
  stream_slots?: number;
  profiles: Readonly<Record<string, Profile>>;
  /** the store of artefacts; without it nothing is saved or loaded */
  store_dir?: string;
  /**
   * The shared object by which a warm interpreter forks the runs of requests that ask for it. Default:
   * the one that is built beside the launcher; null: none
   */
  zygote?: string | null;
  isolation?: 'auto' | IsolationKind;
  /** percent of the processors that programs leave to the service; 0: no quotas of the processors at all */
  cpu_reserve_percent?: number;
  /** first of the user ids that programs run as */
  uid_base?: number;
  /** a descriptor of this process that the launcher and its slots have until they end */
  inherited?: number | null;
  /** so long after its limits may a run's report come; then the launcher hangs, and is replaced */
  late_ms?: number;
  /** takes the launcher's messages, line by line */
  log?: (line: string) => void;
};

export type Isolation = {
  kind: IsolationKind;
  degraded: boolean;
  /** What this machine lacks for full isolation, and how to get it. */
  missing: string | null;
  slots: number;
  stream_slots: number;
  /** where the control groups are */
  groups: string;
  pid: number;
};

export function launcherArguments(options: SandboxOptions): string[] {
  const list = ['--socket', '3', '--slots', `${options.slots}`];
  if (options.stream_slots) list.push('--stream-slots', `${options.stream_slots}`);
  if (options.cpu_reserve_percent !== undefined)
    list.push('--cpu-reserve', `${options.cpu_reserve_percent}`);
  if (options.isolation) list.push('--isolation', options.isolation);
  if (options.uid_base) list.push('--uid-base', `${options.uid_base}`);
  const beside = join(dirname(resolve(options.launcher)), 'zygote.so');
  const zygote = options.zygote === undefined && existsSync(beside) ? beside : options.zygote;
  if (zygote) list.push('--zygote', zygote);
  if (options.store_dir) list.push('--store', options.store_dir);
  for (const [name, profile] of Object.entries(options.profiles)) {
    const { mounts, copies, own, trees, fronts, links } = profile;
    list.push('--profile', name);
    // They must be there before the folders are mounted over them.
    for (const { from, to } of fronts ?? []) list.push('--front', from, to);
    for (const { from, to } of trees ?? []) list.push('--tree', from, to);
    for (const { from, to } of own ?? []) list.push('--own', from, to);
    for (const { from, to } of mounts) list.push('--bind', from, to);
    for (const { from, to } of copies ?? []) list.push('--copy', from, to);
    for (const { target, at } of links ?? []) list.push('--link', target, at);
  }
  return list;
}
