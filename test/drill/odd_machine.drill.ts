/** `make run` on machines that are odd in one respect each. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type Drill, NotRun, type Stage } from './drill.ts';
import {
  copyOfTree,
  judges,
  judgesOne,
  MOUNTS,
  needsRoot,
  refusal,
  seenBy,
  type Trial,
  tryService,
  unshared,
} from './trial.ts';

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

const FEW_FILES: Drill = {
  shows: 'with 64 open files it refuses in one line that says what to do; with 1024 it works',
  async run(stage) {
    const limited = (most: number) => ({ within: ['prlimit', `--nofile=${most}:${most}`] });
    const lines = await refusal(stage, await copyOfTree(stage), limited(64));
    const [said, ...more] = lines.filter((line) => !/^make: /.test(line));
    assert.match(
      said!,
      /only 64 files open here, and needs \d+: raise the limit: `ulimit -n 4096`/,
    );
    assert.deepEqual(more, []);
    await tryService(stage, limited(1_024));
  },
};

const MEMORY = '/sys/fs/cgroup/memory';

const ONE_GIB: Drill = {
  shows: '1 GiB of memory for all of it is enough, and a program with too much is MLE',
  async run(stage) {
    needsRoot('make a control group');
    if (!existsSync(`${MEMORY}/tasks`)) throw new NotRun('this needs control groups v1');
    const [, own] = /^\d+:memory:(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8')) ?? [];
    const group = join(MEMORY, own!, `runledger-drill-${process.pid}`);
    mkdirSync(group);
    stage.teardown(() => rmdirSync(group));
    writeFileSync(join(group, 'memory.limit_in_bytes'), String(2 ** 30));
    const within = ['sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, 'sh'];
    await tryService(stage, { within }, async (trial) => {
      const code = 'held = bytearray(900 * 2**20)\nfor n in range(0, len(held), 4096): held[n] = 1';
      await judgesOne(trial, { language: 'python', code, verdict: 'MLE' });
      await judges(trial);
      const most = Number(readFileSync(join(group, 'memory.max_usage_in_bytes'), 'utf8'));
      stage.say(`at most ${Math.round(most / 2 ** 20)} MiB`);
      const killed = trial.lines.find((line) => line.includes('was ended by'));
      assert.equal(killed, undefined);
    });
  },
};

/** Seconds by which the clock of a running service is changed. */
const clock = (shows: string, by_s: number): Drill => ({
  shows,
  async run(stage) {
    needsRoot('mount');
    const library = join(stage.folder, 'clock.so');
    const source = join(import.meta.dirname, 'shifted_clock.c');
    await stage.command('cc', ['-shared', '-fPIC', '-O2', '-Wall', '-o', library, source]);
    const upper = join(stage.folder, 'etc');
    await rm(upper, { recursive: true, force: true });
    for (const name of ['upper', 'work']) mkdirSync(join(upper, name), { recursive: true });
    const etc = `
      mount -t overlay overlay -o lowerdir=/etc,upperdir=${upper}/upper,workdir=${upper}/work /etc || exit
      cp ${library} /etc/shifted_clock.so
      head -c 8 /dev/zero > /etc/clock_shift
      echo /etc/shifted_clock.so > /etc/ld.so.preload`;
    const receiver = await failingOnce(stage);
    const env = { RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK: 'on' };
    await tryService(stage, { within: unshared(MOUNTS, etc), env }, async (trial) => {
      const shift = Buffer.alloc(8);
      shift.writeBigInt64LE(BigInt(by_s));
      const before = await newestOf(trial);
      const waiting = await backlogOf(trial);
      const webhook = { webhook_url: receiver.url, webhook_secret: 'a secret of the drill' };
      const body = { language: 'python', code: 'print(2)', ...webhook };
      const hooked = await trial.ask({ path: '/api/submit', body });
      assert.equal(hooked.status, 202, hooked.text);
      await receiver.got[0];
      writeFileSync(seenBy(trial, '/etc/clock_shift'), shift);
      await judges(trial);
      const waited_s = await secondsUntil(trial, waiting);
      stage.say(`what was waiting when the clock moved had run ${waited_s.toFixed(1)} s later`);
      assert.ok(waited_s < 60, 'it does not wait for the time before');
      await Promise.race([receiver.got[1], wait(60_000)]);
      assert.equal(receiver.requests(), 2, 'a webhook is tried again at its time');
      const moved_s = ((await newestOf(trial)) - before) / 1_000;
      stage.say(`the clock moved by ${Math.round(moved_s)} s`);
      assert.ok(Math.abs(moved_s - by_s) < 600, 'the clock has moved');
      const health = await trial.ask({ path: '/api/health' });
      assert.equal(health.status, 200, health.text);
      const { problem } = health.json.log;
      if (problem !== null) stage.say(`sealing: ${problem}`);
      let last = await trial.ask({ path: '/api/submissions' });
      for (let n = 0; last.status === 200 && n < 2_000; n += 1)
        last = await trial.ask({ path: '/api/submissions' });
      assert.equal(last.status, 429, last.text);
      const after_s = Number(last.headers['retry-after']);
      assert.ok(after_s <= 61, `a key that used its rate has to wait ${after_s} s`);
      // Behind its own events, verify says so. The clock is set right again.
      if (by_s < 0) writeFileSync(seenBy(trial, '/etc/clock_shift'), Buffer.alloc(8));
    });
  },
});

/** A receiver that fails the first attempt: the second one waits for its time while the clock moves. */
async function failingOnce(stage: Stage) {
  const got = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let requests = 0;
  const server = createServer((req, res) => {
    const status = requests === 0 ? 503 : 204;
    req.resume().on('end', () => res.writeHead(status).end());
    got[requests]?.resolve();
    requests += 1;
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  stage.teardown(() => void server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    got: got.map(({ promise }) => promise),
    requests: () => requests,
  };
}

/** More submissions than can run at once; the last of them. Each takes a second. */
async function backlogOf(trial: Trial): Promise<string> {
  const body = { language: 'python', code: 'import time\ntime.sleep(1)' };
  let last = '';
  for (let n = 0; n < 8; n += 1) {
    const { status, json, text } = await trial.ask({ path: '/api/submit', body });
    assert.equal(status, 202, text);
    last = json.id;
  }
  return last;
}

async function secondsUntil(trial: Trial, id: string): Promise<number> {
  const began = performance.now();
  for (;;) {
    const { status, json, text } = await trial.ask({ path: `/api/result/${id}` });
    assert.equal(status, 200, text);
    const took_s = (performance.now() - began) / 1_000;
    if (json.status === 'completed' || took_s > 120) return took_s;
    // A key has its rate.
    await wait(3_000);
  }
}

/** When a new submission was accepted, by the service. */
async function newestOf(trial: Trial): Promise<number> {
  const body = { language: 'python', code: 'print(1)' };
  const { status, json, text } = await trial.ask({ path: '/api/submit?wait=true', body });
  assert.equal(status, 200, text);
  return Date.parse(json.created_at);
}

export const drills: Readonly<Record<string, Drill>> = {
  'clock-forward': clock('the clock jumps an hour ahead while it runs', 3_600),
  'clock-back': clock('the clock jumps an hour back while it runs', -3_600),
  'few-files': FEW_FILES,
  'one-gib': ONE_GIB,
  'no-ipv6': NO_IPV6,
  'no-network': NO_NETWORK,
  'read-only-home': READ_ONLY_HOME,
  'odd-path': ODD_PATH,
  'no-lang': NO_LANG,
  'one-cpu': ONE_CPU,
};
