/**
 * Podman and crun start the image's files: migrate, a worker without rights, web, and a worker with the rights of the compose
 * file. The container drill runs this on the machine itself, and in a guest that has only control groups v2.
 *
 *   containers.ts ROOT KIND    the folder with the image's files, and the isolation that is expected
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { environmentOf, serviceOf, WEB_PORT } from './containers.ts';
import { isolates, SLOWNESS, startDatabase } from './judged_service.ts';

const [root, kind] = process.argv.slice(2) as [string, string];
const ENTRYPOINT = '/srv/runledger/deploy/container/entrypoint.sh';
/** In a guest this is memory: a layer cannot be kept on its root, which is one itself. */
const PODMAN = [
  '--root=/tmp/runledger-drill/containers',
  '--runroot=/tmp/runledger-drill/run',
  '--cgroup-manager=cgroupfs',
  '--events-backend=none',
];
const COMMON = [
  '--rm',
  '--network=host',
  '--log-driver=none',
  // Root of a machine may not have the right to raise limits above these.
  '--ulimit=nofile=4096:4096',
  '--ulimit=nproc=1000:1000',
  '--env=RUNLEDGER_STATE_DIR=/var/lib/runledger',
];

const called = (name: string) => `runledger-drill-${name}`;
const began = performance.now();
const say = (line: string) =>
  console.log(`${((performance.now() - began) / 1_000).toFixed(0).padStart(4)} s  ${line}`);

const NAMES = ['migrate', 'worker', 'web', 'keys'];

async function tryAll(): Promise<void> {
  const migrated = finished('migrate', serviceOf('migrate').options);
  assert.equal(migrated.status, 0, migrated.output);
  say('the container of migrate has ended');

  const plain = finished('worker', []);
  assert.equal(plain.status, 3, plain.output);
  say(`without rights: ${/"reason":"([^"]*)"/.exec(plain.output)?.[1]}`);

  const made = finished('keys', [], ['keys', 'create', '--account', 'first']);
  const key = made.stdout.trim();
  const early = ['web', 'worker'].map((name) => started(name, serviceOf(name).options));
  // Those that end later were removed.
  for (const each of early) each.catch(() => {});
  await Promise.race([isolates(`http://127.0.0.1:${WEB_PORT}`, key, kind), ...early]);
  say(`a verdict, isolated by ${kind}`);
}

function remove(): void {
  spawnSync('podman', [...PODMAN, 'rm', '--force', '--ignore', '--time=30', ...NAMES.map(called)]);
}

function words(name: string, options: readonly string[], command?: readonly string[]): string[] {
  const service = name === 'keys' ? 'migrate' : name;
  const env = environmentOf(service, urls, service === 'migrate' ? {} : SLOWNESS);
  const image = ['--rootfs', `${root}:O`, ENTRYPOINT, ...(command ?? serviceOf(service).command)];
  return [...PODMAN, 'run', `--name=${called(name)}`, ...COMMON, ...env, ...options, ...image];
}

function finished(name: string, options: readonly string[], command?: readonly string[]) {
  const { status, stdout, stderr } = spawnSync('podman', words(name, options, command), {
    encoding: 'utf8',
  });
  return { status, stdout, output: `${stdout}${stderr}` };
}

/** Rejects when the container ends. */
async function started(name: string, options: readonly string[]): Promise<never> {
  const child = spawn('podman', words(name, options), { stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      if (!line.includes('"msg":"request"')) say(`${name}: ${line.slice(0, 300)}`);
    });
  const [code] = await once(child, 'exit');
  throw new Error(`${name} ended with status ${code}`);
}

remove();
const { urls, server } = await startDatabase();
say('PostgreSQL runs');
try {
  await tryAll();
} finally {
  // podman's own processes do not end with this one.
  remove();
  await server.stop();
}
process.exit(0);
