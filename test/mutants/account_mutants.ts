/** Mutants of the calls for an account's submissions: cancel one, list them, submit many. */
import { inFile, type Mutant } from './mutant.ts';

const contract = (rule: string) => `test/http/contract.test.ts ${rule}`;

export const accountMutants: readonly Mutant[] = [
  ...inFile(
    'sql/functions/cancel.sql',
    contract('cancel: '),
    [
      'another account cannot cancel it',
      'where s.id = cancel_submission.id and s.account_id = cancel_submission.account_id for update;',
      'where s.id = cancel_submission.id for update;',
    ],
    [
      'to cancel it again is no error',
      "case before.status when 'cancelled' then 'was_cancelled' else 'already_ended' end",
      "'already_ended'",
    ],
    ['what has ended is not cancelled', "else 'already_ended' end", "else 'cancelled' end"],
    [
      'its job is removed',
      'perform graphile_worker.complete_jobs(lock_jobs(jobs)) where jobs is not null;',
      '',
    ],
    ['waiting calls are notified', "  perform pg_notify('runledger_done', before.id::text);\n", ''],
    ['the key is recorded', "'key_id', key_id)", "'key_id', before.account_id)"],
  ),
  ...inFile(
    'src/client/client.ts',
    'test/client/client.test.ts',
    [
      'what may be accepted was not rejected',
      'error instanceof ApiError && !error.may_be_done;',
      'error instanceof ApiError;',
    ],
    [
      'a lost answer is remembered',
      'failed(problem, may_be_done || this_may_be_done)',
      'failed(problem, this_may_be_done)',
    ],
    ['a piece begins the time limit again', 'limit.refresh();', ''],
    [
      'run with onAccepted does not wait for the end',
      'const { body } = onAccepted',
      'const { body } = onAccepted === null',
    ],
  ),
  ...inFile(
    'src/client/client.ts',
    'test/client/client.test.ts',
    [
      'an item of a batch has a key from its first try on',
      'idempotency_key: one.idempotency_key ?? randomUUID(),',
      "idempotency_key: one.idempotency_key ?? '',",
    ],
    [
      'a submission outlasts an outage',
      'const submitsOutlast = ({ attempts }: ClientOptions) => attempts === undefined;',
      'const submitsOutlast = ({ attempts }: ClientOptions) => attempts === 0;',
    ],
    [
      'a handshake that is cut is not a request that was sent',
      'if (isObject(error)) unconnected.add(error);',
      'if (isObject(error)) unconnected.delete(error);',
    ],
    [
      'an error has the key of its submission',
      'outcome.error.idempotency_key = given.idempotency_key ?? null;',
      'outcome.error.idempotency_key = null;',
    ],
  ),
  ...inFile('src/queue/epoch.ts', 'test/queue/epoch.test.ts', [
    'a hint alone ends nothing',
    'runs.cancel(await cancelledOf(listening.db, running))',
    'runs.cancel(running)',
  ]),
  ...inFile(
    'sql/functions/live_output.sql',
    'test/http/event_streams.test.ts',
    [
      'only the worker with the lease shows output',
      'l.attempt = x.attempt and l.consumer_id = consumer',
      'l.attempt = x.attempt',
    ],
    ['a worker is asked only for what it runs', ' and l.consumer_id = consumer\n$$', '\n$$'],
  ),
  ...inFile(
    'src/http/api/event_streams.ts',
    'test/http/event_streams.test.ts',
    ['a stream that is opened while the process stops ends', 'if (closed) end(res);', ''],
    ['a stream whose end is not read is cut', '() => res.destroy()', '() => {}'],
    [
      'a key that the database did not answer about is asked about again',
      'await pause(retry_ms, undefined, { ref: false });',
      'return true;',
    ],
    ['keys are checked now and then', 'checking ??= setInterval(checkKeys, every_ms).unref();', ''],
    [
      'the output that a key gets is bounded',
      'return of_key.bytes + costOf(piece) <= OUTPUT_BYTES_PER_KEY;',
      'return true;',
    ],
    [
      'output is written down once for all streams',
      'messages.get(piece) ?? outputMessage(piece)',
      'outputMessage(piece)',
    ],
    [
      'output is not written down for streams that do not get it',
      '        if (!hasRoom(of_key, piece)) return;\n        const message = messageOf(piece);',
      '        const message = messageOf(piece);\n        if (!hasRoom(of_key, piece)) return;',
    ],
  ),
  ...inFile(
    'src/queue/show_output.ts',
    'test/queue/show_output.test.ts',
    ['a run shows a bounded number of bytes', 'Math.min(RUN_BYTES, left)', 'left'],
    ['runs take turns', 'outputs[turn++ %', 'outputs[n %'],
  ),
  ...inFile('src/executor/judged_execution.ts', 'test/executor/judged_execution.test.ts', [
    'the output of tests is not shown while they run',
    'judging.tests === null ? watchers.onRun : undefined',
    'watchers.onRun',
  ]),
  ...inFile('src/queue/execute_task.ts', 'test/queue/execute_task.test.ts', [
    'one that runs alone at a time',
    'if (alone && options.slots.hasAlone())',
    'if (false)',
  ]),
  ...inFile('src/queue/execute_task.ts', 'test/queue/execute_task.test.ts', [
    'a cancelled run is not released as a failure',
    "if (one.isCancelled()) return logOf(options, started).debug('cancelled');",
    '',
  ]),
  ...inFile(
    'sql/functions/list_submissions.sql',
    contract('list: '),
    ['another account sees nothing', 'x.account_id = list_submissions.account_id', 'true'],
    [
      'pages do not repeat what has the same time',
      ' and (x.created_at, x.id) < (after_time, after_id)',
      ' and (x.created_at, x.id) <= (after_time, after_id)',
    ],
    [
      'pages leave out nothing that has the same time',
      'x.created_at <= after_time and',
      'x.created_at < after_time and',
    ],
    ['the end is not in the time', 'x.created_at < before_time', 'x.created_at <= before_time'],
    ['a page looks at a bounded number', ' or seen = most then', ' then'],
  ),
  ...inFile('sql/functions/list_submissions.sql', contract('test sets: what a set judged'), [
    'what another test set judged is left out',
    's.test_set = wanted_set)',
    'true)',
  ]),
  ...inFile('sql/functions/list_submissions.sql', contract('ids: what the account does not have'), [
    'an id of another account is left out',
    ' and s.account_id = who.account_id',
    '',
  ]),
  ...inFile('sql/functions/list_submissions.sql', contract('ids: the summaries'), [
    'the order is that of the ids',
    'order by array_position(read_submissions.ids, s.id)',
    'order by s.id',
  ]),
  ...inFile('sql/functions/list_submissions.sql', contract('one submission: the summary'), [
    'no webhook has no delivery',
    'case when s.has_webhook then delivery_shown(s.id) end',
    'delivery_shown(s.id)',
  ]),
  ...inFile('src/http/api/named_submissions.ts', contract('ids: a batch of 100'), [
    '101 ids are too many',
    'texts.length > IDS_LIMIT',
    'texts.length > 2 * IDS_LIMIT',
  ]),
  ...inFile('src/http/api/named_submissions.ts', contract('ids: they combine'), [
    'ids combine with no filter',
    'if (query.has(name))',
    "if (name === '')",
  ]),
  ...inFile('src/http/api/named_submissions.ts', contract('ids: when the time is over'), [
    'states are as they are at the end of the wait',
    'await web.lists.summaries(caller.account_id, open)',
    'await Promise.resolve(rows)',
  ]),
  ...inFile('src/domain/delivery_outcomes.ts', contract('one submission: it does not say'), [
    'a blocked address is not shown',
    "outcome === 'blocked_address' ? 'dns_failed' : outcome",
    '(outcome as (typeof SHOWN_OUTCOMES)[number])',
  ]),
  ...inFile(
    'src/http/wire/json_items.ts',
    'test/http/json_items.test.ts',
    ['a comma in a string ends no item', 'else if (byte === QUOTE) in_string = true;', ''],
    ['an escaped quote ends no string', 'if (byte === BACKSLASH) at += 1;\n      else if', 'if'],
    ['nothing follows the array', 'afterSpace(body, at) === body.length', 'true'],
  ),
  ...inFile(
    'src/http/api/read_batch.ts',
    contract('batch: '),
    [
      'an item has its errors as if alone',
      '{ errors: parsed.errors }',
      '{ errors: parsed.errors.slice(0, 10) }',
    ],
    [
      'the errors of a batch are bounded',
      'Math.max(1, BATCH_ERRORS_SHOWN - named)',
      'BATCH_ERRORS_SHOWN',
    ],
    [
      'an item is as large as a submission alone at most',
      'if (bytes.length > BODY_LIMIT_BYTES)',
      'if (bytes.length < 0)',
    ],
    [
      'the header is not silently ignored',
      "if (req.headers['idempotency-key'] !== undefined)",
      'if (req.headers.host === null)',
    ],
  ),
  ...inFile(
    'src/http/api/submit_batch.ts',
    contract('batch: '),
    ['a body that is wrong as a whole counts for its items', 'Math.max(batch.read, 1)', '1'],
    [
      'a key over its rate is a 429',
      "outcomes.every(({ kind }) => kind === 'rate_limited')",
      'outcomes.length === 0',
    ],
    ['a replay has the submission', '...(summaries.get(id) ?? { id })', 'id'],
  ),
];
