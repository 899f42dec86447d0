/** Retention: removes users' bytes after a while, and whole months of the log after a longer one. */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';
import { leafOf } from '../domain/seal_chain.ts';
import { addItems, emptySketch, itemBytes } from '../domain/sketch.ts';
import { parseEntry } from '../proof/entry.ts';
import { HASH_BYTES, leafHash } from '../proof/merkle.ts';
import { DamagedTree, TILE_WIDTH } from '../proof/tiles.ts';
import { waitForVerify } from './beside_verify.ts';
import { readPage } from './entries.ts';
import { RERUNS_OF } from './reruns.ts';
import { withRetries } from './retries.ts';
import { PERMANENT } from './stream_kinds.ts';
import { type Place, placeOf, readTiles } from './tree.ts';

/** By the clock of the database, which has the times of the events. */
export async function timeBefore(db: Db, age_ms: number): Promise<Date> {
  const [row] = await db<{ at: Date }[]>`
    select runledger.clock() - make_interval(secs => ${age_ms / 1000}::double precision) as at`;
  return row!.at;
}

/** Removes what users sent and received, of submissions that ended before the time. The log stays complete. */
export async function purgePayloads(
  db: Db,
  ended_before: Date,
  operator?: string,
): Promise<number> {
  let submissions = 0;
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const [row] = await db<{ submissions: number; last_id: string }[]>`
      select * from runledger.purge_payloads(${ended_before}, ${after}, operator => ${operator ?? null})`;
    if (row!.submissions === 0) return submissions;
    submissions += row!.submissions;
    after = row!.last_id;
  }
}

/** Deletes the test sets that no submission has used since the time, of one account or of all; returns their ids. */
export async function purgeTestSets(
  db: Db,
  unused_since: Date,
  operator: string | null = null,
  account_id: string | null = null,
): Promise<string[]> {
  const unused = await db<{ id: string }[]>`
    select id from runledger.unused_test_sets(${unused_since}, ${account_id}) id`;
  const deleted: string[] = [];
  for (const { id } of unused) {
    const [row] = await db<{ deleted: boolean }[]>`
      select runledger.purge_test_set(${id}, ${unused_since}, ${operator}) as deleted`;
    if (row!.deleted) deleted.push(id);
  }
  return deleted;
}

/** How many submissions one event names. */
const FORGOTTEN_AT_ONCE = 200;

export type Forgotten = {
  submissions: number;
  /** They have not ended, or a webhook of theirs waits. */
  open: number;
  test_sets: number;
  /** They are in use, or by the database's clock they are of a time to come: it was set back. */
  test_sets_left: number;
  /**
   * What an auditor has to allow: the ids in `forgotten ID` (src/domain/removals.ts). By the log, so what was removed before a
   * call was cut is among them when it is made again.
   */
  ids: string[];
};

/**
 * Removes what one submission and its reruns sent and received; null if there is no such submission.
 *
 * The reruns come last: while the original has its bytes, another one can be made of them.
 */
export async function forgetSubmission(
  db: Db,
  given: string,
  operator: string,
): Promise<Forgotten | null> {
  const [found] = await db<{ id: string }[]>`
    select s.id from runledger.submissions s where s.id = ${given}`;
  if (!found) return null;
  // Events have it in lower case.
  const { id } = found;
  const sum: Forgotten = { submissions: 0, open: 0, test_sets: 0, test_sets_left: 0, ids: [] };
  const add = async (ids: string[]) => {
    const { submissions, open } = await forget(db, ids, null, operator);
    sum.submissions += submissions;
    sum.open += open;
    sum.ids.push(...(await namedForgotten(db, ids)));
  };
  await add([id]);
  const reruns = await db<{ id: string }[]>`
    select r.id from runledger.submissions s
    join runledger.accounts a on a.name = ${RERUNS_OF} || s.account_id
    join runledger.submissions r on r.account_id = a.id
    join runledger.events e on e.stream = r.id and e.version = 1
    where s.id = ${id} and e.facts ->> 'rerun_of' = ${id} order by r.id`;
  for (let at = 0; at < reruns.length; at += FORGOTTEN_AT_ONCE)
    await add(reruns.slice(at, at + FORGOTTEN_AT_ONCE).map((row) => row.id));
  return sum;
}

/** The same of all submissions of an account, and its test sets; null if there is no such account. */
export async function forgetAccount(
  db: Db,
  name: string,
  operator: string,
): Promise<Forgotten | null> {
  const [account] = await db<{ id: string }[]>`
    select id from runledger.accounts where name = ${name}`;
  if (!account) return null;
  const sum: Forgotten = { submissions: 0, open: 0, test_sets: 0, test_sets_left: 0, ids: [] };
  for (const each of [name, RERUNS_OF + account.id]) {
    const { submissions, open } = await forgetAll(db, each, account.id, operator);
    sum.submissions += submissions;
    sum.open += open;
  }
  // That a set is unused since now means: no submission that has not ended needs it.
  const sets = await purgeTestSets(db, await timeBefore(db, 0), operator, account.id);
  sum.test_sets = sets.length;
  const [left] = await db<{ n: number }[]>`
    select count(*)::integer as n from runledger.test_sets where account_id = ${account.id}`;
  sum.test_sets_left = left!.n;
  sum.ids = await forgottenOf(db, account.id);
  return sum;
}

/** Those of the submissions that the log says were forgotten, each by its name. */
async function namedForgotten(db: Db, ids: string[]): Promise<string[]> {
  const rows = await db<{ id: string }[]>`
    select x.id from unnest(${`{${ids}}`}::text::uuid[]) x(id) where exists (
      select from runledger.events e
      where e.stream = runledger.retention_stream() and e.type = 'payloads.forgotten'
        and e.facts -> 'account_id' is null and e.facts -> 'submissions' ? x.id::text)
    order by 1`;
  return rows.map(({ id }) => id);
}

/**
 * The account, if the log says that its submissions were forgotten, and its test sets that an operator deleted. A purge may have
 * deleted some of these, for which an auditor needs no line.
 */
async function forgottenOf(db: Db, account: string): Promise<string[]> {
  const rows = await db<{ id: string }[]>`
    select ${account}::uuid as id where exists (
      select from runledger.events e
      where e.stream = runledger.retention_stream() and e.type = 'payloads.forgotten' and e.facts ->> 'account_id' = ${account})
    union all (
      select e.stream from runledger.events e join runledger.events c on c.stream = e.stream and c.version = 1
      where e.stream >= ${PERMANENT} and e.version = 2 and e.type = 'test_set.deleted' and not e.facts ? 'key_id'
        and c.facts ->> 'account_id' = ${account}
      order by e.stream)`;
  return rows.map(({ id }) => id);
}

/** All submissions of the account of that name, which are removed because `account` asks. */
async function forgetAll(db: Db, name: string, account: string, operator: string) {
  const sum = { submissions: 0, open: 0 };
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const rows = await db<{ id: string }[]>`
      select s.id from runledger.submissions s
      where s.account_id = (select a.id from runledger.accounts a where a.name = ${name})
        and s.id > ${after} and exists (select from runledger.payloads p where p.stream = s.id)
      order by s.id limit ${FORGOTTEN_AT_ONCE}`;
    if (rows.length === 0) return sum;
    const ids = rows.map(({ id }) => id);
    const { submissions, open } = await forget(db, ids, account, operator);
    sum.submissions += submissions;
    sum.open += open;
    after = ids.at(-1)!;
  }
}

async function forget(db: Db, ids: string[], account: string | null, operator: string) {
  const [row] = await db<{ submissions: number; open: number }[]>`
    select * from runledger.forget_payloads(${`{${ids}}`}::text::uuid[], ${account}, ${operator})`;
  return { submissions: row!.submissions, open: row!.open ?? 0 };
}

/** Why the month (YYYY_MM) cannot be detached; null if it can. */
export async function whyNotDetach(db: Db, month: string): Promise<string | null> {
  const [row] = await db<{ reason: string | null }[]>`
    select runledger.why_not_detach(${month}) as reason`;
  return row!.reason;
}

/** Moves a month's partitions to the schema runledger_detached; returns how many events they hold. */
export async function detachMonth(
  db: Db,
  month: string,
  operator?: string,
  say: (line: string) => void = () => {},
  page_events = PAGE_EVENTS,
): Promise<number> {
  const contents = await readMonth(db, month, page_events);
  const facts = { ...contents.facts, ...(operator !== undefined && { operator }) };
  await withRetries(ATTEMPTS, async () => {
    await waitForVerify(db, say);
    await db`select runledger.detach_month(${month}, ${detachArguments(db, { ...contents, facts })})`;
  });
  return contents.facts.events;
}

/** What a detachment says of a month: of its events, and where they are in the tree. */
type MonthContents = {
  readonly facts: {
    events: number;
    sketch: string;
    leaves_sketch: string;
    leaves_sha256: string;
    operator?: string;
  };
  readonly firsts: readonly number[];
  readonly counts: readonly number[];
};

const detachArguments = (db: Db, { facts, firsts, counts }: MonthContents) => db`
  ${JSON.stringify(facts)}::text::jsonb, ${`{${firsts}}`}::text::bigint[], ${`{${counts}}`}::text::bigint[]`;

/**
 * So many events are read in one statement. Their leaves are looked up in the tree after it, because the connection may be the
 * only one; and sealing can use it between two of them. The events are not kept: one may have a megabyte of facts.
 */
const PAGE_EVENTS = 10_000;

async function readMonth(db: Db, month: string, page_events = PAGE_EVENTS): Promise<MonthContents> {
  const [sketch, leaves_sketch] = [emptySketch(), emptySketch()];
  const leaves = createHash('sha256');
  const runs = new Runs(db);
  let events = 0;
  let first: Place | null = null;
  let last: Place | null = null;
  for (let full = true; full; ) {
    const page: Buffer[] = [];
    for await (const entries of readPage(db, month, last, page_events)) {
      for (const entry of entries) {
        const event = parseEntry(entry);
        const leaf = leafHash(entry);
        page.push(leaf);
        leaves.update(leaf);
        addItems(leaves_sketch, itemBytes(event.stream, event.version, leaf));
        addItems(sketch, itemBytes(event.stream, event.version, leafOf(event)));
      }
      first ??= placeOf(entries[0]!);
      last = placeOf(entries.at(-1)!);
    }
    for (const leaf of page) await runs.add(leaf, first!);
    events += page.length;
    full = page.length === page_events;
  }
  const facts = {
    events,
    sketch: sketch.toString('base64'),
    leaves_sketch: leaves_sketch.toString('base64'),
    leaves_sha256: leaves.digest('hex'),
  };
  return { facts, firsts: runs.firsts, counts: runs.counts };
}

export type RetentionSchedule = {
  readonly keep_bytes_ms: number | null;
  readonly keep_events_ms: number | null;
};

/** As the owner alone can. */
export async function setRetention(
  db: Db,
  schedule: RetentionSchedule,
  operator: string,
): Promise<void> {
  const [bytes, events] = [schedule.keep_bytes_ms, schedule.keep_events_ms].map((ms) =>
    ms === null ? null : `${ms} milliseconds`,
  );
  await db`select runledger.set_retention(${bytes!}::text::interval, ${events!}::text::interval, ${operator})`;
}

export type RetentionFacts = {
  /** Something is to be removed at some time. */
  scheduled: boolean;
  keep_bytes_s: number | null;
  keep_events_s: number | null;
  /** How long ago the last round ended. */
  ended_s: number | null;
  /** Age of the oldest submission of which there are bytes. */
  oldest_bytes_s: number | null;
  /** Why something is there that is due. */
  problem: string | null;
};

export async function retentionFacts(db: Db): Promise<RetentionFacts> {
  const [row] = await db<RetentionFacts[]>`select * from runledger.retention_facts()`;
  return row!;
}

/** A round of scheduled retention (sql/functions/scheduled_retention.sql). */
export type RetentionRound = {
  /** Null: bytes are kept for ever. */
  readonly ended_before: Date | null;
  readonly after: string;
  readonly upto: string;
  readonly problem: string | null;
};

/** Null: no round is due, or another process has it. */
export async function beginRetention(db: Db): Promise<RetentionRound | null> {
  const [row] = await db<RetentionRound[]>`select * from runledger.begin_retention()`;
  return row ?? null;
}

export const endRetention = (db: Db, problem: string | null) =>
  db`select runledger.end_retention(${problem})`;

/** How many submissions one step purges: it holds their rows, which a late report waits for. */
const STEP_SUBMISSIONS = 500;

/** The next step; returns the id after which the following one begins, or null if there was nothing left. */
export async function purgeDue(
  db: Db,
  { ended_before, upto }: RetentionRound,
  after: string,
): Promise<string | null> {
  const [row] = await db<{ submissions: number; last_id: string }[]>`
    select * from runledger.purge_due(${ended_before}, ${after}, ${upto}, ${STEP_SUBMISSIONS})`;
  return row!.submissions === 0 ? null : row!.last_id;
}

/** The next month that the schedule does not keep, and why it cannot be detached now; null if there is none. */
export async function monthDue(db: Db): Promise<{ month: string; reason: string | null } | null> {
  const [row] = await db<{ month: string | null; reason: string | null }[]>`
    select * from runledger.month_due()`;
  return row!.month === null ? null : { month: row!.month, reason: row!.reason };
}

export async function detachDue(db: Db, month: string): Promise<void> {
  const contents = await readMonth(db, month);
  await withRetries(
    DUE_ATTEMPTS,
    () => db`select runledger.detach_due(${month}, ${detachArguments(db, contents)})`,
  );
}

/** Drops the tables of a month whose detachment is sealed; null if there is none. */
export async function dropDue(db: Db): Promise<string | null> {
  const [row] = await db<{ month: string | null }[]>`select runledger.drop_due() as month`;
  return row!.month;
}

/** How many tiles are read at once. */
const TILES_AHEAD = 64;

/** Finds the indexes of leaves that come in feed order, by going through the tiles in the same order. */
class Runs {
  readonly firsts: number[] = [];
  readonly counts: number[] = [];
  readonly #db: Db;
  #hashes: Buffer = Buffer.alloc(0);
  /** The index of the first of #hashes, and of the one to look at next. */
  #from = 0;
  #next = 0;

  constructor(db: Db) {
    this.#db = db;
  }

  /** `first`: the place of the first of them. */
  async add(leaf: Buffer, first: Place): Promise<void> {
    if (this.firsts.length === 0) await this.#begin(first);
    const index = await this.#indexOf(leaf);
    const end = (this.firsts.at(-1) ?? 0) + (this.counts.at(-1) ?? -1);
    if (index === end) this.counts[this.counts.length - 1]!++;
    else {
      this.firsts.push(index);
      this.counts.push(1);
    }
  }

  async #begin({ generation, xid, seq }: Place): Promise<void> {
    const [row] = await this.#db<{ index: string }[]>`
      select index from runledger.leaf_tile(${generation}::smallint, ${xid}::text::xid8, ${seq}::text::bigint)`;
    this.#from = Number(row?.index ?? 0) * TILE_WIDTH;
    this.#next = this.#from;
  }

  async #indexOf(leaf: Buffer): Promise<number> {
    for (;;) {
      for (
        let at = (this.#next - this.#from) * HASH_BYTES;
        at < this.#hashes.length;
        at += HASH_BYTES
      ) {
        const index = this.#next++;
        if (leaf.equals(this.#hashes.subarray(at, at + HASH_BYTES))) return index;
      }
      await this.#readAhead();
    }
  }

  async #readAhead(): Promise<void> {
    const first = this.#next / TILE_WIDTH;
    if (!Number.isInteger(first)) throw unsealed();
    const names = Array.from({ length: TILES_AHEAD }, (_, n) => ({ level: 0, index: first + n }));
    const tiles = (await readTiles(this.#db, names)).toSorted((a, b) => a.index - b.index);
    if (tiles[0]?.index !== first) throw unsealed();
    this.#from = this.#next;
    this.#hashes = Buffer.concat(tiles.map(({ hashes }) => hashes));
  }
}

const unsealed = () =>
  new DamagedTree(
    'an event of that month is not in the tree as the log has it: run ./runledger verify',
  );

const ATTEMPTS = 60;
/** The next round tries again. */
const DUE_ATTEMPTS = 4;
