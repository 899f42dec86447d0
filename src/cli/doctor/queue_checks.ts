/** Whether submissions are run: the workers that are alive, what they can run, and how long the queue is. */
import type { Db } from '../../db.ts';
import { type QueueFacts, queueFacts } from '../../store/queue_facts.ts';
import { type Check, type Finding, fail, ok, warn } from './finding.ts';

/** A submission that waits longer shows that there are too few workers, or that none runs its language. */
const LONG_WAIT_S = 60;
const START_ONE = 'start one: `./runledger worker` (OPERATING.md, "Workers")';

type Worker = {
  host: string;
  slots: number;
  toolchains: Record<string, string>;
  degraded: boolean;
  heartbeat_s: number;
};

const workers: Check = {
  name: 'workers',
  look: async (context) => {
    const db = await context.database();
    const alive = await db<Worker[]>`
      select host, slots, toolchains, coalesce((isolation ->> 'degraded')::boolean, false) as degraded,
        extract(epoch from runledger.clock() - heartbeat_at)::double precision as heartbeat_s
      from runledger.alive_workers() order by host, id`;
    if (alive.length === 0) return [noWorker(await queueFacts(db))];
    return [
      ...alive.map(workerFinding),
      ...missingLanguages(
        context.config.languages,
        alive.flatMap(({ toolchains }) => Object.keys(toolchains)),
      ),
      ...(await missingPairs(db)),
    ];
  },
};

export function noWorker({ waiting, again }: Pick<QueueFacts, 'waiting' | 'again'>): Finding {
  // What a worker has lost waits, too, and takes no place in the queue.
  if (waiting === 0 && again > 0)
    return fail('workers', 'none is alive, and what was lost waits to be run again', START_ONE);
  if (waiting === 0) return warn('workers', 'none is alive: submissions would wait', START_ONE);
  return fail('workers', `none is alive, and ${waiting} submissions wait`, START_ONE);
}

function workerFinding({ host, slots, toolchains, degraded, heartbeat_s }: Worker): Finding {
  const languages = Object.keys(toolchains).sort().join(', ');
  const seen = Math.max(heartbeat_s, 0).toFixed(1);
  const found = `on ${host}: ${slots} slots for ${languages}; heartbeat ${seen} s ago`;
  if (!degraded) return ok('workers', found);
  return warn(
    'workers',
    `${found}; degraded isolation`,
    'run `./runledger doctor` on that machine',
  );
}

/** `offered`: by this environment; `run`: by the workers. */
export function missingLanguages(offered: readonly string[], run: readonly string[]): Finding[] {
  const missing = offered.filter((name) => !run.includes(name));
  if (missing.length === 0) return [];
  const found = `none runs ${missing.join(', ')}: such submissions wait`;
  return [warn('workers', found, 'install it on a worker, or leave it out of RUNLEDGER_LANGUAGES')];
}

/** Of a submission and its checker, as `python/java`. Each of the two may have workers. */
export async function missingPairs(db: Db): Promise<Finding[]> {
  const pairs = await db<{ pair: string }[]>`
    select replace(x.task, runledger.execution_task(''), '') as pair from (
      select t.identifier as task from graphile_worker._private_tasks t
      where runledger.is_execution(t.identifier) and strpos(t.identifier, '/') > 0 and exists (
        select from graphile_worker._private_jobs j where j.task_id = t.id and j.is_available = true)
      union
      select runledger.execution_task(g.aside) from runledger.gated g where strpos(g.aside, '/') > 0
    ) x where not runledger.has_worker(x.task) order by 1`;
  return pairs.map(({ pair }) => {
    const [language, other] = pair.split('/');
    const found = `none runs both ${language} and ${other}: submissions with such a checker or interactor wait`;
    return warn('workers', found, 'install both on one worker');
  });
}

const queue: Check = {
  name: 'queue',
  look: async (context) => [
    queueFinding(await queueFacts(await context.database()), context.config.queue_capacity),
  ],
};

export function queueFinding(facts: QueueFacts, capacity: number): Finding {
  const { waiting, gated, again, running, oldest_wait_s } = facts;
  const oldest = oldest_wait_s > 0 ? `, the oldest for ${Math.round(oldest_wait_s)} s` : '';
  const lost = again > 0 ? `; ${again} were lost and wait to be run again` : '';
  const held = `${gated} of them for their key's limit or a worker of their language`;
  const found = `${waiting} of ${capacity} submissions wait${oldest}; ${held}${lost}; ${running} run`;
  const add = 'add workers or slots';
  if (waiting >= capacity)
    return fail('queue', `full: ${found}`, `${add}, or raise RUNLEDGER_QUEUE_CAPACITY`);
  if ((waiting > gated || again > 0) && oldest_wait_s > LONG_WAIT_S)
    return warn('queue', found, add);
  return ok('queue', found);
}

export const queueChecks: readonly Check[] = [workers, queue];
