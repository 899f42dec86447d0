/**
 * Three machines with etcd, Patroni and PostgreSQL, by the files of deploy/ha as they are and the commands of DEPLOYING.md. Each is a
 * set of namespaces: a network, mounts of its own, so that each has its own /etc, and a host name. PostgreSQL's data has a small
 * disk of its own.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, openSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { makeNetwork, type Network } from '../../queue/network.ts';
import { sectionLines } from '../../support/documents.ts';
import { spawnBound } from '../../support/spawn_bound.ts';

const NUMBERS = [1, 2, 3];
const SUBNET = '10.20.0';
/** Room for some hundred seconds of load, and no more. */
const DISK = '512m';
/** Ends with the commands of the document. Systemd would make these folders. */
const SETUP = `
  hostname "$1" && mkdir -p /run/postgresql &&
  mount -t tmpfs -o size=${DISK} "$1" /var/lib/postgresql && chown postgres: /var/lib/postgresql &&
  mount -t tmpfs etcd /var/lib/etcd && chown -R etcd: /var/lib/etcd &&
  mount -t tmpfs run /run/postgresql && chown postgres: /run/postgresql &&
  mount -t tmpfs etc /mnt && mkdir /mnt/upper /mnt/work &&
  mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc &&
  sh -ec "$2" || exit
  echo ready
  exec sleep infinity`;

type Teardown = { teardown(work: () => unknown): void };

/** What Patroni says of a machine. */
type Member = { name: string; role: string; state: string; timeline?: number };

export class Machine {
  readonly name: string;
  readonly address: string;
  readonly cut: () => void;
  readonly heal: () => void;
  readonly #within: readonly string[];
  readonly #folder: string;
  #holder = 0;

  constructor(network: Network, n: number, folder: string) {
    const machine = network.machine(10 + n);
    this.#within = machine.within;
    this.#folder = folder;
    this.name = `db${n}`;
    this.address = machine.address;
    this.cut = machine.cut;
    this.heal = machine.heal;
  }

  async open(): Promise<void> {
    const [program, ...words] = [...this.#within, 'unshare', '--mount', '--uts'];
    const shell = [
      '--propagation',
      'private',
      'sh',
      '-c',
      SETUP,
      'sh',
      this.name,
      this.#commands(),
    ];
    const holder = spawn(program!, [...words, ...shell], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ready = once(createInterface({ input: holder.stdout }), 'line');
    await Promise.race([
      ready,
      once(holder, 'exit').then(() => Promise.reject(new Error(`${this.name} could not be made`))),
    ]);
    this.#holder = holder.pid!;
  }

  startEtcd(): void {
    this.#start('etcd', ['etcd'], {
      ETCD_DATA_DIR: '/var/lib/etcd/default',
      ...this.#environment('/etc/default/etcd'),
    });
  }

  startPatroni(): void {
    const words = ['patroni', '/etc/patroni/config.yml'];
    this.#start('postgres', words, this.#environment('/etc/patroni_env.conf'));
  }

  /** What Patroni answers here; null: nothing. */
  async cluster(): Promise<Member[] | null> {
    const answer = await fetch(`http://${this.address}:8008/cluster`, {
      signal: AbortSignal.timeout(2_000),
    }).catch(() => null);
    if (answer === null) return null;
    return ((await answer.json()) as { members: Member[] }).members;
  }

  /** To all of its processes, or to those of some programs. */
  signal(signal: NodeJS.Signals, programs?: readonly string[]): void {
    for (const pid of this.#processes(programs)) kill(pid, signal);
  }

  fillDisk(): void {
    spawnSync('dd', ['if=/dev/zero', `of=${this.#filler()}`, 'bs=16k'], { stdio: 'ignore' });
  }

  freeDisk(): void {
    rmSync(this.#filler(), { force: true });
  }

  /** Runs a program as the user postgres on this machine. */
  run(...words: string[]): string {
    const [program, ...args] = [...this.#asUser('postgres'), ...words];
    const { status, stdout, stderr } = spawnSync(program!, args, { encoding: 'utf8' });
    if (status !== 0) throw new Error(`${words.join(' ')} on ${this.name}: ${stderr}`);
    return stdout.trim();
  }

  #filler = () => `/proc/${this.#holder}/root/var/lib/postgresql/filler`;

  #asUser = (user: string) => [
    ...['nsenter', '--target', String(this.#holder), '--net', '--mount', '--uts', '--'],
    ...['setpriv', `--reuid=${user}`, `--regid=${user}`, '--init-groups', '--'],
  ];

  /** Those that write into /etc and /var/lib. */
  #commands(): string {
    const lines = sectionLines('DEPLOYING.md', 'Past one machine').flat();
    const isMine = (line: string) =>
      line.startsWith('sed ') && line.includes(`s/db1/${this.name}/`);
    const wanted = lines.filter(
      (line) => /^rm |^install .*(patroni|etcd)/.test(line) || isMine(line),
    );
    return wanted.join('\n');
  }

  /** As systemd reads it. */
  #environment(path: string): Record<string, string> {
    const lines = readFileSync(`/proc/${this.#holder}/root${path}`, 'utf8').split('\n');
    return Object.fromEntries(
      lines
        .filter((line) => /^[A-Z]/.test(line))
        .map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]),
    );
  }

  #start(user: string, words: readonly string[], env: Record<string, string>): void {
    const log = openSync(join(this.#folder, `${this.name}-${words[0]}.log`), 'a');
    const [program, ...args] = [...this.#asUser(user), ...words];
    const path = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LANG: 'C.UTF-8' };
    spawnBound(program!, args, { stdio: ['ignore', log, log], env: { ...path, ...env } });
  }

  #processes(programs?: readonly string[]): number[] {
    const network = readlinkSync(`/proc/${this.#holder}/ns/net`);
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 1 && pid !== this.#holder)
      .filter((pid) => {
        try {
          if (readlinkSync(`/proc/${pid}/ns/net`) !== network) return false;
          const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
          return programs === undefined || programs.includes(name);
        } catch {
          return false;
        }
      });
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

export async function openMachines(stage: Teardown, folder: string): Promise<Machine[]> {
  const network = makeNetwork(stage, SUBNET);
  mkdirSync(folder, { recursive: true });
  const machines = NUMBERS.map((n) => new Machine(network, n, folder));
  for (const machine of machines) await machine.open();
  for (const machine of machines) machine.startEtcd();
  for (const machine of machines) machine.startPatroni();
  return machines;
}

/** The primary and its synchronous standby, when all machines follow one primary; null until then. */
export async function wholeCluster(
  machines: readonly Machine[],
): Promise<{ primary: Machine; standby: Machine; other: Machine } | null> {
  const seen = await Promise.all(machines.map((machine) => machine.cluster()));
  const members = seen.every((each) => each !== null) ? seen[0]! : [];
  const of = (role: string) =>
    machines.find(({ name }) =>
      members.some((member) => member.name === name && member.role === role),
    );
  const primary = of('leader');
  const standby = of('sync_standby');
  const other = of('replica');
  if (!primary || !standby || !other || members.length !== machines.length) return null;
  const lines = new Set(members.map(({ timeline }) => timeline));
  const all_run = members.every(({ state }) => /^(running|streaming)$/.test(state));
  return lines.size === 1 && all_run ? { primary, standby, other } : null;
}
