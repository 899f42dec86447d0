/**
 * Reruns: stored submissions that are run again. A rerun is a submission of its own, whose first event names the original
 * (`rerun_of`) and who asked for it. Nothing of the original changes.
 *
 * It belongs to an account of its own for each account, whose key has a secret that nobody has. So it is in no list, uses no
 * quota and no rate of the account, and shares no compiler, interpreter or cached program with other accounts.
 */
import { randomBytes } from 'node:crypto';
import type { Db } from '../db.ts';
import type { FactsOf } from '../domain/events.ts';
import { newId } from '../domain/ids.ts';
import type { Measured } from '../domain/rerun_changes.ts';
import { hasEnded, type Status } from '../domain/statuses.ts';
import { packRequest, unpackRequest } from '../judging/packed_request.ts';
import { createCancel } from './cancel.ts';
import { createKey, setTier } from './keys.ts';
import type { NewSubmission, SubmitCommand } from './submissions.ts';

/** Without limits: the command decides how many run. */
const TIER = 'reruns';
const PREFIX = 'rerun';
/** The name of such an account is this, and the id of the account whose submissions are run again. */
export const RERUNS_OF = 'reruns of ';

export type RerunFilter = {
  readonly from: Date | null;
  readonly to: Date | null;
  readonly account: string | null;
  readonly language: string | null;
  readonly verdict: string | null;
  /** Only those that were judged by it, also if it was deleted since. */
  readonly test_set: string | null;
  readonly limit: number;
};

export type Original = Measured & {
  readonly id: string;
  readonly account: string;
  readonly account_id: string;
  readonly language: string;
  readonly created_at: Date;
  readonly test_set: string | null;
  /** Why it cannot be run again; null if it can. */
  readonly missing: string | null;
};

/** The newest submissions that fit and have a verdict. `by_set`: the test set that judges them now; null: their own. */
export async function findOriginals(
  db: Db,
  filter: RerunFilter,
  by_set: string | null = null,
): Promise<Original[]> {
  const { from, to, account, language, verdict, test_set, limit } = filter;
  const rows = await db<(MeasuredRow & Omit<Original, keyof Measured>)[]>`
    select s.id, a.name as account, s.account_id, s.language, s.created_at, s.test_set, ${measures(db)},
      case
        when not exists (select from runledger.payloads p where p.stream = s.id and p.kind = 'code') then 'its bytes were removed'
        when ${by_set}::uuid is null and s.test_set is not null
          and not exists (select from runledger.test_sets t where t.id = s.test_set) then 'its test set was deleted'
        when ${by_set}::uuid is not null
          and not exists (select from runledger.test_sets t where t.id = ${by_set} and t.account_id = s.account_id)
          then 'its account does not have the new test set'
        when not exists (select from runledger.alive_languages() l where l.language = s.language)
          then 'no worker that is alive runs ' || s.language
      end as missing
    from runledger.submissions s join runledger.accounts a on a.id = s.account_id
    where s.status in ('completed', 'error') and not starts_with(a.name, ${RERUNS_OF})
      and (${from}::timestamptz is null or s.created_at >= ${from})
      and (${to}::timestamptz is null or s.created_at < ${to})
      and (${account}::text is null or a.name = ${account})
      and (${language}::text is null or s.language = ${language})
      and (${verdict}::text is null or s.verdict = ${verdict})
      and (${test_set}::uuid is null or s.test_set = ${test_set})
    order by s.id desc limit ${limit}`;
  return rows.map((row) => ({ ...row, ...measuredOf(row) }));
}

type MeasuredRow = {
  status: Status;
  verdict: string | null;
  score: number | null;
  exit_code: number | null;
  stdout_sha256: string | null;
  tests: { verdict: string }[] | null;
  cpu_time_us: string | null;
  memory_peak_bytes: string | null;
};

/** Of a row `s`. */
const measures = (db: Db) => db`
  s.status, s.verdict, s.score, s.exit_code, s.tests, s.cpu_time_us, s.memory_peak_bytes, (
    select encode(sha256(p.bytes), 'hex') from runledger.payloads p
    where p.stream = s.id and p.kind = 'stdout' and length(p.bytes) > 0) as stdout_sha256`;

const numberOf = (value: string | null) => (value === null ? null : Number(value));

const measuredOf = (row: MeasuredRow): Measured => ({
  verdict: row.verdict,
  score: row.score,
  exit_code: row.exit_code,
  stdout_sha256: row.stdout_sha256,
  tests: row.tests?.map(({ verdict }) => verdict) ?? null,
  cpu_time_us: numberOf(row.cpu_time_us),
  memory_peak_bytes: numberOf(row.memory_peak_bytes),
});

/** measured: null while it has not ended. */
export async function readRerun(
  db: Db,
  id: string,
): Promise<{ status: Status; measured: Measured | null }> {
  const [row] = await db<MeasuredRow[]>`
    select ${measures(db)} from runledger.submissions s where s.id = ${id}`;
  const { status } = row!;
  return { status, measured: hasEnded(status) ? measuredOf(row!) : null };
}

/**
 * A rerun that waits, whose checker is in a language that no living worker has beside its own: it is cancelled, and this says
 * why. Null: it may run yet. Which languages it needs shows when a worker has given it back.
 */
export async function cancelHopeless(db: Db, id: string): Promise<string | null> {
  const [row] = await db<{ pair: string; account_id: string; key_id: string }[]>`
    select replace(x.task, runledger.execution_task(''), '') as pair, s.account_id, s.key_id from (
      select t.identifier as task from graphile_worker._private_tasks t
      join graphile_worker._private_jobs j on j.task_id = t.id and (j.payload ->> 'id')::uuid = ${id}
      where runledger.is_execution(t.identifier) and strpos(t.identifier, '/') > 0
      union all
      select runledger.execution_task(g.aside) from runledger.gated g where g.submission_id = ${id} and strpos(g.aside, '/') > 0
    ) x join runledger.submissions s on s.id = ${id}
    where not runledger.has_worker(x.task)`;
  if (!row) return null;
  const request = { request_id: `rerun-${id}`, traceparent: null };
  const outcome = await createCancel(db)(row, id, request);
  if (outcome !== 'cancelled') return null;
  return `no worker that is alive runs both ${row.pair.replace('/', ' and ')}`;
}

/**
 * What has to end before one more rerun may begin; null: nothing.
 *
 * A submission waits for a worker if it has a job that a living one takes now, also after a loss. One that waits for the limit of
 * its key, for a worker that is not alive, or for its time because no worker had room, is not delayed by a rerun, nor is a rerun
 * that waits so. The running reruns are counted by their keys: also those of a command that runs beside this one, or was stopped.
 */
export async function findObstacle(db: Db, at_once: number): Promise<string | null> {
  const [row] = await db<{ some_wait: boolean; reruns: string }[]>`
    select exists (
      select from graphile_worker._private_jobs j where j.task_id = any (array(
        select t.id from graphile_worker._private_tasks t where runledger.is_execution(t.identifier) and runledger.has_worker(t.identifier)
      )) and j.run_at <= now() and (select s.status from runledger.submissions s where s.id = (j.payload ->> 'id')::uuid) = 'pending'
    ) as some_wait, (
      select count(*) from runledger.leases l join runledger.submissions s on s.id = l.submission_id
      join runledger.keys k on k.id = s.key_id where k.tier = ${TIER}
    ) as reruns`;
  if (row!.some_wait) return 'waiting until no submission waits for a worker';
  return Number(row!.reruns) < at_once
    ? null
    : 'waiting until reruns of another command have ended';
}

/** The digest of the key for reruns of an account's submissions, which is made at first. */
export async function rerunKey(db: Db, account_id: string, operator: string): Promise<Uint8Array> {
  const account = RERUNS_OF + account_id;
  const known = () => db<{ digest: Uint8Array }[]>`
    select x.digest from runledger.accounts a
    join runledger.keys k on k.account_id = a.id and k.revoked_at is null and k.tier = ${TIER}
    join runledger.key_secrets x on x.key_id = k.id and x.expires_at is null
    where a.name = ${account} order by k.created_at limit 1`;
  const [found] = await known();
  if (found) return found.digest;
  const [tier] = await db`select from runledger.tiers where name = ${TIER}`;
  if (!tier) await setTier(db, { name: TIER, per_minute: 0, concurrent: 0, operator });
  // Of no secret: it has the length of a digest, and nobody knows what it could be the digest of.
  const secret_digest = randomBytes(32);
  await createKey(db, { account, tier: TIER, prefix: PREFIX, secret_digest, operator });
  return secret_digest;
}

type Accepted = FactsOf<'submission.accepted'>;

/** The request of the original once more, with `by_set` in place of its test set; null if its bytes, or its month, were removed since. */
export async function rerunOf(
  db: Db,
  original: string,
  secret_digest: Uint8Array,
  operator: string,
  by_set: string | null = null,
): Promise<SubmitCommand | null> {
  const [row] = await db<{ facts: Accepted; kinds: string[] | null; parts: Uint8Array[] | null }[]>`
    select e.facts, array(select p.kind from runledger.payloads p where p.stream = e.stream order by p.kind) as kinds,
      array(select p.bytes from runledger.payloads p where p.stream = e.stream order by p.kind) as parts
    from runledger.log e where e.stream = ${original} and e.version = 1`;
  const bytes = new Map(row?.kinds?.map((kind, n) => [kind, row.parts![n]!]));
  const code = bytes.get('code');
  if (!row || !code) return null;
  const { facts } = row;
  const packed = bytes.get('judging');
  const args = bytes.get('args');
  const submission: NewSubmission = {
    id: newId(),
    language: facts.language,
    code,
    stdin: bytes.get('stdin') ?? new Uint8Array(),
    args: args ? JSON.parse(Buffer.from(args).toString()) : [],
    expected_output: bytes.get('expected_output') ?? null,
    compare: facts.compare as NewSubmission['compare'],
    limits: facts.limits as NewSubmission['limits'],
    judging: packed
      ? {
          tests: facts.tests ?? null,
          test_set: by_set ?? facts.test_set ?? null,
          stop: facts.stop ?? null,
          packed: by_set === null ? packed : packedWith(packed, by_set),
        }
      : null,
    webhook: null,
    idempotency_key: null,
    request_digest: null,
    request_id: null,
    traceparent: null,
    rerun: { of: original, operator },
  };
  return { secret_digest, submission };
}

const packedWith = (packed: Uint8Array, test_set: string): Uint8Array =>
  packRequest({ ...unpackRequest(packed), test_set })!;

export async function hasAccount(db: Db, name: string): Promise<boolean> {
  const rows = await db`select from runledger.accounts where name = ${name}`;
  return rows.length > 0;
}

/** Whether any account has it. */
export async function hasTestSet(db: Db, id: string): Promise<boolean> {
  const rows = await db`select from runledger.test_sets where id = ${id}`;
  return rows.length > 0;
}
