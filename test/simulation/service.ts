/**
 * The whole service in separate processes: PostgreSQL, webs, and workers on separate machines (network namespaces, if this
 * host allows them). Each can be harmed and comes back.
 */
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  admit,
  type Machine,
  makeNetwork,
  noNetworks,
  ON_THE_NETWORK,
  urlFrom,
} from '../queue/network.ts';
import { type OwnServer, ownServer } from '../support/database.ts';
import { takePreparedInto } from '../support/prepared.ts';
import { childrenOf, processOf } from '../support/processes.ts';
import { spawnBound } from '../support/spawn_bound.ts';

type Test = { teardown(work: () => unknown): void };

export type Member = {
  readonly name: string;
  pid(): number | null;
  /** As signal does. */
  kill(): boolean;
  /** False if it has ended. */
  signal(signal: NodeJS.Signals): boolean;
  /** Starts it again if it has ended, and again if that start ends, as an operator's supervisor would. */
  revive(): Promise<void>;
  /** Kills it, and it is not revived. */
  end(): void;
};

export type Web = Member & { readonly origin: string };
export type Worker = Member & { readonly machine: Machine | null; launcher(): number | null };

export type Service = {
  readonly database: OwnServer;
  readonly webs: readonly Web[];
  readonly workers: readonly Worker[];
  readonly env: Readonly<Record<string, string>>;
  /** The folder of the logs. */
  readonly folder: string;
};

export type ServiceOptions = {
  folder: string;
  webs: number;
  workers: number;
  ca_file: string;
  env?: Record<string, string>;
};

/** This machine cannot run the service. */
export class CannotIsolate extends Error {}

const LAUNCHER = fileURLToPath(new URL('../../build/launcher', import.meta.url));
const CLI = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

export async function startService(t: Test, options: ServiceOptions): Promise<Service> {
  const { folder } = options;
  if (!existsSync(LAUNCHER)) throw new CannotIsolate('the launcher is not built');
  const apart = noNetworks() === null;
  const database = await ownServer(t, apart ? ON_THE_NETWORK : {});
  const network = apart ? makeNetwork(t) : null;
  if (network) await admit(database);
  const secret = () => randomBytes(32).toString('base64');
  const shared = {
    PATH: process.env['PATH'] ?? '',
    RUNLEDGER_DATABASE_TLS: 'disable',
    RUNLEDGER_SHUTDOWN_GRACE: '3s',
    RUNLEDGER_SLOTS: '4',
    // Each costs memory that a worker with few slots cannot use.
    RUNLEDGER_JAVA_COMPILER: 'off',
    RUNLEDGER_PRECOMPILED_HEADERS: 'off',
    // On a busy machine everything waits long for a processor.
    RUNLEDGER_LIMITS_COMPILE_CPU: '5min',
    RUNLEDGER_LIMITS_COMPILE_WALL: '10min',
    RUNLEDGER_LIMITS_WALL: '10min',
    RUNLEDGER_LIMITS_WALL_MAX: '10min',
    ...options.env,
  };
  const env = {
    ...shared,
    DATABASE_URL: database.urls.owner,
    RUNLEDGER_DIGEST_KEY: secret(),
    RUNLEDGER_SEAL_KEY: secret(),
    RUNLEDGER_WEBHOOK_KEYS: `k1:${secret()}`,
    RUNLEDGER_WEBHOOK_SCHEDULE: '100ms,200ms,500ms,1s,2s,2s,2s,2s,2s',
    RUNLEDGER_WEBHOOK_TIMEOUT: '15s',
    RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK: 'on',
    NODE_EXTRA_CA_CERTS: options.ca_file,
  };
  const members: Member[] = [];
  // Before the server and the network, which were made first and go last. Also if not all members could be started.
  t.teardown(() =>
    Promise.all(
      members.map(async (member) => {
        member.signal('SIGCONT');
        member.end();
      }),
    ),
  );
  const webs: Web[] = [];
  for (let n = 0; n < options.webs; n += 1) {
    const port = await freePort();
    const origin = `http://127.0.0.1:${port}`;
    const web = await startMember(folder, {
      name: `web${n}`,
      within: [],
      env: { ...env, DATABASE_URL: database.urls.web, PORT: `${port}` },
      ready: async () =>
        (await fetch(`${origin}/livez`, { signal: AbortSignal.timeout(LOOK_MS) })).ok,
    });
    webs.push({ ...web, origin });
    members.push(web);
  }
  const workers: Worker[] = [];
  for (let n = 0; n < options.workers; n += 1) {
    const machine = network?.machine() ?? null;
    const url = database.urls.worker;
    const state = join(folder, `state${n}`);
    await takePreparedInto(state);
    const log = join(folder, `worker${n}.log`);
    const worker = await startMember(folder, {
      name: `worker${n}`,
      within: machine?.within ?? [],
      env: {
        ...shared,
        DATABASE_URL: network ? urlFrom(network, url) : url,
        RUNLEDGER_STATE_DIR: state,
      },
      ready: async (child) => {
        const lines = readFileSync(log, 'utf8').split('\n');
        return lines.some((l) => l.includes('"started"') && l.includes(`"pid":${child.pid},`));
      },
    });
    workers.push({ ...worker, machine, launcher: () => childNamed(worker.pid(), 'launcher') });
    members.push(worker);
  }
  return { database, webs, workers, env, folder };
}

/** Beside other work a machine takes long to start a process. */
const READY_MS = 300_000;
const START_AGAIN_MS = 200;
/** Somebody else may have its port, and not answer. */
const LOOK_MS = 10_000;

type MemberOptions = {
  name: string;
  within: readonly string[];
  env: Record<string, string>;
  ready: (child: ChildProcess) => Promise<boolean>;
};

async function startMember(folder: string, options: MemberOptions): Promise<Member> {
  const { name } = options;
  mkdirSync(folder, { recursive: true });
  const log = openSync(join(folder, `${name}.log`), 'a');
  const [part] = /^[a-z]+/.exec(name) ?? [];
  let child: ChildProcess;
  let alive = false;
  let over = false;
  let reviving: Promise<void> | null = null;
  /** Answers whether it is ready. It is not if it has ended. */
  const start = async () => {
    const [command = '', ...args] = [...options.within, process.execPath, CLI, part ?? ''];
    child = spawnBound(command, args, { stdio: ['ignore', log, log], env: options.env, cwd: '/' });
    alive = true;
    void once(child, 'exit').then(([code, signal]) => {
      alive = false;
      writeFileSync(log, `{"msg":"ended","code":${code},"signal":"${signal}"}\n`);
    });
    for (const end = performance.now() + READY_MS; performance.now() < end && alive; ) {
      if (await options.ready(child).catch(() => false)) return true;
      await wait(50);
    }
    if (alive) throw new Error(`${name} was not ready in five minutes, see ${folder}`);
    return false;
  };
  const startAgain = async () => {
    while (!alive && !over && !(await start())) await wait(START_AGAIN_MS);
  };
  const revive = () => {
    reviving ??= startAgain().finally(() => {
      reviving = null;
    });
    return reviving;
  };
  const is_ready = await start().catch((error: unknown) => {
    child.kill('SIGKILL');
    throw error;
  });
  if (!is_ready) {
    const said = readFileSync(join(folder, `${name}.log`), 'utf8');
    const [, why] = /"reason":"([^"]*)".*"msg":"cannot run"/.exec(said) ?? [];
    if (why) throw new CannotIsolate(why);
    throw new Error(`${name} ended before it was ready, see ${folder}`);
  }
  const signal = (which: NodeJS.Signals) => alive && child.kill(which);
  return {
    name,
    pid: () => (alive ? (child.pid ?? null) : null),
    kill: () => signal('SIGKILL'),
    signal,
    revive,
    end() {
      over = true;
      signal('SIGKILL');
    },
  };
}

function childNamed(parent: number | null, name: string): number | null {
  const is = (pid: number) => processOf(pid)?.name === name;
  return parent === null ? null : (childrenOf(parent).find(is) ?? null);
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
