/**
 * Runs in a guest machine with control groups v2 alone, as root (container.drill.ts): podman and crun start the image's files.
 *
 *   containers.ts ROOT    the folder with the image's files
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { environmentOf, serviceOf, WEB_PORT } from '../containers.ts';
import { isolates, SLOWNESS, startDatabase } from '../judged_service.ts';

const root = process.argv[2]!;
const ENTRYPOINT = '/srv/runledger/deploy/container/entrypoint.sh';
/** In memory: a layer cannot be kept on the guest's own root, which is one. */
const PODMAN = [
  '--root=/tmp/containers',
  '--runroot=/tmp/run',
  '--cgroup-manager=cgroupfs',
  '--events-backend=none',
];
const COMMON = [
  '--rm',
  '--network=host',
  '--log-driver=none',
  '--env=RUNLEDGER_STATE_DIR=/var/lib/runledger',
];

const began = performance.now();
const say = (line: string) =>
  console.log(`${((performance.now() - began) / 1_000).toFixed(0).padStart(4)} s  ${line}`);

const { urls } = await startDatabase();
say('PostgreSQL runs');

const migrated = finished('migrate', serviceOf('migrate').options);
assert.equal(migrated.status, 0, migrated.output);
say('the container of migrate has ended');

const plain = finished('worker', []);
assert.equal(plain.status, 3, plain.output);
say(`without rights: ${/"reason":"([^"]*)"/.exec(plain.output)?.[1]}`);

const key = finished('keys', [], ['keys', 'create', '--account', 'first'])
  .output.trim()
  .split('\n')
  .at(-1)!;
started('web', serviceOf('web').options);
started('worker', serviceOf('worker').options);
await isolates(`http://127.0.0.1:${WEB_PORT}`, key, 'v2');
say('a verdict, isolated by v2');
process.exit(0);

function words(name: string, options: readonly string[], command?: readonly string[]): string[] {
  const service = name === 'keys' ? 'migrate' : name;
  const env = environmentOf(service, urls, service === 'migrate' ? {} : SLOWNESS);
  const image = ['--rootfs', `${root}:O`, ENTRYPOINT, ...(command ?? serviceOf(service).command)];
  return [...PODMAN, 'run', ...COMMON, ...env, ...options, ...image];
}

function finished(name: string, options: readonly string[], command?: readonly string[]) {
  const { status, stdout, stderr } = spawnSync('podman', words(name, options, command), {
    encoding: 'utf8',
  });
  return { status, output: `${stdout}${stderr}` };
}

function started(name: string, options: readonly string[]): void {
  const child = spawn('podman', words(name, options), { stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => say(`${name}: ${line.slice(0, 300)}`));
  void once(child, 'exit').then(([code]) => {
    say(`${name} ended with status ${code}`);
    process.exit(1);
  });
}
