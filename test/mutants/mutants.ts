/**
 * The mutants: small faults in the code that a test must notice. To add one, append a row. `find` must occur exactly once
 * in `file`, so pick a piece of code and not of a comment. `tests` are the files that must fail.
 */
export type Mutant = {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly tests: readonly string[];
  /** What the change would break for a user or an operator. */
  readonly why: string;
};

const row = (
  why: string,
  file: string,
  find: string,
  replace: string,
  ...tests: string[]
): Mutant => ({
  ...{ why, file, find, replace },
  tests,
});

export const mutants: readonly Mutant[] = [
  // Rules and defaults
  row(
    'a submission ends after 20 lost executions',
    'src/domain/state.ts',
    'ATTEMPTS_ALLOWED = 20',
    'ATTEMPTS_ALLOWED = 21',
    'test/domain/state.test.ts',
  ),
  row(
    'a submission ends after 3 deaths',
    'src/domain/state.ts',
    'DEATHS_ALLOWED = 3',
    'DEATHS_ALLOWED = 4',
    'test/domain/state.test.ts',
  ),
  row(
    'SQL ends a submission after 20 silent workers',
    'sql/functions/release_many.sql',
    'silences_allowed constant integer := 20',
    'silences_allowed constant integer := 21',
    'test/queue/lease.test.ts',
  ),
  row(
    'SQL ends a submission after 3 deaths',
    'sql/functions/release_many.sql',
    'deaths_allowed constant integer := 3',
    'deaths_allowed constant integer := 4',
    'test/queue/lease.test.ts',
  ),
  row(
    'the default CPU limit is 5 s',
    'src/config/executor_variables.ts',
    "default: '5s'",
    "default: '6s'",
    'test/config/config.test.ts',
    'test/domain/limits.test.ts',
  ),
  row(
    'the default memory limit is 256 MiB',
    'src/config/executor_variables.ts',
    "default: '256MiB'",
    "default: '128MiB'",
    'test/config/config.test.ts',
    'test/domain/limits.test.ts',
  ),
  row(
    'the webhook schedule has the nine waits of the contract',
    'src/config/variables.ts',
    '5s,5min,30min,2h,5h,10h,14h,20h,24h',
    '5s,5min,30min,2h,5h,10h,14h,20h',
    'test/config/config.test.ts',
    'test/webhooks/backoff.test.ts',
  ),
  row(
    'at most half of the queue is one account’s',
    'sql/functions/submit_many.sql',
    'greatest(capacity / 2, 1)',
    'capacity',
    'test/store/submissions.test.ts',
  ),
  row(
    'the bound of the queue is exact',
    'sql/functions/submit_many.sql',
    'waiting >= capacity or',
    'waiting > capacity or',
    'test/store/submissions.test.ts',
  ),
  row(
    'the rate is exact',
    'sql/functions/spend_rate.sql',
    'allowed := used < per_minute',
    'allowed := used <= per_minute',
    'test/store/submissions.test.ts',
    'test/store/keys.test.ts',
  ),

  // Queue
  row(
    'a job that is in flight is not started twice',
    'src/queue/hand.ts',
    'if (held.has(job_id)) throw',
    'if (held.has(job_id)) void',
    'test/queue/lost_answer.test.ts',
    'test/queue/ahead.test.ts',
  ),
  row(
    'a job that is being put back does not count as known',
    'src/queue/hand.ts',
    '.filter(([, { returning }]) => !returning)',
    '',
    'test/queue/lost_answer.test.ts',
    'test/queue/ahead.test.ts',
  ),
  row(
    'a submission that must run alone is not overtaken in the line for slots',
    'src/queue/slots.ts',
    '!next.alone && !one.alone && next.turn < one.turn',
    'next.turn < one.turn',
    'test/queue/slots.test.ts',
  ),
  row(
    'jobs are prefetched several at a time',
    'src/queue/slots.ts',
    'return inside >= count && room < most / 2 ? 0 : Math.max(room, 0);',
    'return Math.max(room, 0);',
    'test/queue/slots.test.ts',
  ),

  // Store
  row(
    'a batch is not larger than the database accepts',
    'src/store/batch.ts',
    'queue.slice(0, options.max_items)',
    'queue',
    'test/store/batch.test.ts',
  ),
  row(
    'one bad item does not fail the others of its batch',
    'src/store/batch.ts',
    'batch.length === 1 || options.isAway(error)',
    'batch.length > 0',
    'test/store/batch.test.ts',
  ),
  row(
    'a waiting request times out',
    'src/store/waiters.ts',
    'if (waiter.until_ms <= now) waiter.settle(null);',
    'void waiter;',
    'test/store/waiters.test.ts',
  ),
  row(
    'a client that hangs up frees its waiter',
    'src/store/waiters.ts',
    "signal?.addEventListener('abort', giveUp, { once: true });",
    '',
    'test/store/waiters.test.ts',
  ),

  // HTTP
  row(
    'a key over its rate is not rejected after its reset',
    'src/http/spent_keys.ts',
    'if (left_s <= 1) {',
    'if (left_s <= 0) {',
    'test/http/spent_keys.test.ts',
  ),
  row(
    'two X-API-Key headers are ambiguous and rejected',
    'src/http/header_values.ts',
    "  'x-api-key',\n",
    '',
    'test/http/header_values.test.ts',
    'test/http/connections.test.ts',
  ),
  row(
    'an invalid traceparent is ignored',
    'src/http/header_values.ts',
    "version === undefined || version === 'ff'",
    'version === undefined',
    'test/http/header_values.test.ts',
  ),
  row(
    'every unknown field is named, those of limits, too',
    'src/http/parse_submission.ts',
    "...namesOutside(knownLimits, (value as { limits?: unknown } | null)?.limits, 'limits'),",
    '',
    'test/http/parse_submission.test.ts',
  ),
  row(
    'two requests with different boundaries have different digests',
    'src/http/parse_submission.ts',
    'mac.update(part === null ?',
    "mac.update(part !== null ? '' :",
    'test/http/parse_submission.test.ts',
  ),

  // Verdicts and results
  row(
    'the wall limit is TLE',
    'src/domain/verdict.ts',
    "run.killed_for === 'cpu' || run.killed_for === 'wall'",
    "run.killed_for === 'cpu'",
    'test/domain/verdict.test.ts',
  ),
  row(
    'a run that uses exactly its CPU limit is within it',
    'src/domain/verdict.ts',
    'run.cpu_us > limits.cpu_ms * 1_000',
    'run.cpu_us >= limits.cpu_ms * 1_000',
    'test/domain/verdict.test.ts',
  ),
  row(
    'a single kill by the kernel for memory is MLE',
    'src/domain/verdict.ts',
    'run.oom_kills > 0',
    'run.oom_kills > 1',
    'test/domain/verdict.test.ts',
  ),
  row(
    'words on stderr are no MLE when the program exits with 0',
    'src/domain/verdict.ts',
    'if (run.killed_for !== null || run.exit_code === 0) return false;',
    'if (run.killed_for !== null) return false;',
    'test/domain/verdict.test.ts',
  ),
  row(
    'nothing of a lost attempt is shown before the end',
    'src/domain/record.ts',
    '(ended ? value : null)',
    'value',
    'test/domain/record.test.ts',
  ),

  // Secrets
  row(
    'a mistyped key is rejected without asking the database',
    'src/access/secret.ts',
    'return checksum(presented.slice(0, -CHECK_LENGTH)) === presented.slice(-CHECK_LENGTH);',
    'return true;',
    'test/access/secret.test.ts',
  ),
  row(
    'a webhook secret signs as it was written, too',
    'src/webhooks/sign.ts',
    '[written, decoded]',
    '[decoded]',
    'test/webhooks/sign.test.ts',
  ),
  row(
    'a worker gets no key of the service',
    'src/environment.ts',
    "worker: ['DATABASE_URL', ",
    "worker: ['DATABASE_URL', 'RUNLEDGER_SEAL_KEY', ",
    'test/environment.test.ts',
  ),
];
