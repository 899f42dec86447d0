/**
 * The service at this moment, in one screen, from the database alone: what the console's page Now reads. What stops the service
 * is decided by doctor's rules; a warning of doctor that holds up no submission is only shown.
 */
import type { Config } from '../../config.ts';
import type { Db } from '../../db.ts';
import { durationText } from '../../domain/units_text.ts';
import { lastCheckpoint } from '../../store/checkpoints.ts';
import { createReadNow, languagesOf, type Now } from '../../store/console_now.ts';
import { readCosigned, witnessName } from '../../store/cosignatures.ts';
import { createHealth, unsealedText } from '../../store/service_health.ts';
import { type Command, CommandFailed, type Context, JSON_OPTION } from '../command.ts';
import { type Finding, fail, failed } from '../doctor/finding.ts';
import { missingLanguages, missingPairs, noWorker, queueFinding } from '../doctor/queue_checks.ts';
import { sealingRefused } from '../doctor/sealing_checks.ts';
import { logKey } from '../installation_keys.ts';
import { columns, table } from '../table.ts';

export const command: Command = {
  summary:
    'show the queue, the workers, the sealing and the deliveries at this moment, and what stops the service',
  options: { json: JSON_OPTION },
  example: 'status --json',
  statuses: [
    ['0', 'submissions are taken and run'],
    ['1', 'something stops them; stderr has a line for each reason'],
  ],
  async run(context) {
    // This may start the embedded PostgreSQL. The time limit is for what follows.
    await context.database({ unseen: true });
    const status = await inTime(read(context));
    context.answer(context.json ? status : text(status));
    for (const { what, found, remedy } of status.problems)
      context.say(`${what}: ${found} -> ${remedy}`);
    return status.problems.length === 0 ? 0 : 1;
  },
};

/** Of all that it reads; a few milliseconds on a machine that is well. */
const LIMIT_S = 10;

/** The connections that still wait are closed at the end of the command, and PostgreSQL ends what they asked for. */
async function inTime<T>(reading: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const text = `the database did not answer within ${LIMIT_S} s: look in pg_stat_activity for what holds a lock, and whether the server is overloaded`;
    timer = setTimeout(() => reject(new CommandFailed(text)), LIMIT_S * 1_000);
  });
  return Promise.race([reading, late]).finally(() => clearTimeout(timer));
}

/** OPERATING.md has the meaning of each: scripts read it. */
type Status = Awaited<ReturnType<typeof read>>;

async function read(context: Context) {
  const { config } = context;
  const db = await context.database();
  const now = await createReadNow(db)([]);
  const key = await logKey(context).catch((error: unknown) => failed('sealing', error));
  const checkpoint = await lastCheckpoint(db);
  const refused = key && ('check' in key ? key : await sealingRefused(db, key));
  const { queue } = now;
  return {
    at: now.at,
    problems: (await stops(db, now, config, refused)).map(({ check, found, remedy }) => ({
      ...{ what: check, found, remedy },
    })),
    queue: {
      ...{ waiting: queue.waiting, capacity: config.queue_capacity, held: queue.gated },
      ...{ again: queue.again, oldest_s: queue.oldest_wait_s },
      ...{ running: queue.running, slots: queue.slots },
    },
    webs: now.webs,
    workers: {
      alive: queue.workers,
      shown: now.workers.map(({ host, slots, running, toolchains, ...rest }) => ({
        ...{ host, slots, running, languages: Object.keys(toolchains).sort() },
        ...{ isolation: rest.isolation, heartbeat_s: rest.heartbeat_s, takes: rest.takes },
      })),
    },
    languages: languagesOf(now, config.languages),
    log: {
      checkpoint: checkpoint && {
        ...{ origin: checkpoint.origin, size: checkpoint.size, age_s: queue.checkpoint_age_s },
      },
      ...{ unsealed: queue.unsealed, unsealed_more: queue.unsealed_more },
      unsealed_s: queue.unsealed_s,
      sealing: key === null || 'check' in key ? 'not tried' : refused ? 'refused' : 'ok',
      witnesses: await witnessesOf(db, config),
    },
    deliveries: { waiting: queue.deliveries_waiting, oldest_s: now.deliveries_oldest_s },
  };
}

/** Why submissions are not taken, not run, or not sealed. */
async function stops(
  db: Db,
  now: Now,
  { languages, queue_capacity }: Config,
  refused: Finding | null,
): Promise<Finding[]> {
  const problem = await createHealth(db).problem();
  const queue = queueFinding(now.queue, queue_capacity);
  return [
    ...(problem === null ? [] : [fail('database', problem, 'set DATABASE_URL to the primary')]),
    ...(now.webs > 0 ? [] : [NO_WEB]),
    ...(now.queue.workers > 0
      ? [...missingLanguages(languages, Object.keys(now.slots)), ...(await missingPairs(db))]
      : [noWorker(now.queue)]),
    ...(queue.state === 'fail' ? [queue] : []),
    ...(refused ? [refused] : []),
  ];
}

const NO_WEB = fail(
  'web',
  'none is alive: nothing is accepted, delivered or sealed',
  'start one: `./runledger web`, or all of one machine: `./runledger serve`',
);

async function witnessesOf(db: Db, { witnesses }: Config) {
  const keys = (witnesses ?? []).map(({ key }) => key);
  const cosigned = await readCosigned(db, keys);
  return keys.map((key) => {
    const { behind = null, behind_s = null } = cosigned.get(witnessName(key)) ?? {};
    return { name: key.name, behind, behind_s };
  });
}

function text({ problems, queue, webs, workers, languages, log, deliveries }: Status): string {
  // Or its key cannot be read, which stderr says.
  const hasNoKey = log.sealing === 'not tried' && !problems.some(({ what }) => what === 'sealing');
  const { checkpoint } = log;
  const waits = queue.waiting + queue.again > 0;
  const terms = [
    ['waiting', `${queue.waiting} of ${queue.capacity}, ${queue.held} of them held`],
    ['lost, to be run again', `${queue.again}`],
    ['oldest waits', waits ? age(queue.oldest_s) : '-'],
    ['running', `${queue.running} in ${queue.slots} slots`],
    ['web processes', `${webs}`],
    ['workers', `${workers.alive}`],
    ['deliveries waiting', withOldest(`${deliveries.waiting}`, deliveries.oldest_s)],
    [
      'newest checkpoint',
      checkpoint
        ? `${checkpoint.size} events of ${checkpoint.origin}, ${age(checkpoint.age_s)} old`
        : '-',
    ],
    ['events not sealed', withOldest(unsealedText(log), log.unsealed > 0 ? log.unsealed_s : null)],
    ['sealing', hasNoKey ? `${log.sealing}: ${NO_KEY_HERE}` : log.sealing],
    ...log.witnesses.map(({ name, behind, behind_s }) => [
      `witness ${name}`,
      behind === null ? '-' : `${behind} events behind, for ${age(behind_s)}`,
    ]),
  ];
  const parts = [columns(terms)];
  if (workers.shown.length > 0)
    parts.push(
      table(
        workers.shown.map(({ heartbeat_s, takes, languages: run, ...worker }) => ({
          ...worker,
          heartbeat: `${age(Math.max(heartbeat_s, 0))} ago`,
          takes: takes ? 'yes' : 'no',
          languages: run.join(' '),
        })),
      ),
    );
  if (workers.shown.length < workers.alive)
    parts.push(`These are the first ${workers.shown.length} of ${workers.alive} workers, by host.`);
  return [...parts, table(languages)].join('\n\n');
}

const NO_KEY_HERE = 'this command has no RUNLEDGER_SEAL_KEY';

const age = (seconds: number | null) => durationText(seconds && seconds * 1e6);

const withOldest = (count: string, oldest_s: number | null) =>
  oldest_s === null ? count : `${count}, the oldest for ${age(oldest_s)}`;
