/** What is done to the service: one harm after the other, drawn from a seed. Each undoes itself. */
import { setTimeout as wait } from 'node:timers/promises';
import { childrenOf } from '../support/processes.ts';
import type { Dice } from './dice.ts';
import type { Service } from './service.ts';

export type Harm = {
  name: string;
  weight: number;
  /** Answers whether it did anything: what it would harm may have ended, or may not be there. */
  run: (service: Service, dice: Dice) => Promise<boolean>;
};

export const HARMS: readonly Harm[] = [
  {
    name: 'worker killed',
    weight: 6,
    async run({ workers }, dice) {
      const worker = dice.pick(workers);
      const is_killed = worker.kill();
      await wait(dice.whole(0, 1500));
      await worker.revive();
      return is_killed;
    },
  },
  {
    name: 'worker stopped',
    weight: 4,
    async run({ workers }, dice) {
      const worker = dice.pick(workers);
      const is_stopped = worker.signal('SIGSTOP');
      await wait(dice.whole(500, 9000));
      worker.signal('SIGCONT');
      return is_stopped;
    },
  },
  {
    name: 'worker cut off',
    weight: 4,
    async run({ workers }, dice) {
      const { machine } = dice.pick(workers);
      if (machine === null) return false;
      machine.cut();
      await wait(dice.whole(500, 9000));
      machine.heal();
      return true;
    },
  },
  {
    name: 'worker terminated',
    weight: 3,
    async run({ workers }, dice) {
      const worker = dice.pick(workers);
      const is_signalled = worker.signal('SIGTERM');
      await wait(dice.whole(3500, 5000));
      await worker.revive();
      return is_signalled;
    },
  },
  {
    name: 'launcher killed',
    weight: 3,
    async run({ workers }, dice) {
      const pid = dice.pick(workers).launcher();
      return pid !== null && tell(pid, 'SIGKILL');
    },
  },
  {
    name: 'web killed',
    weight: 3,
    async run({ webs }, dice) {
      const web = dice.pick(webs);
      const is_killed = web.kill();
      await wait(dice.whole(0, 1500));
      await web.revive();
      return is_killed;
    },
  },
  {
    name: 'web terminated',
    weight: 2,
    async run({ webs }, dice) {
      const web = dice.pick(webs);
      const is_signalled = web.signal('SIGTERM');
      await wait(dice.whole(3500, 5000));
      await web.revive();
      return is_signalled;
    },
  },
  {
    name: 'web stopped',
    weight: 2,
    async run({ webs }, dice) {
      const web = dice.pick(webs);
      const is_stopped = web.signal('SIGSTOP');
      await wait(dice.whole(500, 6000));
      web.signal('SIGCONT');
      return is_stopped;
    },
  },
  {
    name: 'database killed',
    weight: 2,
    async run({ database }, dice) {
      await database.kill();
      await wait(dice.whole(0, 3000));
      await database.start();
      return true;
    },
  },
  {
    name: 'database stopped',
    weight: 1,
    async run({ database }, dice) {
      const pid = database.pid();
      // With its children, which serve without the postmaster.
      const all = childrenOf(pid);
      const is_stopped = tell(pid, 'SIGSTOP');
      for (const one of all) tell(one, 'SIGSTOP');
      await wait(dice.whole(500, 4000));
      for (const one of [...all, pid]) tell(one, 'SIGCONT');
      return is_stopped;
    },
  },
  {
    name: 'a backend of the database killed',
    weight: 1,
    async run({ database }, dice) {
      const all = childrenOf(database.pid());
      return all.length > 0 && tell(dice.pick(all), 'SIGKILL');
    },
  },
];

/** Harms the service, up to three harms at a time, until it is stopped. `onHarm` gets the name of each that did anything. */
export function startHarm(service: Service, dice: Dice, onHarm: (name: string) => void) {
  const stopping = new AbortController();
  const bag = HARMS.flatMap((harm) => Array.from({ length: harm.weight }, () => harm));
  const lanes = [0, 1, 2].map(async (lane) => {
    const own = dice.fork(`lane ${lane}`);
    while (!stopping.signal.aborted) {
      await wait(own.whole(100, 2000));
      const harm = own.pick(bag);
      // Two harms at once to the database would be one.
      if (harm.name.includes('database') && lane > 0) continue;
      if (await harm.run(service, own)) onHarm(harm.name);
    }
  });
  return {
    /** Settles when everything that was harmed works again. */
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all(lanes);
      for (const member of [...service.webs, ...service.workers]) await member.revive();
    },
  };
}

/** False: it has ended by now. */
function tell(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
