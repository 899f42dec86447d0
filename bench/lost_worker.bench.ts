/**
 * How long does an execution of a lost worker wait until it runs elsewhere? From the kill, the stop or the cut to the second
 * start, by the machine's monotonic clock. A kill is measured twice: beside other workers of the same machine, which see it at
 * once, and on a machine of its own, where nobody does.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Fleet, overlaps, startFleet, type WorkerProcess } from '../test/queue/fleet.ts';
import {
  admit,
  type Machine,
  makeNetwork,
  noNetworks,
  ON_THE_NETWORK,
  urlFrom,
} from '../test/queue/network.ts';
import { ownServer } from '../test/support/database.ts';
import { type Measure, publish } from './support/report.ts';
import { median } from './support/stats.ts';

const KILLS = Number(process.env['BENCH_KILLS'] ?? 10);
const HANGS = Number(process.env['BENCH_HANGS'] ?? 2);

const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };

type Crew = { worker: WorkerProcess; machine: Machine | null }[];

try {
  const apart = noNetworks() === null;
  const server = await ownServer(t, apart ? ON_THE_NETWORK : {});
  const network = apart ? makeNetwork(t) : null;
  if (network) await admit(server);
  const fleet = await startFleet(t, { url: server.url, worker_url: server.urls.worker });
  const hire = async (machine: Machine | null) => ({
    machine,
    worker: await fleet.worker({
      slots: 2,
      url: network && machine ? urlFrom(network, server.urls.worker) : server.urls.worker,
      within: machine?.within ?? [],
    }),
  });
  const crewOf = async (machine: () => Machine | null) => {
    const crew: Crew = [];
    for (let n = 0; n < 3; n += 1) crew.push(await hire(machine()));
    return crew;
  };
  const kill = async (one: Crew[number]) => {
    one.worker.signal('SIGKILL');
    return async () => {
      one.worker = (await hire(one.machine)).worker;
    };
  };

  let crew = await crewOf(() => null);
  const killed = await lose(fleet, crew, KILLS, kill);
  if (network) {
    for (const { worker } of crew) worker.signal('SIGTERM');
    for (const { worker } of crew) await worker.exited;
    crew = await crewOf(() => network.machine());
  }
  const alone = network ? await lose(fleet, crew, HANGS, kill) : [];
  const stopped = await lose(fleet, crew, HANGS, async ({ worker }) => {
    worker.signal('SIGSTOP');
    return async () => worker.signal('SIGCONT');
  });
  const cut = network
    ? await lose(fleet, crew, HANGS, async ({ machine }) => {
        machine!.cut();
        return async () => machine!.heal();
      })
    : [];
  const twice = overlaps(fleet.runs());
  if (twice.length > 0) throw new Error(`ran twice at once: ${twice.join(', ')}`);
  publish('lost_worker', 'how long until an execution of a lost worker runs elsewhere?', [
    ...figures(`kill -9, ${KILLS} times`, killed, 1000, 2000),
    ...figures(`kill -9, alone on its machine, ${alone.length} times`, alone, 6000, 6000),
    ...figures(`SIGSTOP, ${HANGS} times`, stopped, 6000, 6000),
    ...figures(`network cut, ${cut.length} times`, cut, 6000, 6000),
  ]);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
for (const work of teardowns) await work();
process.exit();

function figures(name: string, ms: number[], median_ms: number, worst_ms: number): Measure[] {
  if (ms.length === 0) return [];
  return [
    { name: `${name}: median`, unit: 'ms', value: median(ms), at_most: median_ms },
    { name: `${name}: worst`, unit: 'ms', value: Math.max(...ms), at_most: worst_ms },
  ];
}

/** Each time, the worker that runs the submission is lost, and comes back before the next time. */
async function lose(
  fleet: Fleet,
  crew: Crew,
  times: number,
  harm: (one: Crew[number]) => Promise<() => Promise<void>>,
): Promise<number[]> {
  const taken: number[] = [];
  for (let n = 0; n < times; n += 1) {
    await fleet.acquainted();
    // At a random moment between two heartbeats and two sweeps.
    await wait(Math.random() * 1000);
    const id = await fleet.submit('sleep 3000');
    await fleet.begun(id);
    const consumers = await fleet.db<{ pid: number }[]>`
      select (p.isolation ->> 'pid')::integer as pid from runledger.leases l join runledger.consumers p on p.id = l.consumer_id where l.submission_id = ${id}`;
    const one = crew.find(({ worker }) => worker.pid === consumers[0]?.pid);
    if (!one) throw new Error('no worker has it');
    const lost_ms = Number(process.hrtime.bigint() / 1000n) / 1000;
    const restore = await harm(one);
    const again = await Promise.race([
      fleet.begun(id, 2),
      fleet.ended(id).then(() => {
        throw new Error('it was not lost: its first run ended');
      }),
    ]);
    taken.push(again.at_ms - lost_ms);
    await restore();
    await fleet.ended(id);
  }
  return taken;
}
