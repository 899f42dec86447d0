// needs: isolation, cpp
/**
 * A service in which every slot runs a program that tries to get all processors. Such programs must not keep the worker,
 * the web process and the database from running, nor a program beside them. What decides is what was lost, and not times.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
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
const STARVED =
  /no heartbeat|the database is away|did not answer|found dead|launcher was lost|restart in|confirmed too late/;
/** Only CPU time may decide its verdict: on a busy machine it waits long for a processor. */
const LONG = { cpu_time: 15, wall_time: 600 };
/** Takes no more of the processors than one process can. */
const MODEST = `
int main() { for (;;) continue; }`;
/**
 * What else keeps this machine busy may starve the service, too: then it does so beside modest programs as well, and the round
 * says nothing. What the attack starves is starved in each round.
 */
const ROUNDS = 3;
/** If none of these is clean, nothing was shown, and the test fails. */
const MOST_ROUNDS = 8;

type Result = {
  verdict: string;
  attempts: number;
  cpu_time: number;
  wall_time: number;
  /** The data of each `lost` event. */
  lost: string[];
};
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
    RUNLEDGER_LIMITS_COMPILE_CPU: '5min',
    RUNLEDGER_LIMITS_COMPILE_WALL: '10min',
    RUNLEDGER_LIMITS_WALL_MAX: '10min',
    RUNLEDGER_CPU_RESERVE_PERCENT: process.env['RUNLEDGER_TEST_CPU_RESERVE_PERCENT'],
  };
  const child = spawn('setpriv', ['--pdeathsig=KILL', process.execPath, CLI, 'serve'], { env });
  t.teardown(async () => {
    const is_running = child.exitCode === null && child.signalCode === null;
    if (is_running && child.kill('SIGTERM')) await once(child, 'exit');
    await rm(folder, { recursive: true, force: true });
  });
  const lines: string[] = [];
  const started = Promise.withResolvers<string>();
  createInterface({ input: child.stderr }).on('line', (line) => lines.push(line));
  createInterface({ input: child.stdout })
    .on('line', (line) => {
      lines.push(line);
      const address = /^address +(\S+)/.exec(line)?.[1];
      if (address !== undefined) started.resolve(address);
    })
    .on('close', () => started.reject(new Error(lines.join('\n'))));
  const run = async (...args: string[]) => {
    const { status, stdout, stderr } = await runledger(args, own);
    if (status !== 0) throw new Error(stderr);
    return stdout.trim();
  };
  const key = (account: string) => run('keys', 'create', '--account', account, '--tier', 'free');
  return { address: await started.promise, lines, run, key };
}

async function submit(service: Service, key: string, code: string, limits = {}): Promise<Result> {
  const headers = {
    'X-API-Key': key,
    'Content-Type': 'application/json',
    'Idempotency-Key': randomUUID(),
  };
  const body = JSON.stringify({ language: 'cpp', code, limits });
  const send = () => fetch(`${service.address}/api/submit`, { method: 'POST', headers, body });
  let sent = await send();
  for (let n = 0; n < 240 && sent.status === 503; n += 1) {
    await sleep(500);
    sent = await send();
  }
  if (sent.status !== 202) throw new Error(`a submission is answered ${sent.status}`);
  const { id } = (await sent.json()) as { id: string };
  for (;;) {
    const found = await fetch(`${service.address}/api/result/${id}`, { headers });
    const result = (await found.json()) as Result & { status: string };
    if (['completed', 'error'].includes(result.status))
      return { ...result, lost: result.attempts > 1 ? await losses(service, headers, id) : [] };
    await sleep(500);
  }
}

/** Of a submission that has ended. */
async function losses(service: Service, headers: Record<string, string>, id: string) {
  const events = await fetch(`${service.address}/api/result/${id}/events`, { headers });
  return [...(await events.text()).matchAll(/^event: lost\ndata: (.*)$/gm)].map(
    ([, data]) => data!,
  );
}

/** Asks for the service's health until `done` settles. */
async function watchHealth(service: Service, key: string, done: Promise<unknown>) {
  let over = false;
  let slowest_ms = 0;
  const failed: number[] = [];
  const end = done.finally(() => {
    over = true;
  });
  for (; !over; await sleep(100)) {
    const begun = performance.now();
    const { status } = await fetch(`${service.address}/api/health`, {
      headers: { 'X-API-Key': key },
    });
    if (status !== 200) failed.push(status);
    slowest_ms = Math.max(slowest_ms, performance.now() - begun);
  }
  await end;
  return { slowest_ms, failed };
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
    const round = async (program: string) => {
      const said = service.lines.length;
      const attacks = keys.flatMap((key) =>
        [program, program].map((code) => submit(service, key, code)),
      );
      await sleep(1_000);
      const honest = submit(service, neighbour, HONEST, LONG);
      const all = Promise.all([...attacks, honest]);
      const { slowest_ms, failed } = await watchHealth(service, neighbour, all);
      const results = await all;
      // A heartbeat that was late is named when it is confirmed.
      await sleep(2_000);
      t.comment(
        `slowest health ${slowest_ms.toFixed(0)} ms; ${results.map((r) => `${r.verdict} ${r.cpu_time}/${r.wall_time}`).join(', ')}`,
      );
      return {
        attempts: results.map(({ attempts }) => attempts),
        lost: results.flatMap(({ lost }) => lost),
        verdicts: results.map(({ verdict }) => verdict),
        failed_health: failed,
        starved: service.lines.slice(said).filter((line) => STARVED.test(line)),
      };
    };
    const clean = {
      attempts: [1, 1, 1, 1, 1],
      lost: [],
      verdicts: ['TLE', 'TLE', 'TLE', 'TLE', 'AC'],
      failed_health: [],
      starved: [],
    };
    for (let n = 1, starved = 0; n <= MOST_ROUNDS; n += 1) {
      const seen = await round(ATTACK);
      if (isDeepStrictEqual(seen, clean)) {
        t.pass('no execution was lost, and nothing was starved');
        return;
      }
      t.comment(JSON.stringify(seen));
      const beside_modest = await round(MODEST);
      if (isDeepStrictEqual(beside_modest, clean)) starved += 1;
      else t.comment(`beside modest programs: ${JSON.stringify(beside_modest)}`);
      if (starved === ROUNDS) {
        t.strictSame(seen, clean, 'the attack starves, and modest programs do not');
        return;
      }
    }
    t.fail(
      'no round was clean; in most, modest programs were starved, too: is this machine too busy?',
    );
  });
}
