/**
 * `./runledger upgrade-database`: brings the data of the embedded PostgreSQL to the major version that is packaged now. The old
 * server copies all rows out, as a backup; a new server on new data restores them; what came out is checked; then the new data
 * take the place of the old, which stay under another name (local/upgrade_folder.ts).
 *
 * What must stay true:
 * - The old data are only read. No other server can run on them, because the old one does from the first step to the last. Nobody
 *   else writes to them: the old server has another port than the one that clients know, commands refuse its version, and the
 *   default of its sessions is read only. A client can change that, so in the end it must have given out no transaction id.
 * - It can be killed at any moment, and started again. Each time it starts from the beginning, unless only the exchange was left.
 * - New data take the place of the old only when each table has the rows that it had, and verify finds no problem.
 */
import { mkdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { connect, type Db } from '../db.ts';
import { bytesText } from '../domain/units_text.ts';
import { Fault } from '../fault.ts';
import { packagedMajor } from '../local/binaries.ts';
import { isLocked } from '../local/data_lock.ts';
import {
  dataDir,
  type Options,
  serverOptions,
  startWithRoles,
  superuserUrl,
} from '../local/embedded.ts';
import { findPrograms } from '../local/old_programs.ts';
import {
  AlreadyRunning,
  dataMajor,
  requireMajor,
  runningPort,
  type Server,
  startServer,
} from '../local/postgres.ts';
import { type LocalSecrets, localSecrets } from '../local/secrets.ts';
import {
  clearUpgrade,
  exchange,
  finishExchange,
  isUpgradeThere,
  upgradeFolder,
} from '../local/upgrade_folder.ts';
import { type LogKey, verifierKeys } from '../proof/log_key.ts';
import { backUp, type Rows, restore } from '../store/backup.ts';
import { notBackedUp } from '../store/not_backed_up.ts';
import { verify } from '../store/verify.ts';

export type UpgradeOptions = {
  embedded: Options;
  /** Judges the log's checkpoints. */
  key: LogKey | null;
  /** A folder whose bin has the old programs; null to look for them. */
  old_programs: string | null;
  say(line: string): void;
  /** After each piece of rows: how many tables were begun, and how many bytes are done. */
  progress(direction: 'out' | 'in', tables: number, bytes: number): void;
};

/** `kept`: where the old data are now; null if there was nothing to do. */
export type Upgraded = { major: number; data: string; kept: string | null };

/** What a killed upgrade left ends within milliseconds, or seconds on a busy machine. */
const LEFTOVERS_TIMEOUT_MS = 60_000;
const LEFTOVERS_PAUSE_MS = 100;

export async function upgradeDatabase(options: UpgradeOptions): Promise<Upgraded> {
  const { embedded, say } = options;
  const data = dataDir(embedded);
  const beside = (name: string | null) => name && join(dirname(data), name);
  const major = await packagedMajor();
  const finished = await finishExchange(data);
  if (finished !== null) return { major, data, kept: beside(finished) };
  const from = await dataMajor(data);
  if (from === null)
    throw new Fault(`there is no data in ${data}`, 'nothing has to be upgraded: start serve');
  if (from === major) return { major, data, kept: null };
  if (from > major) await requireMajor(data, major);

  const dir = await findPrograms(from, options.old_programs, say);
  const secrets = await localSecrets(dirname(data));
  const old = await startOld(options, secrets, dir);
  try {
    say(`PostgreSQL ${from} runs on the old data; its programs are in ${dir}`);
    await endLeftovers(data);
    await clearUpgrade(data);
    const url = superuserUrl(old.port, secrets);
    try {
      await requireRoom(dirname(data), await asked(url, sizeOf));
      const next = await asked(url, nextTransaction);
      await makeNew(options, secrets, url);
      if ((await asked(url, nextTransaction)) !== next)
        throw new Fault('somebody wrote to the old data while they were copied', 'try it again');
    } catch (error) {
      await clearUpgrade(data);
      throw error;
    }
    say('the new data are complete, and take the place of the old');
    // While the old server runs, because then no other can.
    const kept = await exchange(data, from, (name) => say(`the old data are in ${beside(name)}`));
    return { major, data, kept: beside(kept) };
  } finally {
    await old.stop();
  }
}

/** Sessions that only read take no transaction id, so an equal answer later shows that nothing was written. */
async function nextTransaction(db: Db): Promise<string> {
  const [row] = await db<{ next: string }[]>`
    select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text as next`;
  return row!.next;
}

async function sizeOf(db: Db): Promise<number> {
  const [row] = await db<{ bytes: number }[]>`
    select pg_catalog.pg_database_size(pg_catalog.current_database())::double precision as bytes`;
  return row!.bytes;
}

/**
 * The new data and the rows on their way take at least about as much as the old data have now. Without that much room the copy
 * would fill the disk, after hours for a large log, and others write to that disk, too.
 */
export async function requireRoom(folder: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  if (free >= bytes) return;
  throw new Fault(
    `the copy needs ${bytesText(bytes)}, ${bytesText(bytes - free)} more than the disk of ${folder} has free`,
    'make room there, and start the upgrade again: the old data are as they were',
  );
}

async function startOld(
  { embedded, say }: UpgradeOptions,
  secrets: LocalSecrets,
  dir: string,
): Promise<Server> {
  const given = serverOptions(embedded, secrets, null, { dir, locale: [] });
  // Analyzing tables takes transaction ids.
  const read_only = { default_transaction_read_only: 'on', autovacuum: 'off' };
  const settings = { ...given.settings, ...read_only };
  const data = dataDir(embedded);
  // The server of a killed upgrade is ending. Without one, it is somebody's who uses it.
  const patient = await isUpgradeThere(data);
  const deadline = performance.now() + LEFTOVERS_TIMEOUT_MS;
  for (let said = false; ; ) {
    try {
      return await startServer({ ...given, settings, creates: false, say });
    } catch (error) {
      if (!(error instanceof AlreadyRunning && patient) || performance.now() > deadline)
        throw error;
      if (!said) say('waiting until the server of an earlier upgrade has ended');
      said = true;
      await wait(LEFTOVERS_PAUSE_MS);
    }
  }
}

/** The new server of a killed upgrade still writes. */
async function endLeftovers(data: string): Promise<void> {
  const { making } = upgradeFolder(data);
  const deadline = performance.now() + LEFTOVERS_TIMEOUT_MS;
  const isUsed = async () => (await runningPort(making)) !== null || (await isLocked(making));
  while ((await isUsed()) && performance.now() < deadline) await wait(LEFTOVERS_PAUSE_MS);
}

/** Copies the rows into new data, and checks them. The new server has stopped when this resolves. */
async function makeNew(
  options: UpgradeOptions,
  secrets: LocalSecrets,
  old_url: string,
): Promise<void> {
  const { embedded, say, progress } = options;
  const { folder, dump, making } = upgradeFolder(dataDir(embedded));
  await mkdir(folder, { mode: 0o700 });
  const before = await asked(old_url, async (db) => {
    for (const what of await notBackedUp(db)) say(`not copied, it stays in the old data: ${what}`);
    let rows: Rows = {};
    const done = await backUp(db, dump, {
      progress: (tables, bytes) => progress('out', tables, bytes),
      counted: (counted) => {
        rows = counted;
      },
    });
    say(`copied out: ${done.tables} tables, ${bytesText(done.bytes)} in ${dump}`);
    return { rows, generation: await generationOf(db) };
  });

  const { uid } = await stat(dataDir(embedded));
  const created = await startWithRoles(
    // As before, the new data belong to the user of the old.
    {
      ...serverOptions(embedded, secrets, null),
      data_dir: making,
      say,
      uid: uid || embedded.postgres_uid,
    },
    secrets,
  );
  try {
    say('the new server runs on new data');
    let rows: Rows = {};
    const done = await restore(created.urls.owner, dump, {
      progress: (tables, bytes) => progress('in', tables, bytes),
      counted: (counted) => {
        rows = counted;
      },
    });
    if (done.applied.length > 0) say(`migrations applied: ${done.applied.join(', ')}`);
    requireSameRows(before.rows, rows);
    say(`copied in: ${done.tables} tables, ${sumOf(rows)} rows, as many as there were in each`);
    await asked(created.urls.owner, (db) => check(db, options, before.generation));
  } finally {
    await created.server.stop();
  }
}

const REMEDY = 'the old data are as they were; see `./runledger verify` of the version before';

export function requireSameRows(before: Rows, after: Rows): void {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  for (const name of names)
    if (before[name] !== after[name])
      throw new Fault(
        `the copy of ${name} has ${after[name] ?? 'no'} rows, and not ${before[name] ?? 'none'}`,
        REMEDY,
      );
}

const sumOf = (rows: Rows) => Object.values(rows).reduce((sum, count) => sum + Number(count), 0);

async function check(
  db: Db,
  { key, say }: UpgradeOptions,
  generation_before: number,
): Promise<void> {
  // Transaction ids begin again on a new server, and events are in the order of generation and transaction.
  if ((await generationOf(db)) <= generation_before)
    throw new Fault('the copy of the log has begun no generation of its own', REMEDY);
  const keys = key ? verifierKeys(key) : [];
  const { problems, events, checkpoints, unchecked } = await verify(db, { keys, live: false });
  for (const what of unchecked) say(`not checked: ${what}`);
  for (const problem of problems) say(problem);
  if (problems.length > 0)
    throw new Fault(`verify found ${problems.length} problems in the copy`, REMEDY);
  say(`verify found no problem: ${events} events, ${checkpoints} checkpoints`);
}

async function generationOf(db: Db): Promise<number> {
  const [row] = await db<{ generation: number }[]>`
    select coalesce(max(generation), 0)::integer as generation from runledger.generations`;
  return row!.generation;
}

async function asked<T>(url: string, work: (db: Db) => Promise<T>): Promise<T> {
  const db = connect(url, { name: 'runledger upgrade', max: 3, unpinned: true });
  try {
    return await work(db);
  } finally {
    await db.end({ timeout: 5 });
  }
}
