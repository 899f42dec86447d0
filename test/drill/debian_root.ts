/** A minimal Debian 12 that this machine's network works in, and a way to run something in it without changing it. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { NotRun, type Stage } from './drill.ts';

const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';
/** Node believes its own list of authorities, and this machine's network may have one more. */
export const TRUST = existsSync(CERTIFICATES) ? { NODE_EXTRA_CA_CERTS: CERTIFICATES } : {};

/** All drills start from it. */
const BASE = resolve('build/drill/debian');

/** A root with the packages. Base and root are made once, and stay. */
export async function debianRoot(stage: Stage, packages: readonly string[]): Promise<string> {
  if (process.getuid!() !== 0) throw new NotRun('only root can make a root folder of Debian');
  await install(stage, 'debootstrap');
  await once(stage, 'debootstrap --variant=minbase', BASE, async () => {
    await stage.command('deploy/container/debian_root.sh', [BASE], { quiet: true });
    await trust(stage, BASE);
  });
  if (packages.length === 0) return BASE;
  const root = join(stage.folder, 'root');
  await once(stage, `apt-get install ${packages.join(' ')}`, root, async () => {
    await stage.command('cp', ['-a', BASE, root]);
    const apt = ['apt-get', '-qq', '-o', 'Dpkg::Use-Pty=0'];
    const env = { PATH: process.env['PATH'], DEBIAN_FRONTEND: 'noninteractive' };
    for (const words of [['update'], ['install', '-y', '--no-install-recommends', ...packages]])
      await stage.command('chroot', [root, ...apt, ...words], { env, quiet: true });
  });
  return root;
}

/** A folder that is half made is made again. */
async function once(
  stage: Stage,
  what: string,
  folder: string,
  make: () => Promise<void>,
): Promise<void> {
  const complete = `${folder}.complete`;
  if (existsSync(complete)) return;
  await rm(folder, { recursive: true, force: true });
  await stage.step(what, make);
  writeFileSync(complete, '');
}

/** Installs a package of this machine, where its program is missing. */
export async function install(stage: Stage, name: string, program = name): Promise<void> {
  if (!spawnSync(program, ['--version'], { stdio: 'ignore' }).error) return;
  const apt = (...words: string[]) => stage.command('apt-get', ['-qq', ...words], { quiet: true });
  await stage
    .step(`install ${name} on this machine`, async () => {
      await apt('update');
      await apt('install', '-y', '--no-install-recommends', name);
    })
    .catch(() => {
      throw new NotRun(`${name} cannot be installed here`);
    });
}

/** The authorities that this machine's network needs, and its resolver. */
async function trust(stage: Stage, root: string): Promise<void> {
  const folder = join(root, 'usr/local/share/ca-certificates');
  mkdirSync(folder, { recursive: true });
  const all = existsSync(CERTIFICATES) ? readFileSync(CERTIFICATES, 'utf8') : '';
  const each = all.match(/-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n/gs) ?? [];
  for (const [at, text] of each.entries()) writeFileSync(join(folder, `machine-${at}.crt`), text);
  writeFileSync(join(root, 'etc/resolv.conf'), readFileSync('/etc/resolv.conf'));
  await stage.command('chroot', [root, 'update-ca-certificates'], { quiet: true });
}

/**
 * The words of a command that runs another one in the root, with this machine's kernel, network and control groups. Writes go
 * to a layer in front of the root, `upper`, which ends with the drill.
 */
export async function inside(
  stage: Stage,
  root: string,
): Promise<{ words: string[]; upper: string }> {
  const layer = await mkdtemp(join(stage.folder, 'layer-'));
  for (const name of ['upper', 'work', 'merged']) mkdirSync(join(layer, name));
  stage.teardown(() => rm(layer, { recursive: true, force: true }));
  const script = `
    mount -t overlay overlay -o lowerdir=${root},upperdir=${layer}/upper,workdir=${layer}/work ${layer}/merged
    cd ${layer}/merged
    mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev && mount -t tmpfs tmp tmp || exit
    exec chroot . "$@"`;
  const namespaces = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'];
  const words = ['unshare', ...namespaces, 'sh', '-c', script, 'sh'];
  return { words, upper: join(layer, 'upper') };
}
