/**
 * Machines for tests: network namespaces on a bridge of their own, each with an address, that can be cut off so that
 * packets are lost without a word, as when a cable is pulled. Needs root; without it the test skips itself.
 */
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { connect } from '../../src/db.ts';
import type { OwnServer } from '../support/database.ts';

type Test = { teardown(work: () => unknown): void };

export type Machine = {
  /** What a command is run by to be on it. */
  readonly within: readonly string[];
  readonly address: string;
  cut(): void;
  heal(): void;
};

export type Network = {
  /** Where the machines reach this one. */
  readonly address: string;
  machine(): Machine;
};

const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'pipe', 'pipe'] });

/** Why there can be no namespaces here; null where there can. */
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

export function makeNetwork(t: Test): Network {
  const id = randomInt(0x1000, 0xffff).toString(16);
  const subnet = `10.${randomInt(64, 255)}.${randomInt(0, 255)}`;
  const bridge = `rlb${id}`;
  const namespaces: string[] = [];
  t.teardown(() => {
    for (const name of namespaces) ip('netns', 'del', name);
    ip('link', 'del', bridge);
  });
  // An address of its own: else it has one port's, and what that machine sends arrives even when it is cut off.
  ip('link', 'add', bridge, 'address', '02:00:00:00:00:01', 'type', 'bridge');
  ip('addr', 'add', `${subnet}.1/24`, 'dev', bridge);
  ip('link', 'set', bridge, 'up');
  return {
    address: `${subnet}.1`,
    machine() {
      const n = namespaces.length + 2;
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
        // Not `ip netns exec`: that mounts another /sys, without the control groups.
        within: ['nsenter', `--net=/run/netns/${name}`],
        address: `${subnet}.${n}`,
        cut: () => ip('link', 'set', ours, 'nomaster'),
        heal: () => ip('link', 'set', ours, 'master', bridge),
      };
    },
  };
}

/** Settings of a server that takes connections from the machines; then `admit` them. */
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

/** The same database as it is reached from a machine. */
export function urlFrom(network: Network, url: string): string {
  const seen = new URL(url);
  seen.hostname = network.address;
  return seen.href;
}
