/** Of submissions that are handed over: sql/functions/hand_over.sql. */
import { inFile, type Mutant } from './mutant.ts';

const STORE = 'test/store/hand_over.test.ts';
const EPOCH = 'test/queue/epoch.test.ts';
const CONSUMER = 'test/queue/consumer.test.ts';
const WAITERS = 'test/store/waiters.test.ts';
const SLOTS = 'test/queue/slots.test.ts';

export const handOverMutants: readonly Mutant[] = [
  ...inFile(
    'sql/functions/hand_over.sql',
    STORE,
    ['only what is small', 'bytes > few_bytes() or ', ''],
    ['only to channels of ours', ' or not is_secret_channel(reply_to)', ''],
    ['nobody is overtaken', 'where j.is_available = true and', 'where false and'],
    ['only to a worker', "c.hand_to is not null and c.kind = 'worker'", 'c.hand_to is not null'],
    [
      'only to one that was heard of',
      "c.heartbeat_at > hand_over.at - interval '2 seconds'",
      'true',
    ],
    ['only to one of its language', 'c.toolchains ? hand_over.language', 'true'],
    ['only to one with a free slot', 'where l.taken < c.slots', 'where true'],
    [
      'only to one that has its lock',
      'not pg_advisory_unlock_shared(c.lock_key)',
      'pg_advisory_unlock_shared(c.lock_key)',
    ],
    ['a job that waits for its time is not overtaken', ' and j.run_at <= hand_over.at', ''],
    [
      'a job of another language is not overtaken',
      'runledger.tasks_of(taker.toolchains)',
      "'{execute_python,execute_java}'::text[]",
    ],
    ['to the one with most of them', 'order by c.slots - l.taken desc', 'order by c.slots'],
    ['without waiting for a worker that is locked', 'of c skip locked', 'of c'],
    ['nor for its progress', 'of p skip locked', 'of p'],
    ['its number is not that of a job', 'job := -1 - floor(', 'job := 1 + floor('],
    ['a NOTIFY has a bound', 'octet_length(whole) < 8000', 'true'],
    ['only small results are sent', 'case when is_small then', 'case when true then'],
    ['what a program prints is sent', "p.kind = 'stdout'", 'false'],
    ['also to stderr', "p.kind = 'stderr'", 'false'],
    ['to who waits for it', 'continue when not replies', 'continue when replies'],
  ),
  ...inFile(
    'sql/functions/submit_many.sql',
    STORE,
    [
      'one at a time',
      'cardinality(a_id) = 1 and cardinality(jobs) = 1 and',
      'cardinality(jobs) > 0 and',
    ],
    ['it takes no queue place of its account', 'if not is_handed then', 'if true then'],
    ['only plain runs', ' and judgings is null\n', '\n'],
  ),
  ...inFile(
    'sql/functions/start_many.sql',
    STORE,
    [
      'what was handed over is not started by its number',
      '(start_batch.epoch is not null or job_ids[array_position(ids, s.id)] >= 0)',
      'true',
    ],
    [
      'a hand-over does not wait for the disk',
      'if epoch is not null and reply_to is null',
      'if epoch is not null',
    ],
    [
      'nor frees a queue place that it has not taken',
      'first_starts is not null and reply_to is null',
      'first_starts is not null',
    ],
    ['a start does', 'if epoch is not null and reply_to', 'if false and reply_to'],
  ),
  ...inFile('sql/functions/fetch_executions.sql', STORE, [
    'a fetch reads no deliveries',
    'j.priority >= least_execution_priority() and ',
    '',
  ]),
  ...inFile('sql/functions/gate.sql', STORE, [
    'no round is a priority of deliveries',
    'greatest(round - round_base, runledger.least_execution_priority())',
    'greatest(round - round_base, -32768)',
  ]),
  ...inFile(
    'src/queue/execute_task.ts',
    'test/queue/execute_task.test.ts',
    ['a rejected result is sent again', 'if (!isRejected(error)) throw error;', 'throw error;'],
    [
      'what is rejected twice is released',
      'await release(options, membership, started, cause);\n    return;',
      'throw cause;',
    ],
    [
      'its release is tried again',
      'if (!isRejected(error) || gone.aborted) throw error;',
      'throw error;',
    ],
    [
      'a rejected result says nothing of the sandbox',
      '  if (error instanceof Rejected)\n',
      '  if (false)\n',
    ],
    [
      'what fails while it runs is no rejected result',
      '  if (error instanceof Rejected)\n',
      '  if (error instanceof Rejected || isRejected(error))\n',
    ],
  ),
  ...inFile(
    'sql/functions/consumers.sql',
    STORE,
    ['nothing is handed to a new epoch yet', ', hand_to = null where', ' where'],
    ['a heartbeat names what was handed over', 'and l.job_id < 0', ''],
    ['what may be on its way is not named', "l.started_at < clock() - interval '1 second'", 'true'],
  ),
  ...inFile('src/store/submissions.ts', STORE, [
    'only if all of a batch wait',
    'durable ? null : reply_to',
    'reply_to',
  ]),
  ...inFile(
    'src/queue/epoch.ts',
    EPOCH,
    [
      'what has failed is given back',
      'settle = isHanded ? release',
      'settle = isHanded ? async () => {}',
    ],
    ['what is being given back does not begin', '    in_flight.add([id]);\n', ''],
    ['what was handed to another epoch does not run', 'job.epoch === epoch && ', ''],
    ['a NOTIFY behind a heartbeat starts nothing', ' && !named.has(job.id)', ''],
    [
      'nothing begins when it is fenced',
      'isFenced || in_flight.has(job.id)) return',
      'in_flight.has(job.id)) return',
    ],
    ['what cannot run now is given back', '!options.ready()', 'false'],
    ['and the heartbeat says so', 'context.hurry();', ''],
    ['a channel that is not heard', 'listening.hears() && options.ready()', 'options.ready()'],
    ['no program may start', 'listening.hears() && options.ready()', 'listening.hears()'],
  ),
  ...inFile('src/queue/epoch.ts', CONSUMER, [
    'one that leaves gives back what is handed to it',
    'if (context.isLeaving()) giveBack',
    'if (!context.mayFetch()) return;\n    else if (context.isLeaving()) giveBack',
  ]),
  ...inFile('src/queue/consumer.ts', CONSUMER, [
    'what a crash brings back is unlocked',
    'if (member !== null) member.fenced = true;\n    beatNow();',
    'beatNow();',
  ]),
  ...inFile('src/queue/consumer.ts', CONSUMER, [
    'one that leaves takes nothing',
    'draining ? null : (',
    '(',
  ]),
  ...inFile(
    'src/queue/slots.ts',
    SLOTS,
    ['one that waits to be alone', 'alone_reserved === 0 && pairs === 0', 'pairs === 0'],
    ['a pair', 'alone_reserved === 0 && pairs === 0', 'alone_reserved === 0'],
    ['a pair that leaves', 'if (weight > 1 && !alone) pairs -= 1;', ''],
  ),
  ...inFile(
    'src/store/waiters.ts',
    WAITERS,
    ['a result that is only named is asked for', 'else hint([said.id]);', ''],
    ['a result that came is not asked for', 'settleAll(said, true);', 'hint([said.id]);'],
    ['a channel that is not heard', 'listening.hears() ? reply_to : null', 'reply_to'],
  ),
];
