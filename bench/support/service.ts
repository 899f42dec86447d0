/** The whole service on this machine, as `make run` starts it, with its own state folder, and a client. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { superuserUrl } from '../../src/local/embedded.ts';
import { runningPort } from '../../src/local/postgres.ts';
import { readLocalSecrets } from '../../src/local/secrets.ts';
import { cpuOfTree, treeOf } from '../../test/support/processes.ts';
import { getRequest, type LeanClient, leanClient, postRequest } from './lean_client.ts';

export type Answer = { verdict: string; stdout: string; stderr: string };

export type JudgedAnswer = Answer & { tests: { wall_time: number | null }[] | null };

export type Service = {
  /** Of `serve`, which started all the others. */
  readonly pid: number;
  /** Submits, waits, and returns the record. */
  run(language: string, code: string): Promise<Answer>;
  /** The same, with a request of any kind. */
  judge(request: object): Promise<JudgedAnswer>;
  /** The same, with a key of another account. */
  judgeFor(account: string): (request: object) => Promise<JudgedAnswer>;
  /** The CPU seconds of each kind of process so far, without the programs in boxes. */
  cpu_s(): Record<'web' | 'worker' | 'postgres', number>;
  /** Of all processes, also of those that have ended: boxes, programs, compilers. */
  cpu_all_s(): number;
  superuserUrl(): Promise<string>;
  stop(): Promise<void>;
};

const CLI = ['src/cli/main.js'];

/** `node`: the Node that runs it. */
export async function startService(
  environment: Record<string, string> = {},
  node = process.execPath,
): Promise<Service> {
  const state = mkdtempSync(join(tmpdir(), 'runledger-bench-'));
  const port = await freePort();
  const env = {
    ...own(process.env),
    PORT: String(port),
    RUNLEDGER_STATE_DIR: state,
    RUNLEDGER_LOG_LEVEL: 'warn',
    ...environment,
  };
  // By the channel it learns of this process's end, and stops.
  const child = spawn(node, [...CLI, 'serve'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  await lineOf(child, (line) => line.startsWith('try'));
  const cli = (...args: string[]) =>
    execFileSync(process.execPath, [...CLI, ...args], {
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    }).trim();
  cli('tiers', 'set', 'bench', '--per-minute', '0', '--concurrent', '0');
  const clientsOf = (account: string) => {
    const clients = callers(port, cli('keys', 'create', '--account', account, '--tier', 'bench'));
    opened.push(clients);
    return clients;
  };
  const opened: ReturnType<typeof callers>[] = [];
  const clients = clientsOf('bench');
  return {
    pid: child.pid!,
    run: (language, code) => clients.run({ language, code }),
    judge: clients.run,
    judgeFor: (account) => clientsOf(account).run,
    cpu_s: () => cpuOfKinds(child.pid!),
    cpu_all_s: () => cpuOfTree(child.pid!),
    async superuserUrl() {
      const postgres_port = await runningPort(join(state, 'postgres'));
      return superuserUrl(postgres_port!, (await readLocalSecrets(state))!);
    },
    async stop() {
      for (const each of opened) each.close();
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await gone;
      rmSync(state, { recursive: true, force: true });
    },
  };
}

/** Without what would send the load of a bench into another service's database. */
function own(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const is_foreign = (name: string) => name === 'DATABASE_URL' || name.startsWith('RUNLEDGER_');
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !is_foreign(name)));
}

/** One connection for each simultaneous call. */
function callers(port: number, key: string) {
  const idle: LeanClient[] = [];
  const ended = async (client: LeanClient, id: string) => {
    for (;;) {
      const reply = await client.ask(getRequest(key, `/api/result/${id}?wait=true`));
      if (!/"status":"(pending|running)"/.test(reply.body)) return reply;
    }
  };
  return {
    async run(submission: object): Promise<JudgedAnswer> {
      const client = idle.pop() ?? (await leanClient(port));
      let reply = await client.ask(postRequest(key, '/api/submit?wait=true', submission));
      // A submission of many tests may take longer than the service lets a call wait.
      if (reply.status === 408) reply = await ended(client, JSON.parse(reply.body).id);
      idle.push(client);
      if (reply.status !== 200) throw new Error(`submit answered ${reply.status}: ${reply.body}`);
      return JSON.parse(reply.body);
    },
    close: () => {
      for (const client of idle) client.close();
    },
  };
}

function lineOf(child: ChildProcess, wanted: (line: string) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`serve ended with ${code} before it was ready`)));
    createInterface({ input: child.stdout! }).on('line', (line) => {
      if (wanted(line)) resolve();
    });
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** Sums the process tree below `serve` by the kind of process. The launcher and its boxes belong to no kind. */
function cpuOfKinds(root: number): Record<'web' | 'worker' | 'postgres', number> {
  const sum = { web: 0, worker: 0, postgres: 0 };
  for (const { command, cpu_s } of treeOf(root)) {
    const kind = kindOf(command);
    if (kind) sum[kind] += cpu_s;
  }
  return sum;
}

export function kindOf(command: string): 'web' | 'worker' | 'postgres' | null {
  if (/postgres/.test(command)) return 'postgres';
  if (/main\.js (.* )?web\b/.test(command)) return 'web';
  if (/main\.js (.* )?worker\b/.test(command)) return 'worker';
  return null;
}
