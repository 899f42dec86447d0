/** HAProxy by the file of deploy/ha, and behind it web, two workers and a witness, as processes of the drill. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect, type Db } from '../../../src/db.ts';
import { ROLES, roleName } from '../../../src/local/roles.ts';
import { CLI, runledger } from '../../cli/command_line.ts';
import { call, freePort } from '../../http/support/call.ts';
import { type WebProcess, webProcess } from '../../http/support/web_process.ts';
import { spawnBound } from '../../support/spawn_bound.ts';
import type { Machine } from './machines.ts';

const HAPROXY = 'deploy/ha/haproxy.cfg';
const PRIMARY = '127.0.0.1:5000';
const PASSWORD = 'CHANGE';
const SEAL_KEY = Buffer.alloc(32, 7).toString('base64');
const ORIGIN = 'failover.test';

type Stage = { folder: string; say(line: string): void; teardown(work: () => unknown): void };

export const urlOf = (role: string, where: string = PRIMARY): string =>
  `postgres://${role}:${PASSWORD}@${where}/runledger?sslmode=require`;

export function ownerAt(where: string = PRIMARY): Db {
  const url = urlOf('runledger_owner', where).replace('?sslmode=require', '');
  return connect({ url, tls: { rejectUnauthorized: false } }, { name: 'drill', max: 1 });
}

export function startHaproxy(stage: Stage): void {
  const log = openSync(join(stage.folder, 'haproxy.log'), 'w');
  const checked = spawnSync('haproxy', ['-c', '-f', HAPROXY], { encoding: 'utf8' });
  if (checked.status !== 0) throw new Error(`${HAPROXY}: ${checked.stderr}`);
  spawnBound('haproxy', ['-db', '-f', HAPROXY], { stdio: ['ignore', log, log] });
}

/** Those of OPERATING.md, on the primary. */
export function createLogins(primary: Machine): void {
  const sql = (database: string, text: string) =>
    primary.run('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', database, '-c', text);
  for (const role of ROLES.map(roleName))
    sql('postgres', `create role ${role} login password '${PASSWORD}'`);
  sql('postgres', 'create database runledger owner runledger_owner');
}

export type Witness = { line: string; url: string; size(): Promise<number> };

/** Made before the log's first checkpoint, so that it has seen all of them. */
export async function startWitness(stage: Stage): Promise<Witness> {
  const dir = join(stage.folder, 'witness');
  const logs = join(stage.folder, 'policy-of-the-log.txt');
  writeFileSync(logs, await command(['policy'], {}));
  const port = await freePort();
  const made = ['witness', '--name', 'witness.test', '--dir', dir];
  const line = (await command([...made, '--key'], {})).trim().split(' ')[2]!;
  const child = spawnBound(
    process.execPath,
    [CLI, ...made, '--logs', logs, '--listen', `127.0.0.1:${port}`],
    { stdio: ['ignore', 'ignore', openSync(join(stage.folder, 'witness.log'), 'w')] },
  );
  stage.teardown(() => child.kill('SIGTERM'));
  const url = `http://127.0.0.1:${port}`;
  const size = async () => {
    const answer = await call(url, { path: '/health' }).catch(() => null);
    return Math.max(0, ...(answer?.json.logs ?? []).map((log: { size: number }) => log.size ?? 0));
  };
  return { line, url, size };
}

/** Of web and of the commands. */
export const sealing = (witness?: Witness): Record<string, string> => ({
  RUNLEDGER_SEAL_KEY: SEAL_KEY,
  RUNLEDGER_LOG_ORIGIN: ORIGIN,
  ...(witness && { RUNLEDGER_WITNESSES: `${witness.line}=${witness.url}/` }),
});

/** A command of the owner. Throws where it fails; answers its stdout. */
export async function command(
  args: readonly string[],
  env: Record<string, string>,
): Promise<string> {
  const ran = await runledger(args, {
    DATABASE_URL: urlOf('runledger_owner'),
    RUNLEDGER_SEAL_KEY: SEAL_KEY,
    RUNLEDGER_LOG_ORIGIN: ORIGIN,
    ...env,
  });
  if (ran.status !== 0) throw new Error(`${args.join(' ')}: ${ran.stdout}${ran.stderr}`);
  return ran.stdout;
}

export const startWeb = (
  stage: Stage,
  witness: Witness,
  where: string = PRIMARY,
): Promise<WebProcess> =>
  webProcess(stage, { urls: { web: urlOf('runledger_web', where) } } as never, sealing(witness));

/** Its log is in the folder. Settles when it has joined the queue. */
export async function startWorker(stage: Stage, name: string): Promise<void> {
  const folder = join(stage.folder, name);
  mkdirSync(folder, { recursive: true });
  const child = spawnBound(process.execPath, [CLI, 'worker'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      RUNLEDGER_WORKER_DATABASE_URL: urlOf('runledger_worker'),
      RUNLEDGER_STATE_DIR: folder,
      RUNLEDGER_LANGUAGES: 'python',
      RUNLEDGER_SLOTS: '2',
      // There are two workers on this machine.
      RUNLEDGER_CPU_RESERVE_PERCENT: '50',
      // A program that is forked from a warm interpreter does not show its arguments.
      RUNLEDGER_PYTHON_ZYGOTE: 'off',
    },
  });
  const exited = once(child, 'exit');
  stage.teardown(async () => {
    child.kill('SIGTERM');
    await exited;
  });
  const file = join(stage.folder, `${name}.log`);
  writeFileSync(file, '');
  const joined = Promise.withResolvers<void>();
  createInterface({ input: child.stdout! }).on('line', (line) => {
    writeFileSync(file, `${line}\n`, { flag: 'a' });
    if (line.includes('joined the queue')) joined.resolve();
  });
  void exited.then(() => joined.reject(new Error(`${name} ended:\n${readFileSync(file, 'utf8')}`)));
  await joined.promise;
}
