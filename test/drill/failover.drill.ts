/** Three machines with PostgreSQL under Patroni, by the files of deploy/ha: the primary is lost in four ways under load. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { noNetworks } from '../queue/network.ts';
import { install } from './debian_root.ts';
import { type Drill, NotRun, type Stage } from './drill.ts';

const RUN = join(import.meta.dirname, 'failover/run_failover.ts');
/** Of the packages, by the program that each brings. */
const PACKAGES = [
  ['patroni', 'patroni'],
  ['etcd-server', 'etcd'],
  ['haproxy', 'haproxy'],
  ['postgresql-15', '/usr/lib/postgresql/15/bin/postgres'],
] as const;
/**
 * Everything of the drill, its networks, disks and processes, is in namespaces, and so ends with it however it ends. A shell is
 * the first process there, because that must take notice of the end of processes which it did not start.
 */
const NAMESPACES = ['--net', '--pid', '--fork', '--kill-child', '--mount-proc'];
const INSIDE = `
  ip link set lo up && mkdir -p /run/netns && mount -t tmpfs netns /run/netns || exit
  "$@"
  exit $?`;

export const drill: Drill = {
  shows:
    'Patroni, etcd and HAProxy: the primary is killed, cut off, paused and filled; nothing answered is lost or runs twice',
  async run(stage) {
    if (process.getuid!() !== 0) throw new NotRun('only root can make networks and disks');
    const missing = noNetworks();
    if (missing !== null) throw new NotRun(missing);
    await installAll(stage);
    const words = [process.execPath, RUN, stage.folder];
    const shell = ['sh', '-c', INSIDE, 'sh', ...words];
    await stage.command('unshare', [
      '--mount',
      '--propagation',
      'private',
      ...NAMESPACES,
      ...shell,
    ]);
  },
};

/** A package starts its service: it is stopped where it was not here before. */
async function installAll(stage: Stage): Promise<void> {
  const services = { patroni: 'patroni', 'etcd-server': 'etcd', haproxy: 'haproxy' };
  for (const [name, program] of PACKAGES) {
    const here = existsSync(program) || existsSync(`/usr/bin/${program}`);
    await install(stage, name, program);
    const service = name in services ? services[name as 'patroni'] : 'postgresql';
    if (!here && existsSync('/run/systemd/system'))
      await stage.command('systemctl', ['disable', '--now', service], { quiet: true });
  }
}
