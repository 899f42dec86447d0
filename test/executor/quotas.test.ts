/** Quotas of the processors: which groups have them, who is in these groups, and what the launcher says where it has none. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Isolation, Sandbox } from '../../src/executor/sandbox.ts';
import { childrenOf } from '../support/processes.ts';
import { LAUNCHER, shell, withSandbox } from './box.ts';

/** The folder of a process's group in the hierarchy that has the cpu controller; null: there is none. */
function groupOf(pid: number): string | null {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('\n');
  const own = (wanted: (controllers: string) => boolean) =>
    lines.map((line) => line.split(':')).find(([, names]) => wanted(names!))?.[2];
  const mounted = (kind: string, controller = '') => {
    for (const line of readFileSync('/proc/self/mountinfo', 'utf8').split('\n')) {
      const [where = '', what = ''] = line.split(' - ');
      const [type, , options = ''] = what.split(' ');
      const has = controller === '' || options.split(',').includes(controller);
      if (type === kind && has) return where.split(' ')[4];
    }
    return undefined;
  };
  const v1 = mounted('cgroup', 'cpu');
  if (v1) return join(v1, own((names) => names.split(',').includes('cpu'))!);
  const v2 = mounted('cgroup2');
  return v2 ? join(v2, own((names) => names === '')!) : null;
}

/** Processors that a group may use; Infinity: it has no quota. */
function quotaOf(group: string): number {
  const read = (name: string) => readFileSync(join(group, name), 'utf8').trim();
  const [quota, period] = existsSync(join(group, 'cpu.max'))
    ? read('cpu.max').split(' ')
    : [read('cpu.cfs_quota_us'), read('cpu.cfs_period_us')];
  return quota === 'max' || quota === '-1' ? Infinity : Number(quota) / Number(period);
}

/** The group of all slots, and that of each. */
function groupsOf({ isolation }: Sandbox): { all: string; slots: string[] } {
  const name = isolation.groups.split('/').at(-1)!;
  const slot = childrenOf(isolation.pid)[0]!;
  const all = `${groupOf(slot)!.split(`/${name}/`)[0]!}/${name}`;
  const slots = readdirSync(all).filter((entry) => /^s\d+$/.test(entry));
  return { all, slots: slots.map((entry) => join(all, entry)) };
}

const { sandbox, close } = await withSandbox({ slots: 2, stream_slots: 1 });
t.teardown(close);
const { degraded, missing } = sandbox.isolation;
const skip = degraded || missing !== null ? `no quotas on this machine: ${missing}` : false;

t.test('all slots leave a reserve, and each slot has its part', { skip }, async (t) => {
  const { all, slots } = groupsOf(sandbox);
  const processors = Number(execFileSync('nproc', { encoding: 'utf8' }));
  t.ok(quotaOf(all) <= 0.951 * processors, `${quotaOf(all)} of ${processors} for all`);
  t.equal(slots.length, 3, 'each run and each open box');
  for (const slot of slots) {
    const least = Math.min(quotaOf(all), 1);
    t.ok(quotaOf(slot) >= least, `${quotaOf(slot)}: a thread never waits for its own quota`);
    t.ok(quotaOf(slot) <= Math.max(least, processors / 2) * 1.06, `${slot} has only its part`);
  }
});

t.test('programs are inside the quotas, the service is outside', { skip }, async (t) => {
  const { all, slots } = groupsOf(sandbox);
  const looked = new AbortController();
  const sleeps = shell('sleep 60', { limits: { wall_ms: 120_000 } });
  const run = sandbox.run(sleeps, { signal: looked.signal }).catch((error: Error) => error);
  const inits = () => childrenOf(sandbox.isolation.pid).flatMap(childrenOf);
  while (inits().flatMap(childrenOf).length === 0) await new Promise(setImmediate);
  const within = [...childrenOf(sandbox.isolation.pid), ...inits(), ...inits().flatMap(childrenOf)];
  for (const pid of within) t.ok(groupOf(pid)!.startsWith(`${all}/s`), `${pid} is in a slot`);
  t.ok(within.length >= slots.length + 2);
  for (const pid of [sandbox.isolation.pid, process.pid])
    t.notOk(groupOf(pid)!.startsWith(all), `${pid} is not`);
  looked.abort();
  t.match(await run, { kind: 'cancelled' }, 'it ran until then');
});

t.test('a reserve of 0 sets no quotas', { skip }, async (t) => {
  const free = await withSandbox({ slots: 1, cpu_reserve_percent: 0 });
  t.teardown(free.close);
  const { all, slots } = groupsOf(free.sandbox);
  t.equal(quotaOf(all), Infinity);
  for (const slot of slots) t.equal(quotaOf(slot), Infinity);
});

const onlyV1 = /^\d+:cpu:/m.test(readFileSync('/proc/self/cgroup', 'utf8'))
  ? false
  : 'the cpu controller has no hierarchy of its own, which could be taken away';
t.test(
  'without the cpu controller the launcher says what is missing',
  { skip: onlyV1 },
  async (t) => {
    const mount = groupOf(process.pid);
    const own =
      readFileSync('/proc/self/cgroup', 'utf8').match(/:(?:.*,)?cpu(?:,.*)?:(.*)/)?.[1] ?? '/';
    const point = own === '/' ? mount! : mount!.slice(0, -own.length);
    const script = `umount ${point} && exec ${LAUNCHER} --probe`;
    const said = execFileSync('unshare', ['-m', 'sh', '-c', script], { encoding: 'utf8' });
    const found = JSON.parse(said) as Isolation;
    t.match(found, { kind: 'v1', degraded: false });
    t.match(found.missing, /^no quotas of the processors, .*: mount -t cgroup -o cpu none /);
  },
);
