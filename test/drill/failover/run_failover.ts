/**
 * The drill itself, inside its namespaces.
 *
 *   run_failover.ts FOLDER
 *
 * Under a small steady load, a machine is lost in each of the ways of FAULTS. Each time the service is back soon, by itself, and the
 * log goes on. At the end, log_check.ts looks at every submission that was answered, and verify at the log.
 */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { call } from '../../http/support/call.ts';
import { openStage } from '../drill.ts';
import { tryForkedCopy } from './forked_copy.ts';
import { type Load, startLoad } from './load.ts';
import { checkLog } from './log_check.ts';
import { type Machine, openMachines, wholeCluster } from './machines.ts';
import {
  command,
  createLogins,
  ownerAt,
  sealing,
  startHaproxy,
  startWeb,
  startWitness,
  startWorker,
  type Witness,
} from './service.ts';

/** The longest time without a result, from the fault on. */
const BACK_S = 30;
/** A busy machine may need longer, and then the time is printed only. */
const PATIENCE_S = 240;
/** A submission that runs when the primary is lost, for longer than a worker may run it without a heartbeat. */
const LONG_S = 8;
/** How long a disk stays full. */
const FULL_S = 12;
/** What a machine that is there again might still do wrong. */
const AFTER_S = 5;

type Fault = {
  what: string;
  /** Which machine; the primary if absent. */
  of?: 'standby';
  inflict(machine: Machine): void;
  /** What mends the machine. */
  mend(machine: Machine): void;
  /** The service needs the machine itself, so it is mended first. */
  holds_s?: number;
};

const FAULTS: readonly Fault[] = [
  {
    what: "kill -9 of the primary's PostgreSQL and Patroni",
    inflict: (machine) => machine.signal('SIGKILL', ['patroni', 'postgres']),
    mend: (machine) => machine.startPatroni(),
  },
  {
    what: 'the primary is cut off from the network',
    inflict: (machine) => machine.cut(),
    mend: (machine) => machine.heal(),
  },
  {
    what: 'all processes of the primary are paused',
    inflict: (machine) => machine.signal('SIGSTOP'),
    mend: (machine) => machine.signal('SIGCONT'),
  },
  {
    what: 'all processes of the synchronous standby are paused',
    of: 'standby',
    inflict: (machine) => machine.signal('SIGSTOP'),
    mend: (machine) => machine.signal('SIGCONT'),
  },
  {
    what: "the disk of the primary's PostgreSQL is full",
    inflict: (machine) => machine.fillDisk(),
    mend: (machine) => machine.freeDisk(),
    holds_s: FULL_S,
  },
];

async function main(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  const stage = await openStage(basename(folder), console.log);
  const idle = loadavg()[0]! < availableParallelism() / 2;
  try {
    const machines = await openMachines(stage, folder);
    startHaproxy(stage);
    const { primary } = await stage.step('the cluster has a primary and two replicas', () =>
      whole(machines),
    );
    createLogins(primary);
    const witness = await startWitness(stage);
    await command(['migrate'], {});
    const web = await startWeb(stage, witness);
    writeFileSync(join(folder, 'web.log'), '');
    stage.teardown(() => writeFileSync(join(folder, 'web.log'), web.written.join('\n')));
    await startWorker(stage, 'worker-1');
    await startWorker(stage, 'worker-2');
    const key = (await command(['keys', 'create', '--account', 'drill'], {})).trim();
    await command(['tiers', 'set', 'beta', '--per-minute', '0', '--concurrent', '0'], {});
    const load = startLoad(web.origin, key);
    await until('a first result', async () => load.results.length > 0);
    stage.say('web and two workers run programs through HAProxy');

    const health = async () => (await call(web.origin, { path: '/api/health', key })).json;
    const times: string[] = [];
    for (const fault of FAULTS) {
      const back_s = await go(fault, machines, load, witness, stage.say);
      times.push(`${back_s.toFixed(1)} s without results: ${fault.what}`);
      assert.equal((await health()).log.problem, null);
      if (idle) assert.ok(back_s <= BACK_S, `${fault.what}: back after ${back_s.toFixed(1)} s`);
    }
    await load.stop();
    for (const line of times) stage.say(line);
    if (!idle) stage.say(`this machine was busy: the ${BACK_S} s are not judged`);
    const db = ownerAt();
    stage.teardown(() => db.end({ timeout: 1 }));
    for (const line of await checkLog(db, load)) stage.say(line);
    // A replica goes on with the transaction ids of its primary.
    await command(['migrate'], {});
    const generations = await db`select generation from runledger.generations`;
    assert.equal(generations.length, 1, 'a promotion begins no new generation');
    const policy = join(folder, 'policy.txt');
    writeFileSync(policy, await command(['policy'], sealing(witness)));
    await command(['seal'], sealing(witness));
    const verified = await command(['verify', '--policy', policy], sealing(witness));
    stage.say(`verify, with the witness: ${verified.trim().split('\n').at(-1)}`);
    const { other } = await whole(machines);
    await tryForkedCopy(stage, other, { witness, web, key });
  } finally {
    await stage.close();
  }
}

/** Answers how long there were no results. */
async function go(
  fault: Fault,
  machines: readonly Machine[],
  load: Load,
  witness: Witness,
  say: (line: string) => void,
): Promise<number> {
  const { [fault.of ?? 'primary']: machine } = await whole(machines);
  const before = await witness.size();
  await load.long(LONG_S);
  await wait(1_500);
  say(`${fault.what} (${machine.name})`);
  let from = performance.now();
  fault.inflict(machine);
  if (fault.holds_s) {
    await wait(fault.holds_s * 1_000);
    fault.mend(machine);
    from = performance.now();
  }
  // A request that was on its way before may still be answered.
  const answered = () => load.results.find(({ asked }) => asked > from);
  await until('results again', async () => answered() !== undefined);
  const back_s = (answered()!.at - from) / 1_000;
  say(`results again after ${back_s.toFixed(1)} s`);
  if (!fault.holds_s) fault.mend(machine);
  const { primary: now } = await whole(machines);
  await wait(AFTER_S * 1_000);
  say(`all three machines follow ${now.name}`);
  await until('a later checkpoint with a cosignature', async () => (await witness.size()) > before);
  return back_s;
}

async function whole(machines: readonly Machine[]) {
  let found: Awaited<ReturnType<typeof wholeCluster>> = null;
  await until('a whole cluster', async () => {
    found = await wholeCluster(machines);
    return found !== null;
  });
  return found!;
}

async function until(what: string, look: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_S * 1_000;
  while (!(await look())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${PATIENCE_S} s`);
    await wait(100);
  }
}

await main(process.argv[2]!);
// Machines and HAProxy end with the namespaces.
process.exit();
