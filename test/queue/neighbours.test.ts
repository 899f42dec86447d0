/** Which processes of this machine have ended: with processes that are killed and stopped, and one on another machine. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import t from 'tap';
import { createLog } from '../../src/log.ts';
import { addressOf, openNeighbours } from '../../src/queue/neighbours.ts';
import { makeNetwork, noNetworks } from './network.ts';

const PROGRAM = `${import.meta.dirname}/neighbour_process.ts`;
const log = createLog({ level: 'silent', process: 'test', to: 'stderr' });
/** More than the kernel queues for a process that takes no calls. */
const CALLS_MOST = 10_000;
type Test = { teardown(work: () => unknown): void };
type Neighbour = { name: string; child: ChildProcess };

async function open(t: Test) {
  const neighbours = await openNeighbours(log);
  t.teardown(() => neighbours.close());
  return neighbours;
}

async function neighbour(t: Test, within: readonly string[] = []): Promise<Neighbour> {
  const [command = '', ...args] = [...within, process.execPath, PROGRAM];
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const [name] = await once(child.stdout!, 'data');
  return { name: String(name), child };
}

async function kill({ child }: Neighbour): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

t.test('a process that was reached and is killed is dead; one that hangs is not', async (t) => {
  const ours = await open(t);
  const [killed, hanging] = [await neighbour(t), await neighbour(t)];
  const names = [killed.name, hanging.name];
  await ours.meet(names);
  t.same(ours.near(names), names);
  t.same(await ours.dead(names), [], 'both live');
  await kill(killed);
  hanging.child.kill('SIGSTOP');
  t.same(await ours.dead(names), [killed.name]);
  await ours.meet(names);
  t.same(await ours.dead(names), [killed.name], 'to meet it again changes nothing');
  await ours.meet([hanging.name]);
  t.same(await ours.dead([killed.name]), [], 'it is forgotten');
});

t.test('a process that was never reached is not dead', async (t) => {
  const ours = await open(t);
  const unmet = await neighbour(t);
  await kill(unmet);
  const names = ['1', unmet.name];
  await ours.meet(names);
  t.same(ours.near(names), []);
  t.same(await ours.dead(names), []);
});

t.test('a process is no neighbour of its own', async (t) => {
  const ours = await open(t);
  // It is not registered yet.
  await ours.meet([]);
  await ours.meet([ours.name]);
  t.same(ours.near([ours.name]), []);
});

t.test('while a process that inherited the socket lives, the process is not dead', async (t) => {
  const ours = await open(t);
  const one = await neighbour(t);
  await ours.meet([one.name]);
  one.child.kill('SIGUSR1');
  const [pid] = await once(one.child.stdout!, 'data');
  t.teardown(() => {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {}
  });
  await kill(one);
  t.same(await ours.dead([one.name]), [], 'its child still has it');
  process.kill(Number(pid), 'SIGKILL');
  while ((await ours.dead([one.name])).length === 0);
  t.same(await ours.dead([one.name]), [one.name]);
});

t.test('a process that takes no more calls is not dead, and stays known', async (t) => {
  const ours = await open(t);
  const one = await neighbour(t);
  await ours.meet([one.name]);
  one.child.kill('SIGSTOP');
  const calls: Socket[] = [];
  t.teardown(() => calls.forEach((call) => void call.destroy()));
  let error: string | undefined;
  while (error === undefined && calls.length < CALLS_MOST) {
    const call = createConnection({ path: addressOf(one.name) });
    calls.push(call);
    error = await new Promise<string | undefined>((resolve) => {
      call.once('connect', () => resolve(undefined));
      call.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code));
    });
  }
  t.equal(error, 'EAGAIN', 'its queue is full');
  t.same(await ours.dead([one.name]), []);
  await ours.meet([one.name]);
  await kill(one);
  t.same(await ours.dead([one.name]), [one.name]);
});

t.test('a process on another machine is not dead', { skip: noNetworks() ?? false }, async (t) => {
  const ours = await open(t);
  const far = await neighbour(t, makeNetwork(t).machine().within);
  await ours.meet([far.name]);
  await kill(far);
  t.same(await ours.dead([far.name]), [], 'nobody here knows');
});
