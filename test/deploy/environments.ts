/**
 * The kinds of machine on which somebody tries the service for the first time, as far as this machine can imitate them.
 * Each is a command that runs another one inside.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Test } from 'tap';
import { WITHOUT_LANDLOCK } from '../support/without_landlock.ts';

export const ROOT = join(import.meta.dirname, '../..');

export type Environment = {
  name: string;
  /** The user that owns the installation's state. */
  uid: number;
  /** The isolation that is expected; null: whatever this machine offers at best. */
  isolation: 'full' | 'degraded' | null;
  /** The command, without the words of the inner command. */
  inside: readonly string[];
};

/** The kernel counts the processes of a user, so no other test has this one. */
const ORDINARY = 4_244;
/** The first id of the user namespace with many ids. */
const MAPPED = 300_000;
const isRoot = process.getuid!() === 0;
const hasV2 = existsSync('/sys/fs/cgroup/cgroup.controllers');

/** What a container has unless it is given more: Docker's default capabilities. */
const CAPABILITIES = [
  ...['chown', 'dac_override', 'fowner', 'fsetid', 'kill', 'setgid', 'setuid', 'setpcap'],
  ...['net_bind_service', 'net_raw', 'sys_chroot', 'mknod', 'audit_write', 'setfcap'],
];

const asUser = (uid: number) => [
  ...['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'],
  ...['--pdeathsig=KILL', '--'],
];

/** Control groups that are read-only, and few capabilities. */
const container = (uid: number) => [
  ...['unshare', '--mount', '--propagation', 'private', 'sh', '-c'],
  `awk '$5 ~ "^/sys/fs/cgroup" { print $5 }' /proc/self/mountinfo |
    while read -r point; do mount -o remount,bind,ro "$point" || exit; done
  exec setpriv --reuid=${uid} --regid=${uid} --clear-groups --inh-caps=-all --pdeathsig=KILL \
    --bounding-set=-all,${CAPABILITIES.map((name) => `+${name}`).join(',')} -- "$@"`,
  'sh',
];

/** A user namespace in which the user is root and has no other id, as after \`unshare --map-root-user\`. */
const rootlessAlone = [
  ...(isRoot ? asUser(ORDINARY) : []),
  ...['unshare', '--user', '--map-root-user', '--', 'setpriv', '--pdeathsig=KILL', '--'],
];

/** A user namespace with 65,536 ids, as rootless containers have. Only root can write such a map without a helper. */
const rootlessMany = [
  ...['sh', '-c'],
  `folder=$(mktemp -d) && mkfifo "$folder/ready" "$folder/go" && chmod -R o+rwx "$folder" || exit
  (
    read -r pid < "$folder/ready"
    for map in uid gid; do echo "0 ${MAPPED} 65536" > "/proc/$pid/\${map}_map"; done
    echo > "$folder/go"
    rm -r "$folder"
  ) &
  exec unshare --user --keep-caps sh -c '
    echo $$ > "$0/ready"; read -r go < "$0/go"
    exec setpriv --reuid=0 --regid=0 --clear-groups --pdeathsig=KILL -- "$@"' "$folder" "$@"`,
  'sh',
];

const own: Environment = {
  name: isRoot ? 'root' : 'this user',
  uid: process.getuid!(),
  isolation: isRoot ? 'full' : null,
  inside: ['setpriv', '--pdeathsig=KILL', '--'],
};

const asRoot: readonly Environment[] = [
  { name: 'an ordinary user', uid: ORDINARY, isolation: 'degraded', inside: asUser(ORDINARY) },
  { name: 'root in a plain container', uid: 0, isolation: 'degraded', inside: container(0) },
  {
    name: 'a user in a plain container',
    uid: ORDINARY,
    isolation: 'degraded',
    inside: container(ORDINARY),
  },
  {
    name: 'a user namespace of many ids',
    uid: MAPPED,
    isolation: 'degraded',
    inside: rootlessMany,
  },
];

export const ENVIRONMENTS: readonly Environment[] = [
  own,
  ...(isRoot ? asRoot : []),
  {
    name: 'a user namespace of one id',
    uid: isRoot ? ORDINARY : process.getuid!(),
    // An ordinary user keeps the control group that systemd delegated to them, if it did.
    isolation: isRoot || !hasV2 ? 'degraded' : null,
    inside: rootlessAlone,
  },
];

/** An ordinary user without control groups, whose kernel has no Landlock: nothing would protect the worker. */
export const UNPROTECTED: Environment = {
  name: 'an ordinary user without Landlock',
  uid: ORDINARY,
  isolation: null,
  inside: [...asUser(ORDINARY), ...WITHOUT_LANDLOCK],
};

/** An ordinary user without control groups of his own. */
export const UNISOLATED: Environment = asRoot[0]!;

/** Why this machine cannot imitate it, or why its user cannot reach this clone; null if it can. */
export function cannotImitate({ inside }: Environment): string | null {
  const [program, ...args] = [...inside, process.execPath, '--version'];
  const { status, stderr, error } = spawnSync(program!, args, { cwd: ROOT, encoding: 'utf8' });
  if (status === 0) return null;
  return `cannot be made here: ${error?.message ?? stderr.trim().split('\n').at(-1)}`;
}

/** A folder of the environment's user. */
export async function folderFor(t: Test, { uid }: Environment): Promise<string> {
  const folder = await mkdtemp('/var/tmp/runledger-first-');
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  if (isRoot) await chown(folder, uid, uid);
  await chmod(folder, 0o700);
  return folder;
}
