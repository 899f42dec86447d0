/**
 * Machines for tests: network namespaces on a bridge, each with its own address. One can be cut off so that its packets are
 * lost without notice, as when a cable is pulled. Needs root; without it the test is skipped with a reason. The kernel keeps
 * the network of a process that was killed. So its names have that process's id, and the next network removes it.
 */
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { appendFileSync, existsSync } from 'node:fs';
import { connect } from '../../src/db.ts';
import type { OwnServer } from '../support/database.ts';

type Test = { teardown(work: () => unknown): void };

export type Machine = {
  /** The command that runs another command on this machine. */
  readonly within: readonly string[];
  readonly address: string;
  cut(): void;
  heal(): void;
};

export type Network = {
  /** The address at which the machines reach this host. */
  readonly address: string;
  /** `host`: the last number of its address. */
  machine(host?: number): Machine;
};

const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'pipe', 'pipe'] });

/** Why namespaces cannot be made here; null if they can. */
export function noNetworks(): string | null {
  try {
    const name = `rlt${process.pid}`;
    ip('netns', 'add', name);
    ip('netns', 'del', name);
    return null;
  } catch (error) {
    const said = (error as { stderr?: Buffer }).stderr?.toString().trim();
    return `no network namespaces here (${said ?? (error as Error).message})`;
  }
}

let made = 0;

/** `subnet`: its first three numbers; only for a network in a namespace of its own. */
export function makeNetwork(t: Test, subnet = someSubnet()): Network {
  removeLeftNetworks();
  made += 1;
  // With the prefix and a machine's number, the names of interfaces have at most 15 bytes.
  const id = `${process.pid.toString(36)}_${made}`;
  const bridge = `rlb${id}`;
  const namespaces: string[] = [];
  t.teardown(() => {
    for (const name of namespaces) ip('netns', 'del', name);
    ip('link', 'del', bridge);
  });
  // Give the bridge its own address. Otherwise it takes a port's, and packets from that machine arrive even when it is cut off.
  ip('link', 'add', bridge, 'address', '02:00:00:00:00:01', 'type', 'bridge');
  ip('addr', 'add', `${subnet}.1/24`, 'dev', bridge);
  ip('link', 'set', bridge, 'up');
  return {
    address: `${subnet}.1`,
    machine(n = namespaces.length + 2) {
      const name = `rln${id}-${n}`;
      const [ours, theirs] = [`rlv${id}-${n}`, `rlw${id}-${n}`];
      ip('netns', 'add', name);
      namespaces.push(name);
      ip('link', 'add', ours, 'type', 'veth', 'peer', 'name', theirs, 'netns', name);
      ip('link', 'set', ours, 'master', bridge, 'up');
      ip('-n', name, 'addr', 'add', `${subnet}.${n}/24`, 'dev', theirs);
      ip('-n', name, 'link', 'set', theirs, 'up');
      ip('-n', name, 'link', 'set', 'lo', 'up');
      return {
        // Not `ip netns exec`, which mounts another /sys without the control groups.
        within: ['nsenter', `--net=/run/netns/${name}`],
        address: `${subnet}.${n}`,
        cut: () => ip('link', 'set', ours, 'nomaster'),
        heal: () => ip('link', 'set', ours, 'master', bridge),
      };
    },
  };
}

/** Of processes that were killed. */
export function removeLeftNetworks(): void {
  const isLeft = (pid: string) => !existsSync(`/proc/${Number.parseInt(pid, 36)}`);
  const names = (...args: string[]) =>
    ip(...args)
      .toString()
      .split('\n')
      .map((line) => line.split(' ')[0]!);
  const remove = (...args: string[]) => {
    try {
      ip(...args);
    } catch {
      // Another process removes it at the same time.
    }
  };
  // With its namespace goes one end of each cable, and so the other end.
  for (const name of names('netns', 'list')) {
    const [, pid] = /^rln([0-9a-z]+)_/.exec(name) ?? [];
    if (pid !== undefined && isLeft(pid)) remove('netns', 'del', name);
  }
  for (const name of names('-br', 'link', 'show', 'type', 'bridge')) {
    const [, pid] = /^rlb([0-9a-z]+)_/.exec(name) ?? [];
    if (pid !== undefined && isLeft(pid)) remove('link', 'del', name);
  }
}

const someSubnet = () => `10.${randomInt(64, 255)}.${randomInt(0, 255)}`;

/** Settings for a server that accepts connections from the machines; `admit` lets them in. */
export const ON_THE_NETWORK = { listen_addresses: '*' };

export async function admit(server: OwnServer): Promise<void> {
  appendFileSync(
    `/proc/${server.pid()}/cwd/pg_hba.conf`,
    'host all all 10.0.0.0/8 scram-sha-256\n',
  );
  const db = connect(server.superuser_url, { name: 'test', max: 1 });
  await db`select pg_reload_conf()`;
  await db.end();
}

/** The URL of the same database as seen from a machine. */
export function urlFrom(network: Network, url: string): string {
  const seen = new URL(url);
  seen.hostname = network.address;
  return seen.href;
}
