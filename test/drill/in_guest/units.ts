/**
 * Runs in a guest machine that systemd has booted, as root (systemd.drill.ts). It installs the units by the commands of
 * DEPLOYING.md, with a PostgreSQL of its own, and judges what it sees by the service's answers and by systemd's.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { sectionLines } from '../../support/documents.ts';
import { isolates, SLOWNESS, startDatabase, until } from '../judged_service.ts';

const INSTALLED = '/srv/runledger';
const ENVIRONMENT = '/etc/runledger';
const WEB = 'http://127.0.0.1:8080';
const began = performance.now();
const say = (line: string) =>
  console.log(`${((performance.now() - began) / 1_000).toFixed(0).padStart(4)} s  ${line}`);

const [installing, starting, trying, asRoot, upgrading] = linesOf('systemd');

async function main(): Promise<void> {
  useLiftoff();
  mkdirSync(INSTALLED, { recursive: true });
  shell(`mount --bind ${resolve('.')} ${INSTALLED}`);
  const { urls } = await startDatabase();
  say('PostgreSQL runs');
  let key = '';
  for (const line of installing!) {
    shell(line);
    say(line);
  }
  fillIn(urls);
  for (const line of starting!) {
    const said = shell(line);
    say(line);
    if (line.startsWith('runledger-owner ')) key = said.trim();
  }
  assert.match(key, /^rl_/, 'the first key');
  for (const name of ['migrate', 'web', 'worker'])
    say(
      `${name}: ${property(name, 'ActiveState')}, started ${property(name, 'NRestarts') || '0'} times again`,
    );

  await Promise.race([isolates(WEB, key, 'v2-user'), isStartedAgain('worker')]);
  say('a verdict, isolated by v2-user');
  const tried = shell(trying!.join('\n').replace('KEY', key));
  assert.match(tried, /"stdout":"42\\n"/, tried);
  assert.equal(property('web', 'Result'), 'success');
  confined();
  await comesBack(key);
  for (const line of asRoot!) shell(line);
  say('the worker as root');
  await isolates(WEB, key, 'v2');
  say('a verdict, isolated by v2');
  await upgrades(key);
  stops();
}

/** V8 has crashed in emulated guests when it optimized WebAssembly, which strips the types. No file outside the guest changes. */
function useLiftoff(): void {
  const node = realpathSync('node_modules/.bin/node');
  rmSync('node_modules/.bin/node');
  writeFileSync('node_modules/.bin/node', `#!/bin/sh\nexec ${node} --liftoff-only "$@"\n`, {
    mode: 0o755,
  });
}

/** As a person would: addresses and keys in the places of CHANGE. Emulated programs need longer limits. */
function fillIn(urls: Readonly<Record<string, string>>): void {
  const key = () => randomBytes(32).toString('base64');
  const seal_key = key();
  for (const name of readdirSync(ENVIRONMENT)) {
    const file = join(ENVIRONMENT, name);
    const text = readFileSync(file, 'utf8')
      .replace(/postgres:\/\/runledger_(\w+):CHANGE@\S+/, (_, role) => urls[role]!)
      .replace(/RUNLEDGER_SEAL_KEY=\w+/, `RUNLEDGER_SEAL_KEY=${seal_key}`)
      .replaceAll('CHANGE', key);
    const slow = Object.entries(SLOWNESS)
      .map((pair) => `${pair.join('=')}\n`)
      .join('');
    writeFileSync(file, text + slow, { mode: 0o600 });
  }
}

/** systemd starts a worker that cannot isolate again and again, and a verdict would never come. */
async function isStartedAgain(name: string): Promise<never> {
  while (Number(property(name, 'NRestarts')) === 0) await wait(1_000);
  throw new Error(`${name} has ended by itself, and systemd has started it again`);
}

/** What the units say is what the processes have. */
function confined(): void {
  const status = (name: string) =>
    Object.fromEntries(
      readFileSync(`/proc/${property(name, 'MainPID')}/status`, 'utf8')
        .split('\n')
        .map((line) => line.split(':\t') as [string, string]),
    );
  const web = status('web');
  assert.deepEqual(
    [web.CapEff, web.CapBnd, web.NoNewPrivs, web.Seccomp],
    ['0'.repeat(16), '0'.repeat(16), '1', '2'],
  );
  assert.notEqual(web.Uid!.split('\t')[0], '0');
  const worker = status('worker');
  assert.notEqual(worker.Uid!.split('\t')[0], '0');
  assert.equal(worker.CapEff, '0'.repeat(16));
  const seal = readFileSync(`/proc/${property('worker', 'MainPID')}/environ`, 'utf8');
  assert.doesNotMatch(seal, /SEAL_KEY|runledger_owner|runledger_web/);
  say('web and worker have no rights and no secrets of others');
}

/** After kill -9 systemd starts the worker again, and nothing of the old one is left. */
async function comesBack(key: string): Promise<void> {
  const before = property('worker', 'MainPID');
  process.kill(Number(before), 'SIGKILL');
  await until('another worker', async () => !['0', before].includes(property('worker', 'MainPID')));
  await isolates(WEB, key, 'v2-user');
  say('a verdict, isolated by v2-user');
  say('the worker came back');
}

async function upgrades(key: string): Promise<void> {
  const units = ['migrate', 'web', 'worker'];
  const before = units.map((name) => property(name, 'InvocationID'));
  for (const line of upgrading!) shell(line);
  for (const [at, name] of units.entries()) {
    await until(`${name} again`, async () => property(name, 'ActiveState') === 'active');
    assert.notEqual(property(name, 'InvocationID'), before[at], name);
  }
  await isolates(WEB, key, 'v2');
  say('a verdict, isolated by v2');
  say('restarting the migration restarts web and worker');
}

/** Both end by themselves, within their time. */
function stops(): void {
  shell('systemctl stop runledger-web runledger-worker');
  for (const name of ['web', 'worker']) assert.equal(property(name, 'Result'), 'success', name);
  say('both stopped in order');
}

function linesOf(heading: string): string[][] {
  const CANNOT = /^(git clone|apt-get) /;
  return sectionLines('DEPLOYING.md', heading).map((block) =>
    block.filter((line) => !CANNOT.test(line)),
  );
}

function shell(line: string): string {
  const { status, stdout, stderr } = spawnSync('sh', ['-c', line], {
    cwd: INSTALLED,
    encoding: 'utf8',
  });
  if (status === 0) return stdout;
  throw new Error(`${line}: status ${status}\n${stdout}${stderr}`);
}

const property = (name: string, property: string) =>
  spawnSync('systemctl', ['show', '--value', '-p', property, `runledger-${name}`], {
    encoding: 'utf8',
  }).stdout.trim();

await main().catch((error) => {
  const words = ['--no-pager', '--output=cat', '-n', '80', '-u', 'runledger-*'];
  console.log(spawnSync('journalctl', words, { encoding: 'utf8' }).stdout);
  throw error;
});
process.exit(0);
