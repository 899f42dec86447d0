/** Of submissions that are handed over: sql/functions/hand_over.sql. */
import { inFile, type Mutant } from './mutant.ts';

const STORE = 'test/store/hand_over.test.ts';
const EPOCH = 'test/queue/epoch.test.ts';
const WAITERS = 'test/store/waiters.test.ts';

export const handOverMutants: readonly Mutant[] = [
  ...inFile(
    'sql/functions/hand_over.sql',
    STORE,
    ['only to a worker that listens', 'where c.hand_to is not null and', 'where'],
    [
      'only to a worker that was heard of',
      "c.heartbeat_at > hand_over.at - interval '2 seconds'",
      'true',
    ],
    ['only to a worker of its language', 'c.toolchains ? hand_over.language', 'true'],
    ['only to a worker with a free slot', 'and l.taken < c.slots', ''],
    ['to the one with most free slots', 'order by c.slots - l.taken desc', 'order by c.slots'],
    ['without waiting for a worker that is locked', 'for key share skip locked', 'for key share'],
    ['its number is not that of a job', "nextval('runledger.handed_jobs')", '1'],
    ['a NOTIFY has a bound', 'octet_length(whole) < 8000', 'true'],
    ['what a program prints is told', "p.kind = 'stdout'", 'false'],
    ['so is what it prints to stderr', "p.kind = 'stderr'", 'false'],
    ['of this submission', 'continue when not replies', 'continue when replies'],
  ),
  ...inFile(
    'sql/functions/submit_many.sql',
    STORE,
    ['nobody is overtaken', 'nobody_waits and reply_to is not null', 'reply_to is not null'],
    ['only if its client waits', 'nobody_waits and reply_to is not null', 'nobody_waits'],
    ['one at a time', ' and cardinality(a_id) = 1 and judgings', ' and judgings'],
    ['only plain runs', ' and judgings is null\n', '\n'],
  ),
  ...inFile(
    'sql/functions/consumers.sql',
    STORE,
    ['a new epoch is told nothing yet', ', hand_to = null where', ' where'],
    ['a heartbeat names what was handed over', 'and l.job_id < 0 and', 'and'],
    [
      'what may be on its way is not named',
      "l.started_at < me.heartbeat_at - interval '1 second'",
      'true',
    ],
  ),
  ...inFile('src/store/submissions.ts', STORE, [
    'only if all of a batch wait',
    'durable ? null : reply_to',
    'reply_to',
  ]),
  ...inFile(
    'src/queue/epoch.ts',
    EPOCH,
    ['what is known does not run again', 'if (in_flight.has(job.id)) return;', ''],
    ['what another epoch was told', 'job.epoch !== epoch || isFenced', 'isFenced'],
    ['nothing begins when it is fenced', 'job.epoch !== epoch || isFenced', 'job.epoch !== epoch'],
    ['nothing is adopted then', 'if (isFenced || !context.mayFetch()) return;', ''],
    [
      'a channel that is not heard is not named',
      'listening.hears() && options.ready()',
      'options.ready()',
    ],
    ['no program may start', 'listening.hears() && options.ready()', 'listening.hears()'],
  ),
  ...inFile('src/queue/epoch.ts', 'test/queue/consumer.test.ts', [
    'one that leaves gives back what it is told of',
    'else if (context.isLeaving())',
    'else if (false)',
  ]),
  ...inFile('src/queue/consumer.ts', 'test/queue/consumer.test.ts', [
    'one that leaves takes nothing',
    'draining ? null : ',
    '',
  ]),
  ...inFile(
    'src/store/waiters.ts',
    WAITERS,
    ['a result that is only named is asked for', 'else hint([said.id]);', ''],
    [
      'every request that waits is answered',
      "if ('status' in said) settleAll(said);",
      "if ('status' in said) return;",
    ],
    ['a channel that is not heard is not named', 'listening.hears() ? reply_to : null', 'reply_to'],
  ),
];
