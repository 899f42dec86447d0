/** Mutants of the queue: losses, jobs in flight, epochs, slots, tasks, the sweep. */
import { inFile, type Mutant } from './mutant.ts';

const ORACLE = 'test/store/oracle.test.ts';
const EPOCH = 'test/queue/epoch.test.ts';
const LEASE = 'test/queue/lease.test.ts';

export const queueMutants: readonly Mutant[] = [
  ...inFile(
    'sql/functions/maintain.sql',
    'test/queue/maintain.test.ts',
    ['what runs is not in the way of what is too old', "s.status <> 'running' and ", ''],
    [
      'a job that an ended submission left goes',
      '), true)\n    limit most',
      '), false)\n    limit most',
    ],
  ),
  ...inFile('sql/functions/cancel.sql', 'test/queue/queue_metrics.test.ts', [
    'a submission that is cancelled again is counted once',
    "then 'was_cancelled'",
    "then 'cancelled'",
  ]),
  ...inFile('src/queue/maintain.ts', 'test/queue/queue_metrics.test.ts', [
    'what web ends for its age is counted',
    'onExpired(row!.ended);',
    'onExpired(0);',
  ]),
  ...inFile(
    'sql/functions/release_many.sql',
    [LEASE, 'test/queue/execute_task.test.ts'],
    [
      'what is lost too often is counted',
      'ended := cardinality(lost) - coalesce(cardinality(again), 0);',
      '',
    ],
  ),
  ...inFile('src/queue/maintain.ts', 'test/queue/maintain.test.ts', [
    'all that are too old are ended',
    'if (row!.done === 0 || stopping.aborted) return;',
    'if (row!.done >= 0 || stopping.aborted) return;',
  ]),
  ...inFile('src/queue/execute_task.ts', 'test/queue/execute_task.test.ts', [
    'a cancelled one does not wait to run alone',
    'if (job.alone) await slot.enter({ signal: one.signal });',
    'if (job.alone) await slot.enter();',
  ]),
  ...inFile('sql/functions/retention.sql', 'test/store/retention.test.ts', [
    'the key of what is forgotten stays for a day',
    '(taken) and i.created_at < day_ago',
    '(taken)',
  ]),
  ...inFile(
    'src/processes/web_process.ts',
    'test/http/dead_connections.test.ts',
    ['connections to a machine that was lost are replaced', 'each.endSilent();', '{}'],
    [
      'those of requests are replaced while the heartbeats live',
      'shares.maintenance > 0 && { sockets }',
      'false',
    ],
  ),
  ...inFile('src/processes/process.ts', 'test/processes/run_process.test.ts', [
    'a pooler is looked for until the database answers',
    'if (!isAway(error)) throw error;',
    'if (isAway(error)) return { ...config, ...{ database_pooled: true } };',
  ]),
  ...inFile(
    'src/local/postgres.ts',
    'test/local/postgres.test.ts',
    [
      'a start reads its own part of the log',
      'bytes.subarray(from).toString()',
      'bytes.toString()',
    ],
    ['the log is kept', "openSync(path, 'a', 0o600)", "openSync(path, 'w', 0o600)"],
    [
      'a server holds the lock of its data',
      'log.descriptor, log.descriptor, lock.descriptor]',
      'log.descriptor, log.descriptor]',
    ],
  ),
  ...inFile('src/queue/service_metrics.ts', 'test/queue/no_worker.test.ts', [
    'a language that nobody runs is a metric',
    'new Map([...none, ...run])',
    'new Map(run)',
  ]),
  ...inFile('src/processes/large_records_thread.ts', 'test/http/dead_connections.test.ts', [
    'a large record does not wait for ever',
    'await sockets.unlessSilent(() => withPayloads(db, asked.row))',
    'await withPayloads(db, asked.row)',
  ]),
  ...inFile('src/queue/maintain.ts', 'test/queue/maintain.test.ts', [
    'all keys that are due are forgotten',
    'while (done >= most &&',
    'while (done < 0 &&',
  ]),
  ...inFile('src/queue/maintain.ts', 'test/queue/maintain.test.ts', [
    'partitions come before requests',
    "'before requests') await round",
    "'before requests') void round",
  ]),
  ...inFile(
    'src/processes/give_back_memory.ts',
    'test/processes/give_back_memory.test.ts',
    ['memory is not given back at work', 'utilization > BUSY', 'false'],
    ['nor again before a pause', ' || performance.now() < next_at', ''],
    ['a collection comes to its end', "await session.post('HeapP", "void session.post('HeapP"],
  ),
  ...inFile(
    'src/db_losses.ts',
    'test/db_losses.test.ts',
    [
      'a result has its own rows only',
      '  statement.forEachFn = (row, rows) => rows.push(row);',
      '  statement.forEachFn = undefined as never;',
    ],
    [
      'the last word of a session answers nothing else',
      'else if (answers.has(error)) return handler(this);',
      '',
    ],
    [
      'what is left of a session fails at its close',
      "socket.once('close', () => is_dialed && failRest(failing()));",
      '',
    ],
    [
      'with TLS, too',
      '(has_tls ? failRest(fail) : fail?.(withoutTls(server)))',
      'has_tls || fail?.(withoutTls(server))',
    ],
    ['nothing of it is sent to the next one', 'if (!isBeginning(bytes)) {', 'if (!bytes) {'],
    [
      'a transaction ends with its session',
      'if (owner === null || owner !== connection.reserved) {',
      'if (!owners) {',
    ],
    [
      'a transaction gets its connection however much is before it',
      'return give(statement, connection) && has_room;',
      'return has_room;',
    ],
    ['what waits to be sent ends no process', '    in_tls.add(socket);', ''],
    ['each page of a cursor has its own', 'if (reject === this.mended)', 'if (this.mended)'],
  ),
  ...inFile(
    'src/queue/delivery_runner.ts',
    'test/queue/delivery_runner.test.ts',
    ['a runner that lost a statement has failed', '  pool.onLost = fail;', ''],
    ['so has one whose fetch has no answer', 'looks = is_polling ? looks + 1 : 0;', 'looks = 0;'],
    ['who may not be alive fetches nothing more', 'void runner.stop();\n      throw', 'throw'],
  ),
  ...inFile('src/db_errors.ts', 'test/db.test.ts', [
    'a runner sees it so, too',
    "code === '' && error instanceof Error &&",
    'false &&',
  ]),
  ...inFile(
    'src/queue/job_turns.ts',
    'test/queue/job_turns.test.ts',
    ['the others look later', 'later ??= setTimeout(', 'later ??= (() => undefined as never)('],
    ['once for all that came', 'later ??= setTimeout(', 'later = setTimeout('],
    ['what was seen is not looked for again', '    clearTimeout(later);', ''],
    ['a full worker passes on', 'if (others_may) passOn();', ''],
    ['only its own turn', 'NEW_JOBS.test(payload) && isFull()', 'isFull()'],
    ['not for itself', 'turn.turns > 1 && ', ''],
    ['passing on is bounded', 'if (pause !== undefined) {', 'if (pause === null) {'],
    ['what came in the pause is passed on', 'if (to_pass && isFull()) passOn();', ''],
    ['not what it can take', 'if (to_pass && isFull()) passOn();', 'if (to_pass) passOn();'],
    ['its own NOTIFY is for the others', 'if (payload === consumer_id) return;', ''],
    ['jobs are counted from the first', '(Number(first) % turns)', '0'],
  ),
  ...inFile(
    'sql/functions/sweep.sql',
    LEASE,
    ['jobs keep their delay', 'run_at = j.run_at - ahead', 'run_at = now()'],
    ['workers get a notification when jobs move', 'if moved > 0 then', 'if moved < 0 then'],
    ['what is not ahead stays', 'from future f where f.id = j.id;', 'from future f;'],
  ),
  ...inFile(
    'sql/functions/consumers.sql',
    'test/queue/lease.test.ts',
    [
      'workers of other languages take no turns',
      'having bool_and(p.toolchains = me.toolchains)',
      'having true',
    ],
    [
      'a silent worker has no turn',
      "and p.heartbeat_at > me.heartbeat_at - interval '3 seconds'",
      '',
    ],
    ['of its own kind', 'where p.kind = me.kind and p.ended_at', 'where p.ended_at'],
  ),
  ...inFile('sql/functions/enqueue.sql', 'test/queue/epoch.test.ts', [
    'new jobs are named',
    "perform pg_notify('runledger_jobs', first_id || ' ' || added);",
    "perform pg_notify('runledger_jobs', '');",
  ]),
  ...inFile('src/queue/no_worker.ts', 'test/queue/no_worker.test.ts', [
    'a worker that is restarted is no line',
    'const ROUNDS = 2',
    'const ROUNDS = 1',
  ]),
  ...inFile('src/config/connections.ts', 'test/config/connections.test.ts', [
    'a pool is obeyed',
    'left -= more;',
    '',
  ]),
  ...inFile(
    'sql/views/loss_reasons.sql',
    ORACLE,
    [
      'SQL ends a submission after 3 deaths',
      "('worker_died', true, 3,",
      "('worker_died', true, 4,",
    ],
    ['… of a launcher, too', "('launcher_died', true, 3,", "('launcher_died', true, 4,"],
    [
      'a failed execution counts as a death',
      "('execution_failed', true, 3,",
      "('execution_failed', false, 3,",
    ],
    [
      'SQL ends a submission after 20 silent workers',
      "('worker_silent', false, 20,",
      "('worker_silent', false, 21,",
    ],
    ['a stop never ends a submission', "('shutdown', false, null,", "('shutdown', false, 20,"],
  ),
  ...inFile(
    'test/store/oracle.ts',
    ORACLE,
    [
      'the oracle ends a submission after 3 deaths',
      'worker_died: { counts: true, ends_after: 3 }',
      'worker_died: { counts: true, ends_after: 4 }',
    ],
    [
      'the oracle ends a submission after 20 silent workers',
      'worker_silent: { counts: false, ends_after: 20 }',
      'worker_silent: { counts: false, ends_after: 21 }',
    ],
  ),
  ...inFile(
    'sql/functions/release_many.sql',
    [ORACLE, LEASE],
    [
      'the bound of losses is exact',
      'end >= why.ends_after and (why.counts',
      'end > why.ends_after and (why.counts',
    ],
    [
      'silence counts by itself, not with other losses',
      "e.type = 'execution.lost' and e.facts ->> 'reason' = why.reason",
      "e.type = 'execution.lost'",
    ],
    [
      'a submission that took a worker down runs alone',
      'array_agg(s.deaths > 0 order by n),',
      'array_agg(false order by n),',
    ],
  ),
  ...inFile(
    'sql/functions/release_many.sql',
    'test/store/executions.test.ts',
    [
      'a release names an attempt',
      'and (release_many.attempts is null or l.attempt = release_many.attempts[array_position(ids, s.id)])',
      '',
    ],
    [
      'nobody releases the lease of another consumer',
      'l.consumer_id = consumer and l.attempt = s.attempts',
      'l.attempt = s.attempts',
    ],
  ),

  ...inFile(
    'src/queue/in_flight_jobs.ts',
    'test/queue/in_flight_jobs.test.ts',
    [
      'a job that is in flight is not added twice',
      'if (jobs.has(job_id)) throw',
      'if (!job_id) throw',
    ],
    [
      'a job that is being returned is not known',
      "filter(([, state]) => state === 'in flight')",
      'filter(() => true)',
    ],
    [
      'a job that is gone does not come back',
      "if (jobs.has(job_id)) jobs.set(job_id, 'returning');",
      "jobs.set(job_id, 'returning');",
    ],
  ),
  ...inFile(
    'src/queue/epoch.ts',
    EPOCH,
    ['a fetch without an answer fences the epoch', 'if (!rejected) answerLost();', ''],
    ['what arrives after the fence does not count', 'if (isFenced) return false;', ''],
    [
      'what is fetched with one that runs alone begins before it',
      'Number(one.alone) - Number(other.alone)',
      'Number(other.alone) - Number(one.alone)',
    ],
    [
      'a returned job is not known while it is unlocked',
      "if (end === 'returned') in_flight.returning(job.id);",
      '',
    ],
    [
      'the number in flight is bounded',
      'options.in_flight_max - in_flight.size',
      'options.in_flight_max',
    ],
  ),
  ...inFile('src/queue/execute_task.ts', 'test/queue/passed_slots.test.ts', [
    'an execution of many tests passes its slot',
    'if (done > 0 && done < of) await slot.pass(end);',
    'if (done > 0 && done < of) await slot.pass(AbortSignal.abort());',
  ]),
  ...inFile(
    'src/queue/slots.ts',
    'test/queue/slots.test.ts',
    [
      'one that passes its slot comes back',
      'const { entered, giveUp } = wait(true);',
      'const { entered, giveUp } = wait(false); occupied -= 1;',
    ],
    [
      'what is reserved first enters before one that runs alone',
      'fits(weight) && (!alone || isFirstOfAll(number))',
      'fits(weight)',
    ],
    [
      'what waits for its first slot waits for no other that has passed its own',
      'later_alone === -1 || mine.passed ? waiting : waiting.slice(0, later_alone)',
      'waiting',
    ],
    [
      'what has passed its slot waits for one that runs alone',
      'later_alone === -1 || mine.passed',
      'later_alone === -1',
    ],
    [
      'one newcomer for each execution that passes',
      'passing() - waiting.filter((each) => each.newcomer && !each.passed).length',
      'passing()',
    ],
    [
      'what was prefetched keeps no newcomer out',
      'waiting.filter((each) => each.newcomer && !each.passed)',
      'waiting.filter((each) => !each.passed)',
    ],
    [
      'what was prefetched does not wait for tests',
      'if (newcomer && passing() > 0 && !signal.aborted) timer',
      'if (passing() > 0 && !signal.aborted) timer',
    ],
    [
      'a newcomer enters before those that passed',
      'mine.turn < other.turn : isFirst(mine)',
      'mine.turn < other.turn : mine.turn < other.turn',
    ],
    [
      'nothing is prefetched beside many tests',
      'durations_ms.length < REMEMBERED || passers > 0',
      'durations_ms.length < REMEMBERED',
    ],
    ['a spare slot is reserved by nothing', 'reserved + spares.size >= count', 'occupied >= count'],
    ['a spare slot is wanted by who waits', 'each.abort();', ';'],
    [
      'nobody passes a slot to one that may not enter yet',
      'if (next.alone && !isFirstOfAll(next.number)) return;',
      '',
    ],
    [
      'who gives up holds up no one that runs alone',
      'waiting.splice(at, 1);\n        fresh.delete(number);',
      'waiting.splice(at, 1);',
    ],
    [
      'one that runs alone keeps all slots',
      'if (run === null || alone || next',
      'if (run === null || next',
    ],
    [
      'a newcomer waits for the end of a test',
      'if (newcomer && passing() > 0 && !signal.aborted) timer',
      'if (newcomer && passing() < 0) timer',
    ],
    [
      'a submission that runs alone is not overtaken',
      'if (mine.alone || other.alone) return false;',
      '',
    ],
    [
      'jobs are prefetched several at a time',
      'return reserved >= count && room < ahead / 2 ? 0 : Math.max(room, 0);',
      'return Math.max(room, 0);',
    ],
    [
      'a wait that is given up makes the durations be learned again',
      'if (giveUp()) durations_ms = [];',
      'giveUp();',
    ],
    [
      'one that failed makes the durations be learned again',
      'failed = true;\n        durations_ms = [];',
      'failed = true;',
    ],
    [
      'nothing is fetched beside one that runs alone',
      'if (alone_reserved > 0) return 0;\n    const ahead',
      'const ahead',
    ],
    [
      'no newcomer is fetched beside one that runs alone',
      'if (alone_reserved > 0) return 0;\n    return Math.max(passing()',
      'return Math.max(passing()',
    ],
    [
      'nothing is prefetched while one execution takes long',
      'for (const { since_ms } of running) if (now() - since_ms > PREFETCH_MS) return 0;',
      '',
    ],
  ),
  ...inFile(
    'src/queue/execute_task.ts',
    'test/queue/execute_task.test.ts',
    [
      'a submission that took a worker down takes every slot first',
      'if (job.alone) await slot.enter({ signal: one.signal });',
      '',
    ],
    [
      'the end of a launcher has its own reason',
      "kind === 'launcher_lost' ? 'launcher_died' : 'execution_failed'",
      "'execution_failed'",
    ],
    [
      'what a stop cuts off is not the submission’s fault',
      "if (cut) return { reason: 'shutdown', failed: false };",
      '',
    ],
  ),
  ...inFile(
    'sql/functions/fetch_executions.sql',
    EPOCH,
    [
      'jobs are fetched by their rounds',
      'order by j.priority, j.run_at limit',
      'order by j.run_at limit',
    ],
    [
      'an epoch that was left fetches nothing',
      'and p.ended_at is null and p.epoch = fetch_executions.epoch for key share',
      'and p.ended_at is null for key share',
    ],
    [
      'a job that another consumer holds is not deleted',
      "where j.id = any (job_ids) and j.locked_by = consumer || '/' || epochs[array_position(job_ids, j.id)];",
      'where j.id = any (job_ids);',
    ],
    [
      'a job that another consumer holds is not unlocked',
      "where j.id = return_job.job_id and j.locked_by = consumer || '/' || return_job.epoch;",
      'where j.id = return_job.job_id;',
    ],
    ['a worker fetches executions alone', 'and is_execution(t.identifier)', ''],
    ['a newcomer is of a key of which nothing runs', 'and s.key_id = any (keys)', 'and false'],
    [
      'a job that runs alone is not started by the fetch',
      'x(job_id, id, alone, priority, n) where not x.alone;',
      'x(job_id, id, alone, priority, n);',
    ],
    [
      'a job that was returned without an error loses no attempt',
      'attempts = j.attempts - case when error is null then 1 else 0 end',
      'attempts = j.attempts',
    ],
  ),
  ...inFile(
    'sql/functions/consumers.sql',
    ['test/queue/consumer.test.ts', 'test/store/executions.test.ts'],
    [
      'a new epoch keeps what is in flight',
      'l.consumer_id = consumer and l.job_id <> all (in_flight)',
      'l.consumer_id = consumer',
    ],
    [
      'an epoch that arrives late changes nothing',
      'where p.id = consumer and p.epoch < advance_epoch.epoch;',
      'where p.id = consumer;',
    ],
  ),
  ...inFile(
    'sql/functions/sweep.sql',
    LEASE,
    ['a worker is silent after 5 s', "interval := '5 seconds'", "interval := '6 seconds'"],
    [
      'a free lock proves no death',
      'elsif lock_was_lost and p.lock_key = any (dead) then',
      'elsif lock_was_lost then',
    ],
    [
      'after 5 s a free lock tells a death from silence',
      "when lock_was_lost then 'worker_died' else",
      'else',
    ],
    [
      'a process that has its lock has not ended',
      'elsif lock_was_lost and p.lock_key = any (dead) then',
      'elsif p.lock_key = any (dead) then',
    ],
    [
      'a new connection is no witness of a death',
      'not p.lock_is_held and p.heartbeat_at > witness_since;',
      'not p.lock_is_held;',
    ],
    [
      "a heartbeat of another machine's clock proves no death",
      'lock_was_lost := p.is_of_this_start and p.locked',
      'lock_was_lost := p.locked',
    ],
    [
      "a heartbeat of another machine's clock does not hide a silence",
      '(case when p.is_of_this_start and p.heartbeat_at <= now_at + stale_after then',
      '(case when p.heartbeat_at <= now_at + stale_after then',
    ],
    [
      'a new connection is no witness of silence',
      'then greatest(p.heartbeat_at, witness_since) else',
      'then p.heartbeat_at else',
    ],
    [
      'a clock that was set forward is no silence',
      'or now_at not between looked_at and looked_at + longest_gap then',
      'then',
    ],
    [
      'a heartbeat of a later time says nothing',
      'p.is_of_this_start and p.heartbeat_at <= now_at + stale_after then',
      'p.is_of_this_start then',
    ],
    [
      'the first look of a connection judges nobody',
      "perform set_config('runledger.witness_since', now_at::text, false);\n    return;",
      "perform set_config('runledger.witness_since', now_at::text, false);",
    ],
  ),
  ...inFile(
    'src/queue/neighbours.ts',
    'test/queue/neighbours.test.ts',
    [
      'a process that was never reached is not dead',
      'const met = near(names);',
      'const met = [...names];',
    ],
    ['a process that listens is not dead', "reached[n] === 'nobody'", 'true'],
    ['an error is no death', "code === 'ECONNREFUSED' ? 'nobody' : 'unknown'", "'nobody'"],
    [
      'a process is called once',
      'known === undefined ? await reach(one) : null',
      'await reach(one)',
    ],
    [
      'a process is no neighbour of its own',
      'const still = new Map([[name, false]]);',
      'const still = new Map<string, boolean>();',
    ],
  ),
  ...inFile(
    'src/queue/consumer.ts',
    'test/queue/killed.test.ts',
    ['neighbours are met', 'await neighbours.meet(swept.alive);', ''],
    ['a death that a neighbour saw reaches the sweep', 'sweep(db, dead)', 'sweep(db, [])'],
  ),
];
