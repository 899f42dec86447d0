/**
 * What does the ledger cost over PostgreSQL itself? Everything is durable (fsync and synchronous_commit on). Each measure
 * is beside its floor from the same run, and both are measured in turn:
 *   * submitting with all checks, over bare inserts of the same event, and over pgbench's own simple update;
 *   * one key for all callers, over one key each;
 *   * appending to a large log, over an empty one;
 *   * a rebuild, over COPY of the same events, while the service answers;
 *   * sealing and verifying that log.
 */
import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { newSecret, secretDigest } from '../src/access/secret.ts';
import { connect, type Db } from '../src/db.ts';
import { uuidv7 } from '../src/domain/ids.ts';
import { keyText } from '../src/proof/note.ts';
import { exportLog } from '../src/store/export_log.ts';
import { createKey, setTier } from '../src/store/keys.ts';
import { Problems } from '../src/store/problems.ts';
import { rebuild } from '../src/store/rebuild.ts';
import { createSubmissions, type Submissions } from '../src/store/submissions.ts';
import { verify } from '../src/store/verify.ts';
import { checkLog } from '../src/store/verify_log.ts';
import { sessionSettings } from '../src/store/verify_session.ts';
import { checkShape } from '../src/store/verify_shape.ts';
import { checkStreams } from '../src/store/verify_streams.ts';
import { submission } from '../test/queue/given.ts';
import { key, seal } from '../test/store/seal_now.ts';
import { alone } from '../test/store/verified.ts';
import { ownServer } from '../test/support/database.ts';
import { inEvents } from '../test/tamper/past_triggers.ts';
import { cpuBetween, cpuNow } from './support/cpu.ts';
import { EVENTS_OF_ONE, growLog } from './support/grow_log.ts';
import { against, type Measure, publish } from './support/report.ts';

const CALLERS = 32;
const ROUND_MS = Number(process.env['BENCH_ROUND_MS'] ?? 2500);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 4);
/** The size of the large log. The rebuild is measured when half of it is written. */
const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 2_000_000);
const REBUILT_EVENTS = EVENTS / 2;
/** So many events are appended in one statement. */
const AT_ONCE = 100_000;
const CAPACITY = 100_000_000;
/** The type of a bare insert: it is permanent, and makes nothing of a key that does not exist. */
const BARE = 'key.revoked';

const teardowns: (() => unknown)[] = [];
// No checkpoints: one that falls into a measure and not into its floor would distort the ratio.
const server = await ownServer(
  { teardown: (work) => void teardowns.unshift(work) },
  { max_connections: '120', max_wal_size: '8GB', checkpoint_timeout: '1h' },
  { strange_events: 'the bare inserts have the facts of another type' },
);
const owner = connect(server.url, { name: 'bench', max: 4 });
const web = connect(server.urls.web, { name: 'bench web', max: 2 });
const bare = connect(server.url, { name: 'bench bare', max: CALLERS });
teardowns.unshift(() => Promise.all([owner, web, bare].map((db) => db.end({ timeout: 1 }))));
try {
  // No submission is gated, because adding the jobs is part of the work.
  await setTier(owner, { name: 'bench', per_minute: 0, concurrent: 10_000_000 });
  const keys = await Promise.all(Array.from({ length: CALLERS }, newKey));
  const { submit } = createSubmissions(web, { queue_capacity: CAPACITY });
  const measures = [...(await submitting(submit, keys)), ...(await growing(submit, keys))];
  publish('ledger', 'what does the ledger cost over PostgreSQL itself?', measures);
} finally {
  for (const work of teardowns) await work();
}

async function newKey(): Promise<Uint8Array> {
  const secret_digest = secretDigest(newSecret('rl'));
  await createKey(owner, { account: randomUUID(), tier: 'bench', prefix: 'rl', secret_digest });
  return secret_digest;
}

type Submit = Submissions['submit'];

async function submitOne(submit: Submit, secret_digest: Uint8Array): Promise<void> {
  const { kind } = await submit({ secret_digest, submission: submission(newId()) });
  if (kind !== 'accepted') throw new Error(kind);
}

function newId(): string {
  return uuidv7(Date.now(), randomBytes(10));
}

async function submitting(submit: Submit, keys: readonly Uint8Array[]): Promise<Measure[]> {
  const spread = (n: number) => submitOne(submit, keys[n]!);
  const hot = () => submitOne(submit, keys[0]!);
  await many(spread, 2_000);
  const facts = await aFact();
  const insert = () => insertEvent(bare, facts);
  await many(insert, 1_000);
  await pgbench(['-i', '-s', '10', '-q']);
  const spreads: Round[] = [];
  const inserts: Round[] = [];
  const hots: Round[] = [];
  const pgbenchs: number[] = [];
  for (let n = 0; n < ROUNDS; n++) {
    spreads.push(await many(spread));
    inserts.push(await many(insert));
    hots.push(await many(hot));
    pgbenchs.push(await pgbenchN());
  }
  await checkAccepted();
  await removeBare();
  const per_s = (rounds: readonly Round[]) => mean(rounds.map((round) => round.per_s));
  const cpu = (rounds: readonly Round[]) => mean(rounds.map((round) => round.cpu_ms));
  const ours = per_s(spreads);
  return [
    against(
      `submit with all checks, ${CALLERS} callers, over bare inserts of its event`,
      '/s',
      ours,
      per_s(inserts),
      { at_least: 0.55 },
    ),
    against('  over pgbench -N', '/s', ours, mean(pgbenchs), { at_least: 0.7 }),
    against('  CPU of one submission, over one bare insert', 'ms', cpu(spreads), cpu(inserts), {
      was: 'CPU of one, over that of a bare insert',
    }),
    against('submit with one key for all callers, over one key each', '/s', per_s(hots), ours, {
      at_least: 0.9,
      was: 'one hot key over spread keys',
    }),
    against('  CPU of one submission, over one key each', 'ms', cpu(hots), cpu(spreads), {
      was: 'CPU of one, over that of spread keys',
    }),
  ];
}

type Round = { per_s: number; cpu_ms: number };

/** Runs all callers for one round, each with one call at a time. */
async function many(once: (n: number) => Promise<void>, ms = ROUND_MS): Promise<Round> {
  const cpu = cpuNow(server.pid());
  const began = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, n) => {
      while (performance.now() - began < ms) {
        await once(n);
        done += 1;
      }
    }),
  );
  const per_s = done / ((performance.now() - began) / 1000);
  return { per_s, cpu_ms: cpuBetween(cpu, cpuNow(server.pid())) / done };
}

async function aFact(): Promise<string> {
  const [row] = await owner<{ facts: string }[]>`
    select facts::text from runledger.events where type = 'submission.accepted' limit 1`;
  return row!.facts;
}

/**
 * Inserts the row that a submission appends, and nothing else: no key, rate, queue place, payload, projection or job.
 * The row goes to the permanent partition. Its id is in order of time, as all ids are.
 */
async function insertEvent(db: Db, facts: string): Promise<void> {
  await db`
    insert into runledger.events (stream, version, type, at, generation, facts)
    values (${`f${newId().slice(1)}`}, 1, ${BARE}, clock_timestamp(), 1, ${facts}::text::jsonb)`;
}

/** Their facts are of another type. Everything after this is measured on events as the service appends them. */
async function removeBare(): Promise<void> {
  const superuser = connect(server.superuser_url, { name: 'bench cleaner', max: 1 });
  await inEvents(superuser, `delete from runledger.events where type = '${BARE}'`);
  await superuser.end();
}

async function pgbench(args: readonly string[]): Promise<string> {
  return (await promisify(execFile)('pgbench', [...args, server.superuser_url])).stdout;
}

async function pgbenchN(): Promise<number> {
  const stdout = await pgbench([
    '-N',
    '-n',
    '-c',
    `${CALLERS}`,
    '-j',
    '2',
    '-T',
    `${Math.ceil(ROUND_MS / 1000)}`,
  ]);
  return Number(/tps = ([\d.]+)/.exec(stdout)![1]);
}

/** Checks that each accepted submission has its event, its bytes, its row and its job. */
async function checkAccepted(): Promise<void> {
  const [row] = await owner`
    select (select accepted from runledger.queue_state)::integer as accepted,
      (select count(*) from runledger.submissions)::integer as submissions,
      (select count(*) from runledger.events where type = 'submission.accepted')::integer as events,
      (select count(*) from runledger.payloads)::integer as payloads,
      (select count(*) from graphile_worker.jobs)::integer as jobs`;
  const counts = new Set(Object.values(row!));
  if (counts.size !== 1) throw new Error(`the counts differ: ${JSON.stringify(row)}`);
}

/** Measures on a growing log: what must not depend on its size, and what reads all of it. */
async function growing(submit: Submit, keys: readonly Uint8Array[]): Promise<Measure[]> {
  await owner.unsafe('create table public.empty_log (like runledger.events including all)');
  const sealing = await growSealed(REBUILT_EVENTS);
  const measures = [...(await rebuilding(submit, keys)), ...sealing];
  await grow(EVENTS);
  const large: number[] = [];
  const empty: number[] = [];
  for (let n = 0; n < ROUNDS; n++) {
    large.push(await appendMany('runledger.events'));
    empty.push(await appendMany('public.empty_log'));
    await owner.unsafe('truncate public.empty_log');
  }
  return [
    ...measures,
    against(
      `append to a log of ${thousands(EVENTS)} events, over an empty log`,
      '/s',
      mean(large),
      mean(empty),
      { at_least: 0.9, was: `append at ${EVENTS / 1e6} million events over an empty log` },
    ),
  ];
}

/** Grows the log ten seconds of 10,000 events/s at a time, and seals them as a web process would: what was written just now. */
async function growSealed(upto: number): Promise<Measure[]> {
  const before = (await seal(web)).at(-1)?.size ?? 0;
  let [sealed, size, cpu_ms, seal_ms] = [0, before, 0, 0];
  for (let target = AT_ONCE; target <= upto; target += AT_ONCE) {
    await grow(target);
    const [began, cpu] = [performance.now(), cpuNow(server.pid())];
    for (const one of await seal(web)) {
      sealed += one.events;
      size = one.size;
    }
    cpu_ms += cpuBetween(cpu, cpuNow(server.pid()));
    seal_ms += performance.now() - began;
  }
  if (size < upto) throw new Error(`only ${size} events of ${upto} are sealed`);
  const seal_us = (cpu_ms * 1000) / sealed;
  const [tree] = await owner<{ bytes: number }[]>`
    select pg_total_relation_size('runledger.log_tiles')::float8 as bytes`;
  return [
    { name: 'events sealed', was: 'seal', value: sealed / (seal_ms / 1000), unit: '/s' },
    { name: '  CPU of one, in web and PostgreSQL', value: seal_us, unit: 'µs' },
    {
      name: '  share of one core at 10,000 events/s',
      value: (seal_us * 10_000) / 1e6,
      unit: '',
      at_most: 0.1,
    },
    { name: '  bytes of its hashes in the tree', value: tree!.bytes / size, unit: 'bytes' },
  ];
}

/** Appends histories of submissions until the log has so many events. */
async function grow(upto: number): Promise<void> {
  const [row] = await owner<
    { events: number }[]
  >`select count(*)::integer as events from runledger.events`;
  await growLog(owner, Math.ceil((upto - row!.events) / EVENTS_OF_ONE), AT_ONCE / EVENTS_OF_ONE);
}

async function rebuilding(submit: Submit, keys: readonly Uint8Array[]): Promise<Measure[]> {
  const copied = [await copyEvents()];
  let answered = 0;
  let stop = false;
  const service = (async () => {
    while (!stop) {
      await submitOne(submit, keys[0]!);
      answered += 1;
    }
  })();
  const done = await rebuild(owner).finally(() => {
    stop = true;
    return service;
  });
  copied.push(await copyEvents());
  if (answered === 0) throw new Error('the service accepted nothing during the rebuild');
  await seal(web);
  const verifying = performance.now();
  const verifying_cpu = cpuNow(server.pid());
  const { comparisons, events } = await verify(owner, { policy: alone });
  const verify_s = (performance.now() - verifying) / 1000;
  const verify_us = (cpuBetween(verifying_cpu, cpuNow(server.pid())) * 1000) / events;
  const prove = await proving();
  const file_us = await provingFile();
  // The histories of this bench have no payloads, which verify reports, and its bare events have no projection.
  const wrong = comparisons.filter(({ differences }) => differences > 0);
  if (wrong.length > 0) throw new Error(`after the rebuild: ${JSON.stringify(wrong)}`);
  return [
    against(
      `rebuild of ${thousands(REBUILT_EVENTS)} events, over COPY`,
      '/s',
      done.events / (done.fill_ms / 1000),
      mean(copied),
      {
        was: `rebuild of ${REBUILT_EVENTS / 1e6} million events over COPY of the same`,
      },
    ),
    against('  to its end', '/s', done.events / (done.total_ms / 1000), mean(copied), {
      at_least: 0.3,
    }),
    {
      name: '  submissions accepted during the rebuild',
      was: 'submissions accepted meanwhile',
      value: answered,
      unit: '',
      at_least: 1,
    },
    {
      name: '  time for which the final swap locks the tables',
      was: 'others waited for the swap',
      value: done.locked_ms,
      unit: 'ms',
    },
    { name: 'events verified', was: 'verify', value: events / verify_s, unit: '/s' },
    { name: '  on one core, with PostgreSQL', value: 1e6 / verify_us, unit: '/s' },
    {
      name: '  on one core: the log against its tree, without bytes and derived tables',
      value: 1e6 / prove.own_us,
      unit: '/s',
      at_least: 100_000,
    },
    {
      name: '    with PostgreSQL, which reads the events, on the same core',
      value: 1e6 / prove.all_us,
      unit: '/s',
    },
    {
      name: '  on one core: the log as an exported file, without a database',
      value: 1e6 / file_us,
      unit: '/s',
      at_least: 100_000,
    },
  ];
}

/** CPU time of one event, in microseconds, of verify's own process and with PostgreSQL: schema, leaves, facts, roots, versions. */
async function proving(): Promise<{ own_us: number; all_us: number }> {
  const cpu = cpuNow(server.pid());
  const settings = await sessionSettings(owner);
  const events = await owner.begin('isolation level repeatable read read only', async (tx) => {
    const db = tx as unknown as Db;
    await tx.unsafe(settings).simple();
    const found = new Problems();
    await checkShape(db, found);
    const log = await checkLog(db, { trust: { policy: alone, keys: [] }, kept: null }, found);
    await checkStreams(db, found);
    if (log.proven?.size !== log.sealed) throw new Error(`not proven: ${found.lines()[0]}`);
    return log.events;
  });
  const end = cpuNow(server.pid());
  return {
    own_us: ((end.own - cpu.own) * 1000) / (events as number),
    all_us: (cpuBetween(cpu, end) * 1000) / (events as number),
  };
}

/** CPU time of one event of the exported log, in microseconds: of the whole command, its start included. */
async function provingFile(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-export-'));
  const [file, policy_file] = [join(folder, 'log'), join(folder, 'policy')];
  writeFileSync(policy_file, `log ${keyText(key.signer.verifier)}\nquorum none\n`);
  const { entries } = await exportLog(owner, file);
  const verifying = `time -p ./runledger verify ${file} --policy ${policy_file} --json`;
  const { stdout, stderr } = await promisify(execFile)('bash', ['-c', verifying]);
  rmSync(folder, { recursive: true });
  const { well, proven, events } = JSON.parse(stdout);
  if (!well || !proven || events !== entries) throw new Error(`the file is not proven: ${stdout}`);
  const [user, system] = ['user', 'sys'].map((name) =>
    Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(stderr)?.[1]),
  );
  return ((user! + system!) * 1e6) / events;
}

/** Events a second into a table without an index, which is the fastest way into PostgreSQL. */
async function copyEvents(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-copy-'));
  const file = join(folder, 'events');
  const psql = (command: string) =>
    promisify(execFile)('psql', [server.superuser_url, '-q', '-c', command]);
  await psql(`\\copy (select * from runledger.events) to '${file}'`);
  await psql('create table public.copied (like runledger.events)');
  const began = performance.now();
  await psql(`\\copy public.copied from '${file}'`);
  const took_s = (performance.now() - began) / 1000;
  const [row] = await owner<{ n: number }[]>`select count(*)::integer as n from runledger.events`;
  await psql('drop table public.copied');
  rmSync(folder, { recursive: true });
  return row!.n / took_s;
}

/** Appends batches of 64 events, each in its own stream, so that the insert and not the round trip is measured. */
async function appendMany(table: string): Promise<number> {
  const facts = await aFact();
  let streams = 0;
  const { per_s } = await many(async () => {
    const ids = Array.from({ length: 64 }, newId);
    streams += ids.length;
    await bare.unsafe(
      `insert into ${table} (stream, version, type, at, generation, facts)
       select id, 1, '${BARE}', clock_timestamp(), 1, $2::text::jsonb from unnest($1::text::uuid[]) id`,
      [`{${ids}}`, facts],
    );
  });
  const [row] = await owner.unsafe(
    `select count(*)::integer as n from ${table} where type = '${BARE}'`,
  );
  if (row!['n'] < streams) throw new Error(`${streams} appended, ${row!['n']} found`);
  return per_s * 64;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function thousands(count: number): string {
  return count.toLocaleString('en');
}
