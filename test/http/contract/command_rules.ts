/** Rules of the command line, run as an operator runs it. */
import { equal, match, ok } from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { Service } from '../support/service.ts';
import { chapter, type Rule } from './rule.ts';

const { contract } = chapter('command line');
const MAIN = join(import.meta.dirname, '../../../src/cli/main.js');

type Ended = { code: number; stdout: string; stderr: string };

function runledger(service: Service, ...args: string[]): Promise<Ended> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: service.database.url };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [MAIN, ...args], { env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

async function rowsOf(service: Service, ...args: string[]): Promise<Record<string, unknown>[]> {
  return JSON.parse((await runledger(service, ...args, '--json')).stdout);
}

export const commandRules: Rule[] = [
  contract(
    'keys create makes the account where it is missing, and prints only the key on stdout',
    async (s) => {
      const service = await s.plain();
      const made = await runledger(service, 'keys', 'create', '--account', 'from the shell');
      equal(made.code, 0, made.stderr);
      match(made.stdout, /^rl_live_[0-9A-Za-z]{36}\n$/);
      const reply = await service.call({ path: '/api/languages', key: made.stdout.trim() });
      equal(reply.status, 200);
      equal(reply.headers['ratelimit-policy'], '"key";q=60;w=60', 'in the tier beta');
    },
  ),
  contract('keys list, rotate --grace and revoke', async (s) => {
    const service = await s.plain();
    const old = (await runledger(service, 'keys', 'create', '--account', 'listed')).stdout.trim();
    const row = (await rowsOf(service, 'keys', 'list')).find(({ account }) => account === 'listed');
    const id = String(row!['id']);
    const next = (await runledger(service, 'keys', 'rotate', id, '--grace', '1h')).stdout.trim();
    const works = async (key: string) =>
      (await service.call({ path: '/api/languages', key })).status === 200;
    ok((await works(old)) && (await works(next)));
    equal((await runledger(service, 'keys', 'revoke', id)).code, 0);
    ok(!(await works(old)) && !(await works(next)));
  }),
  contract('tiers set and list; 0 is unlimited', async (s) => {
    const service = await s.plain();
    const set = await runledger(
      service,
      'tiers',
      'set',
      'free',
      '--per-minute',
      '0',
      '--concurrent',
      '3',
    );
    equal(set.code, 0, set.stderr);
    const tier = (await rowsOf(service, 'tiers', 'list')).find(({ name }) => name === 'free');
    equal(tier!['per_minute'], 0);
    equal(tier!['concurrent'], 3);
  }),
  contract('standard output is for answers, standard error for everything else', async (s) => {
    const wrong = await runledger(await s.plain(), 'keys', 'create');
    equal(wrong.stdout, '');
    match(wrong.stderr, /--account/);
    ok(wrong.code !== 0);
  }),
];
