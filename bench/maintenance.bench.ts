/**
 * What does the upkeep of a long log cost, and what do callers notice of it? A log of ten months, each in partitions of its own,
 * is grown, sealed and rebuilt. Then each chore runs while a caller submits. The same chores on a log of a tenth of the size are
 * their floor: what costs as much there does not grow with the log. BENCH_EVENTS: of the whole log, 1,000,000 where not set.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect, type Db } from '../src/db.ts';
import { uuidv7 } from '../src/domain/ids.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { rebuild } from '../src/store/rebuild.ts';
import { detachMonth } from '../src/store/retention.ts';
import { createSubmissions } from '../src/store/submissions.ts';
import { submission } from '../test/queue/given.ts';
import { seal } from '../test/store/seal_now.ts';
import { ownServer } from '../test/support/database.ts';
import { EVENTS_OF_ONE, growLog } from './support/grow_log.ts';
import { against, isMet, type Measure, publish } from './support/report.ts';
import { median, quantile } from './support/stats.ts';

const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 1_000_000);
const MONTHS = 10;
const AT_ONCE = 25_000;
const CAPACITY = 100_000_000;
/** How long a caller submits before each chore, for the comparison. */
const ALONE_MS = 3_000;

type Chore = { readonly s: number; readonly alone: readonly number[]; readonly beside: number[] };

const teardowns: (() => unknown)[] = [];
try {
  const small = await chores(EVENTS / MONTHS);
  const large = await chores(EVENTS);
  const measures = measuresOf(large, small);
  publish('maintenance', 'what does the upkeep of a long log cost?', measures);
  if (measures.some((measure) => isMet(measure) === false)) process.exitCode = 1;
} finally {
  for (const work of teardowns) await work();
}
process.exit();

async function chores(events: number) {
  const server = await ownServer(
    { teardown: (work: () => unknown) => void teardowns.unshift(work) },
    { shared_buffers: '512MB', max_wal_size: '8GB' },
  );
  const owner = connect(server.url, { name: 'bench', max: 3 });
  const web = connect(server.urls.web, { name: 'bench web', max: 2 });
  teardowns.unshift(() => Promise.all([owner, web].map((db) => db.end({ timeout: 1 }))));
  await setTier(owner, { name: 'bench', per_minute: 0, concurrent: CAPACITY });
  const secret_digest = secretDigest(newSecret('rl'));
  await createKey(owner, { account: randomUUID(), tier: 'bench', prefix: 'rl', secret_digest });
  const { submit } = createSubmissions(web, { queue_capacity: CAPACITY });
  const months = await makeMonths(owner);
  const began = performance.now();
  for (const { at } of months) {
    await growLog(owner, events / MONTHS / EVENTS_OF_ONE, AT_ONCE, () => at);
    await seal(web);
  }
  console.error(`${events} events appended and sealed: ${seconds(began).toFixed(0)} s`);
  const rebuilding = performance.now();
  const rebuilt = await rebuild(owner);
  if (rebuilt.events < events) throw new Error(`only ${rebuilt.events} events were rebuilt`);
  const rebuild_s = seconds(rebuilding);
  console.error(`rebuilt: ${rebuild_s.toFixed(0)} s`);
  await owner.unsafe('vacuum analyze');
  const [size] = await owner<{ bytes: number }[]>`
    select sum(pg_total_relation_size(i.inhrelid))::float8 as bytes from pg_inherits i
    where i.inhparent = any (array['runledger.events', 'runledger.submissions']::regclass[])`;

  const submitOnce = async (into: number[]) => {
    const from = performance.now();
    const given = submission(uuidv7(Date.now(), randomBytes(10)));
    const { kind } = await submit({ secret_digest, submission: given });
    if (kind !== 'accepted') throw new Error(kind);
    into.push(performance.now() - from);
  };

  /** With a caller who submits before it and beside it. */
  async function chore(work: () => Promise<unknown>): Promise<Chore> {
    const [alone, beside]: [number[], number[]] = [[], []];
    for (const from = performance.now(); performance.now() - from < ALONE_MS; )
      await submitOnce(alone);
    let done = false;
    const calling = (async () => {
      while (!done) await submitOnce(beside);
    })();
    const from = performance.now();
    await work().finally(() => {
      done = true;
    });
    const s = seconds(from);
    await calling;
    return { s, alone, beside };
  }

  const [oldest, next] = months;
  return {
    rebuild_s,
    event_bytes: size!.bytes / events,
    vacuum: await chore(() =>
      owner.unsafe(`vacuum (freeze, analyze) runledger.events_${next!.name}`),
    ),
    partitions: await chore(() => owner`select runledger.ensure_partitions()`),
    detach: await chore(async () => {
      const taken = await detachMonth(owner, oldest!.name);
      if (taken !== events / MONTHS) throw new Error(`${taken} events were detached`);
    }),
    drop: await chore(() => owner.unsafe('drop schema runledger_detached cascade')),
  };
}

/** Months that have ended, with the partitions that `ensure_partitions` made in their time. */
async function makeMonths(owner: Db): Promise<{ name: string; at: number }[]> {
  const months: { name: string; at: number }[] = [];
  const now = new Date();
  for (let ago = MONTHS + 1; ago > 1; ago -= 1) {
    const from = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - ago, 1);
    const until = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - ago + 1, 1);
    const name = new Date(from).toISOString().slice(0, 7).replace('-', '_');
    for (const parent of ['events', 'payloads', 'submissions', 'deliveries'])
      await owner`select runledger.ensure_partition(${parent}, ${name},
        format('for values from (%L) to (%L)', runledger.uuid_floor(to_timestamp(${from / 1_000})),
          runledger.uuid_floor(to_timestamp(${until / 1_000}))))`;
    months.push({ name, at: (from + until) / 2 });
  }
  return months;
}

type Chores = Awaited<ReturnType<typeof chores>>;

function measuresOf(large: Chores, small: Chores): Measure[] {
  const of = (name: string, pick: (of: Chores) => Chore): Measure[] => {
    const [one, floor] = [pick(large), pick(small)];
    return [
      against(name, 's', one.s, floor.s),
      against('  submit beside it, p99 over p99 before', 'ms', ...p99(one)),
      { name: '  submit beside it, longest', value: Math.max(0, ...one.beside), unit: 'ms' },
    ];
  };
  const each = (EVENTS / MONTHS).toLocaleString('en');
  return [
    { name: 'events in the log', value: EVENTS, unit: '' },
    against(
      'submit alone, p50 over that with a tenth of the log',
      'ms',
      median(large.vacuum.alone),
      median(small.vacuum.alone),
      { at_most: 1.25 },
    ),
    { name: 'bytes of an event, with its indexes and its row', value: large.event_bytes, unit: '' },
    against('rebuild of all derived rows, over a tenth', 's', large.rebuild_s, small.rebuild_s),
    ...of(`vacuum of a month of ${each} events`, ({ vacuum }) => vacuum),
    ...of('partitions of the next months', ({ partitions }) => partitions),
    ...of(`detach of that month`, ({ detach }) => detach),
    ...of(`drop of what was detached`, ({ drop }) => drop),
  ];
}

function p99({ alone, beside }: Chore): [number, number] {
  return [quantile(beside, 0.99), quantile(alone, 0.99)];
}

function seconds(from: number): number {
  return (performance.now() - from) / 1_000;
}
