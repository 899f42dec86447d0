/** The whole service on this machine, as `make run` starts it, on a folder of its own; and one client of it. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export type Answer = { verdict: string; stdout: string; stderr: string };

export type Service = {
  /** Submits, waits, and answers with the record. */
  run(language: string, code: string): Promise<Answer>;
  /** CPU seconds spent so far by each part, what runs in boxes not counted. */
  cpu_s(): Record<'web' | 'worker' | 'postgres', number>;
  stop(): Promise<void>;
};

const CLI = ['src/cli/main.ts'];

export async function startService(environment: Record<string, string> = {}): Promise<Service> {
  const state = mkdtempSync(join(tmpdir(), 'runledger-bench-'));
  const port = await freePort();
  const env = {
    ...process.env,
    PORT: String(port),
    RUNLEDGER_STATE_DIR: state,
    RUNLEDGER_LOG_LEVEL: 'warn',
    ...environment,
  };
  const child = spawn(process.execPath, [...CLI, 'serve'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await lineThat(child, (line) => line.startsWith('try'));
  const cli = (...args: string[]) =>
    execFileSync(process.execPath, [...CLI, ...args], {
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    }).trim();
  cli('tiers', 'set', 'bench', '--per-minute', '0', '--concurrent', '0');
  const key = cli('keys', 'create', '--account', 'bench', '--tier', 'bench');
  const agent = new Agent({ keepAlive: true, maxSockets: 256 });
  return {
    run: (language, code) => submit(agent, port, key, { language, code }),
    cpu_s: () => cpuOfParts(child.pid!),
    async stop() {
      agent.destroy();
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await gone;
      rmSync(state, { recursive: true, force: true });
    },
  };
}

function submit(agent: Agent, port: number, key: string, body: object): Promise<Answer> {
  const bytes = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const outgoing = request({
      agent,
      port,
      host: '127.0.0.1',
      method: 'POST',
      path: '/api/submit?wait=true',
      headers: {
        'X-API-Key': key,
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(bytes),
      },
    });
    outgoing.on('error', reject);
    outgoing.on('response', (incoming) => {
      let text = '';
      incoming.setEncoding('utf8');
      incoming.on('data', (part) => {
        text += part;
      });
      incoming.on('end', () => {
        if (incoming.statusCode === 200) resolve(JSON.parse(text));
        else reject(new Error(`submit answered ${incoming.statusCode}: ${text}`));
      });
    });
    outgoing.end(bytes);
  });
}

function lineThat(child: ChildProcess, wanted: (line: string) => boolean): Promise<void> {
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

type Process = { pid: number; parent: number; command: string; cpu_s: number };

/** The tree below serve, told apart by what each process is; the launcher and its boxes are none of them. */
function cpuOfParts(root: number): Record<'web' | 'worker' | 'postgres', number> {
  const all = processes();
  const below = new Set([root]);
  for (let size = 0; size !== below.size; ) {
    size = below.size;
    for (const { pid, parent } of all) if (below.has(parent)) below.add(pid);
  }
  const sum = { web: 0, worker: 0, postgres: 0 };
  for (const { pid, command, cpu_s } of all) {
    const part = below.has(pid) ? partOf(command) : null;
    if (part) sum[part] += cpu_s;
  }
  return sum;
}

function partOf(command: string): 'web' | 'worker' | 'postgres' | null {
  if (/postgres/.test(command)) return 'postgres';
  if (/main\.ts (.* )?web\b/.test(command)) return 'web';
  if (/main\.ts (.* )?worker\b/.test(command)) return 'worker';
  return null;
}

function processes(): Process[] {
  const ticks = 100;
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ');
        const cpu_s = (Number(fields[11]) + Number(fields[12])) / ticks;
        return [{ pid: Number(name), parent: Number(fields[1]), command, cpu_s }];
      } catch {
        return []; // it ended while we looked
      }
    });
}
