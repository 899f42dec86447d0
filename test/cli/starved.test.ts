// needs: isolation, cpp
/**
 * A service in which every slot runs a program that tries to get all processors. Such programs must not keep the worker,
 * the web process and the database from running, nor a program beside them. What decides is what was lost, and not times.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { CLI, runledger } from './command_line.ts';

/** Pairs of processes that wake each other all the time. Without a quota they keep everything else from running. */
const ATTACK = `
#include <initializer_list>
#include <unistd.h>
int main() {
    for (int each = 0; each < 15; each++) {
        int there[2], back[2];
        char byte = 0;
        if (pipe(there) || pipe(back)) return 1;
        if (!fork()) for (;;) if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
        if (!fork()) for (;;) if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) return 1;
        for (int one : {there[0], there[1], back[0], back[1]}) close(one);
    }
    for (;;) pause();
}`;
/** Uses 2 s of CPU time. */
const HONEST = `
#include <ctime>
int main() { while (clock() < 2 * CLOCKS_PER_SEC) continue; }`;
/** What the service logs when a part of it did not run for too long. */
const STARVED = /no heartbeat|the database is away|did not answer|found dead|launcher was lost/;
const LONG = { cpu_time: 15, wall_time: 30 };

type Result = { verdict: string; attempts: number; cpu_time: number; wall_time: number };
type Service = {
  address: string;
  lines: string[];
  run(...args: string[]): Promise<string>;
  key(account: string): Promise<string>;
};

async function start(t: Test): Promise<Service> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-starved-'));
  const own = { RUNLEDGER_STATE_DIR: join(folder, 'state') };
  const env = {
    ...own,
    PATH: process.env['PATH'],
    PORT: '0',
    RUNLEDGER_LANGUAGES: 'cpp',
    RUNLEDGER_PRECOMPILED_HEADERS: 'off',
    RUNLEDGER_SLOTS: '2',
    RUNLEDGER_CPU_RESERVE_PERCENT: process.env['RUNLEDGER_TEST_CPU_RESERVE_PERCENT'],
  };
  const child = spawn('setpriv', ['--pdeathsig=KILL', process.execPath, CLI, 'serve'], { env });
  t.teardown(async () => {
    child.kill('SIGTERM');
    await once(child, 'exit');
    await rm(folder, { recursive: true, force: true });
  });
  const lines: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => lines.push(line));
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    const address = /^address +(\S+)/.exec(line)?.[1];
    if (address === undefined) continue;
    child.stdout.resume();
    const run = async (...args: string[]) => {
      const { status, stdout, stderr } = await runledger(args, own);
      if (status !== 0) throw new Error(stderr);
      return stdout.trim();
    };
    const key = (account: string) => run('keys', 'create', '--account', account, '--tier', 'free');
    return { address, lines, run, key };
  }
  throw new Error(lines.join('\n'));
}

async function submit(service: Service, key: string, code: string, limits = {}): Promise<Result> {
  const headers = { 'X-API-Key': key, 'Content-Type': 'application/json' };
  const body = JSON.stringify({ language: 'cpp', code, limits });
  const sent = await fetch(`${service.address}/api/submit`, { method: 'POST', headers, body });
  const { id } = (await sent.json()) as { id: string };
  for (;;) {
    const found = await fetch(`${service.address}/api/result/${id}`, { headers });
    const result = (await found.json()) as Result & { status: string };
    if (['completed', 'error'].includes(result.status)) return result;
    await sleep(500);
  }
}

/** Asks for the service's health until `done` settles. Returns the time of the slowest answer. */
async function watchHealth(service: Service, key: string, done: Promise<unknown>): Promise<number> {
  let over = false;
  let slowest = 0;
  const end = done.finally(() => {
    over = true;
  });
  for (; !over; await sleep(100)) {
    const begun = performance.now();
    const { status } = await fetch(`${service.address}/api/health`, {
      headers: { 'X-API-Key': key },
    });
    if (status !== 200) throw new Error(`health answers ${status}`);
    slowest = Math.max(slowest, performance.now() - begun);
  }
  await end;
  return slowest;
}

const service = await start(t);
await service.run('tiers', 'set', 'free', '--per-minute', '0', '--concurrent', '0');
const [one, other, neighbour] = [
  await service.key('one'),
  await service.key('other'),
  await service.key('neighbour'),
];
// The first compile of each program, so that all of them start together below.
await submit(service, neighbour, HONEST, LONG);

for (const [from, keys] of [
  ['one account', [one, one]],
  ['two accounts', [one, other]],
] as const) {
  t.test(`${from} in every slot, and a neighbour behind them`, async (t) => {
    const attacks = keys.flatMap((key) =>
      [ATTACK, ATTACK].map((code) => submit(service, key, code)),
    );
    await sleep(1_000);
    const honest = submit(service, neighbour, HONEST, LONG);
    const all = Promise.all([...attacks, honest]);
    const slowest = await watchHealth(service, neighbour, all);
    const results = await all;
    t.comment(
      `slowest health ${slowest.toFixed(0)} ms; ${results.map((r) => `${r.verdict} ${r.cpu_time}/${r.wall_time}`).join(', ')}`,
    );
    t.strictSame(
      results.map(({ attempts }) => attempts),
      [1, 1, 1, 1, 1],
      'no execution was lost',
    );
    t.strictSame(
      results.map(({ verdict }) => verdict),
      ['TLE', 'TLE', 'TLE', 'TLE', 'AC'],
    );
    t.strictSame(
      service.lines.filter((line) => STARVED.test(line)),
      [],
      'nothing was starved',
    );
  });
}
