/** `make run` on machines that are odd in one respect each. */
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Drill, NotRun } from './drill.ts';
import { MOUNTS, needsRoot, tryService, unshared } from './trial.ts';

const NO_IPV6: Drill = {
  shows: 'without IPv6 it runs as elsewhere',
  async run(stage) {
    needsRoot('make a network');
    const off =
      'echo 1 | tee /proc/sys/net/ipv6/conf/all/disable_ipv6 /proc/sys/net/ipv6/conf/default/disable_ipv6 >/dev/null';
    const within = unshared(['--net'], `ip link set lo up && ${off} || exit`);
    await tryService(stage, { within, apart: true });
  },
};

const NO_NETWORK: Drill = {
  shows: 'once installed, it needs no network but loopback',
  async run(stage) {
    needsRoot('make a network');
    await tryService(stage, {
      within: unshared(['--net'], 'ip link set lo up || exit'),
      apart: true,
    });
  },
};

const READ_ONLY_HOME: Drill = {
  shows: 'nothing is written to the home of who starts it',
  async run(stage) {
    needsRoot('mount');
    const home = join(stage.folder, 'home');
    mkdirSync(home, { recursive: true });
    const mount = `mount --bind "${home}" "${home}" && mount -o remount,bind,ro "${home}" && ! touch "${home}/x" 2>/dev/null || exit`;
    await tryService(stage, { within: unshared(MOUNTS, mount), env: { HOME: home } });
  },
};

const ODD_PATH: Drill = {
  shows: 'a clone may be in a folder whose name has spaces and other letters than ASCII',
  run: (stage) => tryService(stage, {}, undefined, "Ünï cödé & 'quotes' 试"),
};

const NO_LANG: Drill = {
  shows: 'without LANG, or with one that the machine lacks, texts stay UTF-8',
  async run(stage) {
    await tryService(stage, { env: { LANG: undefined } });
    await tryService(stage, { env: { LANG: 'xx_XX.ISO-8859-1', LC_ALL: 'xx_XX.ISO-8859-1' } });
  },
};

const ONE_CPU: Drill = {
  shows: 'one processor is enough',
  run: (stage) => tryService(stage, { within: ['taskset', '--cpu-list', '0'] }),
};

export const drills: Readonly<Record<string, Drill>> = {
  'no-ipv6': NO_IPV6,
  'no-network': NO_NETWORK,
  'read-only-home': READ_ONLY_HOME,
  'odd-path': ODD_PATH,
  'no-lang': NO_LANG,
  'one-cpu': ONE_CPU,
};
