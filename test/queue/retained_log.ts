/** A log whose time a test sets, and the chore that removes what its schedule does not keep. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLog } from '../../src/log.ts';
import { retaining } from '../../src/queue/retention_chore.ts';
import { exportLog } from '../../src/store/export_log.ts';
import { retentionFacts } from '../../src/store/retention.ts';
import { verify } from '../../src/store/verify.ts';
import { verifyFile } from '../../src/store/verify_file.ts';
import { besides, LOG_VERIFIER } from '../store/verified.ts';
import { idOf, newId, outcome, start, submission, world } from '../store/world.ts';

export const DAY_MS = 86_400_000;
/** In January of the next year, so that its month is over some time after the month of today. */
const YEAR = new Date().getUTCFullYear() + 1;
export const START_MS = Date.UTC(YEAR, 0, 5, 12);
export const START_MONTH = `${YEAR}_01`;
export const log = createLog({ level: 'silent', process: 'test' });

/** `runOne` runs a submission at the time of the clock. */
export async function retainedLog(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const folder = await mkdtemp(join(tmpdir(), 'runledger-log-'));
  t.teardown(() => rm(folder, { recursive: true }));
  let now_ms = START_MS;
  const goTo = async (at_ms: number) => {
    now_ms = at_ms;
    await w.clock.set(new Date(at_ms));
    await w.db`select runledger.ensure_partitions()`;
  };
  await goTo(START_MS);
  const runOne = async (ahead_ms = 0) => {
    const code = randomBytes(8_000);
    const given = submission({ id: newId(now_ms + ahead_ms), code });
    const id = idOf(await submit({ secret_digest: digest, submission: given }));
    await start(executions, id);
    const stdout = randomBytes(8_000);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome({ stdout }) });
    return id;
  };
  const chore = retaining(async () => null, log);
  const round = async () => {
    await chore.run(w.web, new AbortController().signal);
    return (await retentionFacts(w.web)).problem;
  };
  /** For verify nothing is still to come. */
  const atThatTime = async <T>(work: () => Promise<T>): Promise<T> => {
    const { now } = Date;
    Date.now = () => now_ms;
    try {
      return await work();
    } finally {
      Date.now = now;
    }
  };
  const problems = async () =>
    besides((await atThatTime(() => verify(w.db))).problems).filter((line) => !MORE.test(line));
  /** Of the log alone, without the schema, bytes and projections. */
  const logProblems = async () => {
    const path = join(folder, String(now_ms));
    await exportLog(w.db, path);
    const given = { policy: null, keys: [LOG_VERIFIER], removals: null, kept: null };
    const { problems } = await atThatTime(() => verifyFile(path, given));
    await rm(path);
    return besides(problems);
  };
  const count = async (table: string) => {
    const [row] = await w.db.unsafe(
      `select count(*)::integer as n from runledger.${table} where ${table === 'submissions' ? 'id' : 'stream'} < 'f0000000-0000-0000-0000-000000000000'`,
    );
    return row!['n'] as number;
  };
  return { w, goTo, runOne, round, problems, logProblems, count };
}

/** Checkpoints have the real time, so each is a problem that `besides` leaves out; verify prints a hundred. */
const MORE = /^checkpoints: and \d+ more$/;

export const days = (n: number) => n * DAY_MS;
export const keep = (bytes: number | null, events: number | null) => ({
  keep_bytes_ms: bytes === null ? null : days(bytes),
  keep_events_ms: events === null ? null : days(events),
});
