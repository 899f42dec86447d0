/** The image, made of a Debian that debootstrap made, and its containers in a machine with control groups v2. */
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { debianRoot, install, TRUST } from './debian_root.ts';
import { type Drill, NotRun, type Stage } from './drill.ts';
import { inGuest } from './guest.ts';

const RUN = join(import.meta.dirname, 'run_containers.ts');
const BASE = 'localhost/debian:12';
const IMAGE = 'localhost/runledger';

export const drill: Drill = {
  shows:
    'podman builds the image without a registry; worker, web and migrate run in containers, and boxes isolate',
  async run(stage) {
    if (process.getuid!() !== 0) throw new NotRun('only root can start a guest machine');
    await install(stage, 'podman');
    await install(stage, 'crun');
    const root = join(stage.folder, 'image');
    await build(stage);
    await unpack(stage, root);
    if (isPureV2()) await onThisMachine(stage, root, 'v2', []);
    else {
      await onThisMachine(stage, root, 'v1', LEGACY);
      await inGuest(stage, ['--as', 'root'], [RUN, root, 'v2']);
    }
  },
};

const isPureV2 = () => existsSync('/sys/fs/cgroup/cgroup.controllers');

/** crun rejects a machine that has both versions of control groups mounted, so here it sees those of v1 alone. */
const LEGACY = [
  ...['unshare', '--mount', '--propagation', 'private', 'sh', '-c'],
  'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"',
  'sh',
];

async function onThisMachine(
  stage: Stage,
  root: string,
  kind: string,
  through: readonly string[],
): Promise<void> {
  const [program, ...args] = [...through, process.execPath, RUN, root, kind];
  await stage.step("containers on this machine's kernel", () => stage.command(program!, args));
}

async function build(stage: Stage): Promise<void> {
  const base = await debianRoot(stage, []);
  const shell = (line: string) => stage.command('sh', ['-c', line], { quiet: true });
  await stage.step('import the base', () => shell(`tar -C ${base} -c . | podman import - ${BASE}`));
  const trusted = Object.entries(TRUST).map((pair) => `--env=${pair.join('=')}`);
  const options = ['--network=host', '--isolation=chroot', `--build-arg=BASE=${BASE}`, ...trusted];
  await stage.step('build the image', () =>
    stage.command('podman', [
      'build',
      ...options,
      '-f',
      'deploy/container/Containerfile',
      '-t',
      IMAGE,
      '.',
    ]),
  );
}

/** A guest has no room for an image: it reads the files where they are. */
async function unpack(stage: Stage, root: string): Promise<void> {
  if (existsSync(root)) await rm(root, { recursive: true });
  await mkdir(root, { recursive: true });
  await stage.step('unpack the image', async () => {
    const id = await stage.command('podman', ['create', IMAGE], { quiet: true });
    await stage.command('sh', ['-c', `podman export ${id} | tar -C ${resolve(root)} -x`]);
    await stage.command('podman', ['rm', id], { quiet: true });
  });
}
