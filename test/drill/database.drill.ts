/** Databases that are not the embedded one of a fresh start: older, small, behind a pooler, or restarted. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { installPrograms, OTHER_MAJORS } from '../../src/local/old_programs.ts';
import type { ServerOptions } from '../../src/local/postgres.ts';
import type { RoleUrls } from '../../src/local/roles.ts';
import { eventually } from '../support/eventually.ts';
import { findPgbouncer, startPgbouncer } from '../support/pgbouncer.ts';
import { type Drill, NotRun, type Stage } from './drill.ts';
import { startDatabase } from './judged_service.ts';
import {
  copyOfTree,
  judges,
  PYTHON,
  resultOf,
  startTrial,
  type Trial,
  tryService,
} from './trial.ts';

type Settings = Partial<Pick<ServerOptions, 'programs' | 'settings'>>;

async function ownDatabase(stage: Stage, settings: Settings = {}): Promise<RoleUrls> {
  const { urls, server } = await startDatabase(settings);
  stage.teardown(() => server.stop());
  return urls;
}

const addresses = (urls: RoleUrls) => ({
  DATABASE_URL: urls.owner,
  RUNLEDGER_WEB_DATABASE_URL: urls.web,
  RUNLEDGER_WORKER_DATABASE_URL: urls.worker,
});

const versions = [...Object.keys(OTHER_MAJORS), '18'].map((major): [string, Drill] => [
  `postgres-${major}`,
  {
    shows: `a PostgreSQL ${major} of one's own`,
    async run(stage) {
      const programs = major in OTHER_MAJORS ? await ofNpm(Number(major)) : undefined;
      const urls = await ownDatabase(stage, programs && { programs });
      await tryService(stage, { env: addresses(urls) });
    },
  },
]);

async function ofNpm(major: number) {
  try {
    // Before 17, the server has no locales of its own.
    return { dir: await installPrograms(major), locale: ['--locale=C'] };
  } catch {
    throw new NotRun(`npm cannot install PostgreSQL ${major} here`);
  }
}

const POOLER: Drill = {
  shows: 'through PgBouncer in session mode',
  async run(stage) {
    const program = await findPgbouncer();
    if (program === null) throw new NotRun('PgBouncer is neither installed nor to be had from apt');
    const urls = await ownDatabase(stage);
    const database = { name: 'runledger', urls, url: urls.owner, superuser_url: '' };
    const through = await startPgbouncer(stage, program, database, 'session');
    await tryService(stage, { env: addresses(through) });
  },
};

const FEW_CONNECTIONS: Drill = {
  shows: 'max_connections = 20: with a pool of 7 all is well; with 16 nothing answered is lost',
  async run(stage) {
    const urls = await ownDatabase(stage, { settings: { max_connections: '20' } });
    const env = addresses(urls);
    await tryService(stage, { env: { ...env, RUNLEDGER_DATABASE_POOL: '7' } }, async (trial) => {
      const statuses = await burst(trial);
      assert.deepEqual([...statuses], [200], 'all are answered');
    });
    const tree = await copyOfTree(stage);
    const key = await keyOf(stage, tree, env);
    const trial = await startTrial(stage, tree, { env, key });
    stage.say(`statuses with the default: ${[...(await burst(trial))]}`);
    await trial.stop();
  },
};

/** So that a rate of the key decides nothing. */
async function generous(trial: Trial): Promise<void> {
  const most = ['--per-minute', '100000', '--concurrent', '100'];
  const { status, output } = await trial.command('tiers', 'set', 'beta', ...most);
  assert.equal(status, 0, output);
}

/** Many at once. What is no verdict is a 503 that says when to come back. */
async function burst(trial: Trial): Promise<Set<number>> {
  await generous(trial);
  const statuses = new Set<number>();
  const one = async (n: number) => {
    const body = { language: 'python', code: `print(${n})` };
    const reply = await trial.ask({ path: '/api/submit?wait=true', body });
    statuses.add(reply.status);
    if (reply.status === 503)
      return assert.ok(Number(reply.headers['retry-after']) > 0, 'Retry-After');
    assert.ok([200, 202].includes(reply.status), reply.text);
    const { json, text } = await resultOf(trial, reply.json.id);
    assert.equal(json.stdout, `${n}\n`, text);
  };
  await Promise.all(Array.from({ length: 40 }, (_, n) => one(n)));
  return statuses;
}

async function keyOf(stage: Stage, tree: string, env: Record<string, string>): Promise<string> {
  const words = ['keys', 'create', '--account', 'first', '--tier', 'beta'];
  const path = { PATH: process.env['PATH'], HOME: process.env['HOME'] };
  const options = { cwd: tree, env: { ...path, ...env }, quiet: true };
  return stage.command(join(tree, 'runledger'), words, options);
}

const RESTART: Drill = {
  shows: 'the database is killed, and restarted, under load: nothing answered is lost',
  async run(stage) {
    const tree = await copyOfTree(stage);
    const trial = await startTrial(stage, tree);
    await generous(trial);
    await judges(trial);
    const accepted: { id: string; n: number }[] = [];
    const refused = new Map<number, number>();
    let stop = false;
    const client = async (first: number) => {
      for (let n = first; !stop; n += 4) {
        const body = { language: 'python', code: `print(${n})` };
        const reply = await trial.ask({ path: '/api/submit', body });
        if (reply.status === 202) accepted.push({ id: reply.json.id, n });
        else {
          assert.ok([429, 503].includes(reply.status), reply.text);
          assert.ok(Number(reply.headers['retry-after']) > 0, 'Retry-After');
          refused.set(reply.status, (refused.get(reply.status) ?? 0) + 1);
        }
        await wait(100);
      }
    };
    const clients = Promise.all([0, 1, 2, 3].map(client));
    const data = join(tree, '.data/postgres');
    for (const signal of ['SIGKILL', 'SIGINT', 'SIGQUIT'] as const) {
      const more = accepted.length + 10;
      if (!(await eventually(() => accepted.length >= more)))
        throw new Error('nothing is accepted');
      const pid = postmasterOf(data);
      process.kill(pid, signal);
      stage.say(`${signal} after ${accepted.length} were accepted`);
      assert.ok(await eventually(() => ![0, pid].includes(postmasterOf(data))), 'it starts again');
    }
    const more = accepted.length + 10;
    assert.ok(await eventually(() => accepted.length >= more), 'it accepts again');
    stop = true;
    await clients;
    stage.say(`${accepted.length} accepted, refused by status: ${JSON.stringify([...refused])}`);
    await stage.step('all that was accepted has its verdict', async () => {
      for (const { id, n } of accepted) {
        const { json, text } = await resultOf(trial, id);
        assert.deepEqual([json.verdict, json.stdout], [PYTHON.verdict, `${n}\n`], text);
      }
    });
    const { status, output } = await trial.command('verify');
    assert.equal(status, 0, output);
    await trial.stop();
  },
};

/** 0 while none runs. */
function postmasterOf(data: string): number {
  try {
    return Number.parseInt(readFileSync(join(data, 'postmaster.pid'), 'utf8'), 10) || 0;
  } catch {
    return 0;
  }
}

export const drills: Readonly<Record<string, Drill>> = {
  ...Object.fromEntries(versions),
  pgbouncer: POOLER,
  'few-connections': FEW_CONNECTIONS,
  'database-restart': RESTART,
};
