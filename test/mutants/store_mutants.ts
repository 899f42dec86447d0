/** Mutants of the store: submitting, starting, completing, the rate, gates, the state machine, privileges, batches. */
import { inFile, type Mutant } from './mutant.ts';

const SUBMISSIONS = 'test/store/submissions.test.ts';
const EXECUTIONS = 'test/store/executions.test.ts';
const ORACLE = 'test/store/oracle.test.ts';

export const storeMutants: readonly Mutant[] = [
  ...inFile(
    'src/store/migrate.ts',
    'test/store/backup.test.ts',
    [
      'no log begins where a restore did not end',
      'if (!empty) await refuseUnfinishedRestore(db);',
      '',
    ],
    ['a restore goes on where one did not end', 'if (!empty) await refuse', 'await refuse'],
  ),
  ...inFile('src/store/migrate.ts', 'test/store/migrate.test.ts', [
    'rights of others on our views come back',
    'await tx.unsafe(granted!.commands).simple();',
    '',
  ]),
  ...inFile('sql/functions/generation.sql', 'test/store/migrate.test.ts', [
    'an older copy of a cluster is seen',
    'e.xid >= pg_snapshot_xmax(pg_current_snapshot())',
    'false',
  ]),
  ...inFile('sql/functions/operators.sql', 'test/console/console.test.ts', [
    'a view after the end is another one',
    "and (last.facts ->> 'submission_version')::integer >= newest",
    '',
  ]),
  ...inFile(
    'sql/functions/console.sql',
    'test/console/console.test.ts',
    [
      'what was removed by schedule is no command',
      "x.type <> 'operator.viewed' and not x.facts ? 'scheduled' as is_command",
      "x.type <> 'operator.viewed' as is_command",
    ],
    [
      'a bounded search for accounts goes on',
      'next_name := a.name;',
      'next_name := case when cardinality(ids) = at_most then a.name end;',
    ],
  ),
  ...inFile('src/store/console_now.ts', 'test/console/parts.test.ts', [
    'a language that is offered has a row',
    'new Set([...offered, ...',
    'new Set([...',
  ]),
  ...inFile('src/http/console/client/now.js', 'test/console/now.test.ts', [
    'what is to be run again waits, too',
    'now.waiting + now.again > 0',
    'now.waiting > 0',
  ]),
  ...inFile('src/store/keys.ts', 'test/store/keys.test.ts', [
    'a rotation says what it saw',
    'key.seen_version ?? null',
    'null',
  ]),
  ...inFile('src/proof/policy.ts', 'test/proof/policy.test.ts', [
    'names of witnesses differ',
    'for (let n = 2; taken.has(name); n++)',
    'for (let n = 2; false; n++)',
  ]),
  ...inFile('src/store/backup.ts', 'test/store/backup.test.ts', [
    'a restore that ended leaves no mark',
    "await db.unsafe('comment on schema runledger is null');",
    '',
  ]),
  ...inFile('src/store/backup_folder.ts', 'test/store/backup.test.ts', [
    'what is unfinished goes before the next backup',
    'const unfinished = await removeUnfinished(folder, now);\n  const done = await backUp(db, path);',
    'const done = await backUp(db, path);\n  const unfinished = await removeUnfinished(folder, now);',
  ]),
  ...inFile('src/store/checkpoints.ts', 'test/queue/sealing.test.ts', [
    'a stop makes no further checkpoint',
    'while (!stopping?.aborted) {',
    'while (true) {',
  ]),
  ...inFile('src/cli/doctor/witness_checks.ts', 'test/queue/forked_log.test.ts', [
    'a fork is seen without a checkpoint',
    "if (!problem) return ok('witnesses', state);",
    "if (!problem || !cosigned) return ok('witnesses', state);",
  ]),
  ...inFile('src/store/migrate.ts', 'test/store/schema_version.test.ts', [
    'an older migrate changes nothing of a newer version',
    'if (strange !== null) throw strange;',
    '',
  ]),
  ...inFile(
    'src/store/schema_version.ts',
    'test/store/schema_version.test.ts',
    [
      'definitions have a version',
      'definitions && our.definitions.has(definitions.sha256)',
      'true',
    ],
    [
      'a role that appeared later is no version',
      'for (const role of ROLES_NAMED)',
      'for (const role of ROLES_NAMED.slice(0, 0))',
    ],
    ['a migration with another text is not ours', 'our.get(name) !== sha256', '!our.has(name)'],
    ['an older database is named', 'if (missing > 0) {', 'if (missing < 0) {'],
    ['an older login is named', "if (codeOf(error) === NO_RIGHT) return 'unreadable';", ''],
  ),
  ...inFile('src/queue/consumer.ts', 'test/queue/consumer.test.ts', [
    'a consumer waits for its version',
    'if (other !== null) throw other;',
    '',
  ]),
  ...inFile(
    'src/store/backup.ts',
    'test/store/backup.test.ts',
    ['a damaged backup restores nothing', '  await reader.end();\n', ''],
    ['a restore replaces no data', 'if (used!.rows)', 'if (false)'],
  ),
  ...inFile(
    'sql/functions/submit_many.sql',
    SUBMISSIONS,
    ['the bound of the queue is exact', 'waiting >= capacity or', 'waiting > capacity or'],
    ['at most half of the queue is one account’s', 'greatest(capacity / 2, 1)', 'capacity'],
    [
      'a key without a limit is gated from the least gate on',
      'usage.dispatched >= least_gate() then',
      'false then',
    ],
    [
      'the half of an account is exact',
      'account_waiting >= greatest',
      'account_waiting > greatest',
    ],
    ['a batch counts its own submissions', '    waiting := waiting + 1;\n', ''],
    [
      'another request under a known Idempotency-Key is a mismatch',
      "i.request_digest <> decode(given ->> 'request_digest', 'hex')",
      'false',
    ],
    [
      'an Idempotency-Key belongs to its account',
      'where i.account_id = submit_many.account_id and i.key = given_key',
      'where i.key = given_key',
    ],
    [
      'a key does not run more than its limit',
      'usage.dispatched >= concurrency then',
      'usage.dispatched > concurrency then',
    ],
    [
      'a submission does not overtake the gated ones of its key',
      'usage.gated > 0 or usage.dispatched >= concurrency',
      'usage.dispatched >= concurrency',
    ],
    [
      'each job of a key has a later round',
      'greatest(progress.round, usage.round + 1)',
      'greatest(progress.round, 1)',
    ],
    ['what one key has spent is stored', 'hits_us = usage.hits_us, ', ''],
    ['what each of several keys has spent is stored', 'hits_us = x.hits_us, ', ''],
    [
      'a newcomer is not behind the rounds that were started',
      'greatest(progress.round, usage.round + 1)',
      'usage.round + 1',
    ],
  ),
  ...inFile(
    'sql/functions/spend_rate.sql',
    SUBMISSIONS,
    ['the rate is exact', 'allowed := used < per_minute', 'allowed := used <= per_minute'],
    [
      'a request leaves the window after 60 s',
      'hits_us[first] <= now_us - window_us',
      'hits_us[first] < now_us - window_us',
    ],
    ['a second leaves the window as a whole', '<= second - 61 loop', '<= second - 60 loop'],
    [
      'a rejection says when a request is possible again',
      'hits_us[greatest(used - per_minute + 1, 1)]',
      'hits_us[cardinality(hits_us)]',
    ],
    [
      'a change of the limit across 600 forgets nothing',
      'used := used + coalesce((select',
      'used := coalesce((select',
    ],
  ),
  ...inFile('sql/functions/spend_rate.sql', 'test/http/contract.test.ts rate and concurrency', [
    'the headers say how many requests remain',
    'remaining := greatest(per_minute - used, 0)',
    'remaining := per_minute',
  ]),
  ...inFile('sql/functions/gate.sql', SUBMISSIONS, [
    'a key without a limit is gated at four for each slot',
    'greatest(runledger.least_gate(), 4 *',
    'greatest(16, 5 *',
  ]),
  ...inFile('sql/functions/gate.sql', SUBMISSIONS, [
    'a start gives back as many queue places as it took',
    'a.pending + sign * cardinality(account_ids)',
    'a.pending + sign',
  ]),
  ...inFile(
    'sql/functions/set_aside.sql',
    SUBMISSIONS,
    [
      'nothing is set aside while no worker lives',
      'if not exists (select from alive_workers()) or',
      'if',
    ],
    ['a worker that has just gone may come back', "interval '30 seconds'", "interval '0 seconds'"],
    [
      'no place is left to the next of that language',
      'and s.language <> all (languages) limit',
      'and false limit',
    ],
    [
      'its key counts it no more',
      'set dispatched = u.dispatched - p.n',
      'set dispatched = u.dispatched',
    ],
    ['what comes back is counted', 'set gated = u.gated + b.n', 'set gated = u.gated'],
    [
      'only what can run comes back',
      'where has_worker(execution_task(f.aside))',
      'where f.aside is not null',
    ],
    [
      'what needs two languages is set aside where no worker has both',
      'fits(t.identifier, tasks_of(w))',
      "split_part(t.identifier, '/', 1) = any (tasks_of(w))",
    ],
  ),
  ...inFile(
    'sql/functions/promote.sql',
    [SUBMISSIONS, EXECUTIONS],
    ['what is set aside gets no job', 'and h.aside is null', ''],
    [
      'what died with its worker runs alone',
      'array_agg(s.deaths > 0 order by o)',
      'array_agg(false order by o)',
    ],
    [
      'the oldest gated submission goes first',
      'order by h.submission_id limit k.free',
      'order by h.submission_id desc limit k.free',
    ],
    ['a key does not run more than its limit', 'limit k.free', 'limit k.free + 1'],
    [
      'promoted submissions have successive rounds',
      'greatest(progress.round, k.round + 1) + n - 1',
      'greatest(progress.round, k.round + 1)',
    ],
  ),
  ...inFile(
    'sql/functions/start_many.sql',
    [EXECUTIONS, SUBMISSIONS],
    [
      'a consumer that was declared dead starts nothing',
      'p.id = consumer and p.ended_at is null and',
      'p.id = consumer and',
    ],
    [
      'an epoch that was left starts nothing',
      '(start_batch.epoch is null or p.epoch = start_batch.epoch)',
      'true',
    ],
    [
      'one submission is not run twice at once',
      "and s.status = 'pending'\n",
      "and s.status in ('pending', 'running')\n",
    ],
    [
      'a consumer is not declared dead while it starts',
      'p.epoch = start_batch.epoch) for key share;',
      'p.epoch = start_batch.epoch);',
    ],
    [
      'a second start frees no queue place',
      'array_agg((x.s).account_id) filter (where (x.s).attempts = 0)',
      'array_agg((x.s).account_id)',
    ],
    [
      'a start that is asked again answers the same',
      'from orders_in(taken || resumed,',
      'from orders_in(taken,',
    ],
  ),
  ...inFile(
    'sql/functions/complete_many.sql',
    EXECUTIONS,
    [
      'a report without a lease is refused',
      "l.attempt is not null and s.status = 'running'",
      "s.status = 'running'",
    ],
    [
      'a report from another consumer is refused',
      'l.submission_id = s.id and l.consumer_id = consumer and l.attempt = r.attempt',
      'l.submission_id = s.id and l.attempt = r.attempt',
    ],
    [
      'a report that waited for a newer attempt is refused',
      "s.status = 'running' and s.attempts = r.attempt as good",
      "s.status = 'running' as good",
    ],
    [
      'the repeated report of another consumer is refused',
      "and (b.facts ->> 'consumer')::uuid = consumer",
      '',
    ],
    ['an end frees the concurrency of its key', 'u.dispatched - cardinality(keys)', 'u.dispatched'],
    ['an end promotes a gated submission', 'if waits > 0 then', 'if waits > 1 then'],
    [
      'a delivery is requested for those with a webhook alone',
      'from unnest(ended) s where s.has_webhook;',
      'from unnest(ended) s;',
    ],
  ),
  // Instead of `l.attempt = r.attempt`: without it nothing changes, because a lease has the attempt of its submission's
  // row, which is compared, too.
  ...inFile('sql/functions/complete_many.sql', 'test/sql/next_submission.test.ts', [
    'a report of a failed service ends in error',
    "'status' = 'error' then 'submission.failed'",
    "'status' = 'failed' then 'submission.failed'",
  ]),
  ...inFile(
    'sql/functions/next_status.sql',
    ORACLE,
    [
      'what waits too long fails',
      "status in ('pending', 'running') then 'error'",
      "status in ('running') then 'error'",
    ],
    [
      'what runs does not start',
      "case status when 'pending' then 'running' end",
      "case when status in ('pending', 'running') then 'running' end",
    ],
    [
      'a submission ends once',
      "case status when 'running' then 'completed' end",
      "case when status in ('running', 'completed') then 'completed' end",
    ],
  ),
  ...inFile(
    'sql/functions/next_submission.sql',
    ['test/sql/next_submission.test.ts', ORACLE],
    ['a report cannot move a submission', "'{id,version,account_id,", "'{id,version,"],
    ['versions have no gap', 'or version <> coalesce(s.version, 0) + 1', ''],
    [
      'a loss counts as its event says',
      "s.deaths + (facts ->> 'counts')::boolean::integer",
      's.deaths + 1',
    ],
    // The verdict from the facts would be the same: the schema of submission.failed allows IE alone.
    [
      'a failure that no worker reported has no cut output',
      "coalesce(facts -> 'stdout_truncated' = 'true', false)",
      "facts -> 'stdout_truncated' = 'true'",
    ],
    [
      'a failure has cut output as its facts say',
      "coalesce(facts -> 'stderr_truncated' = 'true', false)",
      'false',
    ],
    ['a start is timed', '    s.started_at := at;\n', ''],
    ['the first row names the test set', "('test_set', $$(facts ->> 'test_set')::uuid$$),", ''],
    [
      'the first row is of the time of the event',
      "('created_at', 'at')",
      "('created_at', 'now()')",
    ],
  ),
  ...inFile(
    'src/store/frequency.ts',
    'test/store/frequency.test.ts',
    ['the window is closed at its end', '>= now()', '> now()'],
    ['the oldest gives way', '(oldest + 1) % times', '0'],
  ),
  ...inFile(
    'src/store/turns.ts',
    'test/store/turns.test.ts',
    [
      'owners take turns',
      'queue.reduce((sum, before) => sum + before.more, given + more)',
      'given + more',
    ],
    ['a heavy one is not overtaken for long', 'given += one.more / queues.size;', ''],
    ['each owner in line was given its part', 'one.more / queues.size', 'one.more'],
    [
      'who asks for little is next',
      '(sum, before) => sum + before.more, given + more',
      '(sum) => sum + 1, given',
    ],
    ['who kept others waiting comes last', 'by_idling || by_weight', 'by_weight'],
    ['nothing is held against an owner for long', 'idlers.clear();', ''],
    ['nor while others keep a line', 'at_ms < until_ms', 'false'],
    ['who was put out kept others waiting', 'leave(one, false)', 'leave(one)'],
    ['all together are bounded', 'total === 0 || total + more <= most', 'true'],
    ['an owner has a bound', 'own === 0 || own + more <= each', 'true'],
    ['who exceeds a bound enters alone', 'own === 0 || own + more', 'own + more'],
    ['the owner that has least is next', 'by_weight || one.number', 'one.number'],
    ['the line is bounded', 'if (waiting > waiting_most) sendAway();', ''],
    [
      'the owner of most of them loses one',
      'queue.length > longest.length',
      'longest.length === 0',
    ],
    ['a wait that was given up ends', "onAbort = () => refuse('gone');", 'onAbort = () => {};'],
    ['to leave twice makes no room', 'if (!inside.delete(visit)) return;', 'inside.delete(visit);'],
    ['who grows waits for its turn', 'queues.size === 0 && fitsOwner', 'fitsOwner'],
    [
      'one that waits goes to the front',
      'const grower = nextThatGrows();',
      'const grower = null as Visit | null;',
    ],
    ['the heaviest goes to the front', 'visit.weight > (found', 'visit.weight < (found'],
    ['one at a time is in front', 'one === undefined && front === null', 'one === undefined'],
    ['who leaves makes room in front', 'if (visit === front) front = null;', ''],
    ['who leaves does not wait to grow', 'else visit.waits.giveUp();', 'else admit();'],
    ['who waits is not asked to leave', 'one.waits !== null || staying', 'staying'],
    ['those that the service keeps stay', 'else staying.add(one);', 'else leave(one);'],
    ['the owner who has most leaves first', ': by_owner > 0;', ': by_owner < 0;'],
    ['those who wait themselves make room', 'helpsAny || queues.has(one.owner)', 'helpsAny'],
  ),
  ...inFile(
    'src/store/results.ts',
    'test/store/mixed_up.test.ts',
    [
      'a read gives what was asked',
      '!== id || row.record.account_id !== caller.',
      '!== id && row.record.account_id !== caller.',
    ],
    ['each read has an answer', "if (row === undefined) throw mixedUp('a read');", ''],
    [
      'a record has one owner',
      'if (rows.some(({ record }) => record.account_id !== account_id))',
      'if (false)',
    ],
  ),
  ...inFile('src/store/submissions.ts', 'test/store/mixed_up.test.ts', [
    'each submission has an answer',
    'if (rows.length !== commands.length || outcomes.includes(undefined as never))',
    'if (false)',
  ]),
  ...inFile('src/store/executions.ts', 'test/store/mixed_up.test.ts', [
    'an end without an answer is not stored',
    'if (!row?.refused?.every((n) => n >= 1 && n <= commands.length))',
    'if (!row)',
  ]),
  ...inFile(
    'src/store/results.ts',
    'test/store/results.test.ts',
    ['reads of one key share statements', 'max_items: READ_ITEMS', 'max_items: 1'],
    ['a statement has a bound', 'max_items: READ_ITEMS', 'max_items: 1_000'],
    ['large records come a few at a time', 'bytes: () => record_bytes', 'bytes: () => 0'],
    ['each request is counted', 'a.digest, a.requests, false', 'a.digest, 1, false'],
    ['each key gets its own answers', '[asked[row.n - 1], ', '[asked[asked.length - row.n], '],
    ['who waits already is first', 'waiting_spends.has(digest) ? null', 'false ? null'],
    [
      'requests of many keys share statements',
      'max_items: SPEND_ITEMS,\n    owner',
      'max_items: 1,\n    owner',
    ],
    ['a key that waits delays no other one', 'digests.length, false)', 'digests.length, true)'],
    [
      'requests of one key hold one connection',
      'waiting_spends.add(digest, until_ms)',
      'spendOfOne(db, digest, 1, true).then(([one]) => one!)',
    ],
    [
      'reads of one key hold one connection',
      'reads.add(textOf(secret_digest), id)',
      'readMany(db, secret_digest, [id]).then(([one]) => one!)',
    ],
  ),
  ...inFile(
    'sql/functions/read_result.sql',
    'test/store/results.test.ts',
    ['each read gets its own answer', 'ids[n], most', 'ids[1], most'],
    [
      'each read is counted',
      'spend_many(digest, cardinality(ids), true)',
      'spend_many(digest, 1, true)',
    ],
    ['what was spent is kept', 'if spent > 0 then', 'if false then'],
    [
      'no more than was asked is spent',
      'while spent < requests loop',
      'while spent <= requests loop',
    ],
    [
      'a found record says so',
      "when record is null then 'not_found'",
      "when false then 'not_found'",
    ],
  ),
  ...inFile(
    'src/store/batch.ts',
    'test/store/batch.test.ts',
    ['an item that follows waits', '...(line && { after: line.ended }),', ''],
    ['a caller that came late waits no longer', 'options.until_ms?.(waiting.item) ?? ', ''],
    ['an empty line leaves nothing', 'if (lines.get(key) === line) lines.delete(key);', ''],
    [
      'batches that are done leave nothing',
      'const onIdle = () => lines.delete(key);',
      'const onIdle = () => {};',
    ],
    ['few batches are in flight', 'in_flight < options.batches_at_once', 'true'],
    ['a batch that ended makes room', 'if (next) next();', 'if (next) void next;'],
    [
      'an item that failed ends its turn',
      'ended: result.then(onEnd, onEnd)',
      'ended: result.then(onEnd)',
    ],
    ['one is done after the other', 'lines.get(name) ?? lineOf(name)', 'lineOf(name)'],
    ['what became late behind others is not sent', '        place,\n', ''],
    [
      'the rest of a rejected batch is not sent late',
      'if (isLate(one)) one.reject(tooLate());\n        else',
      '',
    ],
  ),
  ...inFile('sql/functions/read_result.sql', 'test/store/waiters.test.ts', [
    'a result is its account’s alone',
    'own.id = record_in.id and own.account_id = record_in.account_id',
    'own.id = record_in.id',
  ]),
  ...inFile(
    'sql/privileges.sql',
    'test/sql/privileges.test.ts',
    ['a worker cannot submit', "'{fetch_executions,", "'{submit_many,fetch_executions,"],
    [
      'no function is everybody’s',
      'revoke all on all functions in schema runledger from public;',
      '',
    ],
    // The condition on `t.identifier` alone changes nothing: the policy on _private_tasks hides the same tasks.
    [
      'a web process sees no job of an execution',
      'to runledger_web using (task_id = any (',
      'to runledger_web using (true or task_id = any (',
    ],
    [
      'a web process sees no task of an execution',
      'using (not runledger.is_execution(identifier))',
      'using (true)',
    ],
    ['an auditor reads audit views alone', "and c.relname like 'audit\\_%'", ''],
  ),
  ...inFile(
    'src/store/batch.ts',
    'test/store/batch.test.ts',
    ['a batch is not larger than the database accepts', 'sum > options.max_items || ', ''],
    ['owners take turns', '(one) => one.turn <= its_turn', '() => true'],
    ['turns go on', 'turn = Math.max(turn, batch.at(-1)?.turn ?? 0) + 1;', ''],
    ['they rise with each batch', 'batch.at(-1)?.turn ?? 0) + 1;', 'batch.at(-1)?.turn ?? 0);'],
    ['what nobody waits for is not sent', 'if (!queue.some(isLate)) return;', 'return;'],
    ['also while a statement hangs', '> LOOK_EVERY_MS) dropLate()', '> Infinity) dropLate()'],
    [
      'one bad item does not fail the others of its batch',
      'batch.length === 1 || options.isAway(error)',
      'batch.length > 0',
    ],
  ),
  ...inFile('src/store/submissions.ts', 'test/store/submissions.test.ts', [
    'what a client has given up is not stored',
    '    patience_ms,\n    // All',
    '    // All',
  ]),
  ...inFile('src/db.ts', 'test/db.test.ts', [
    'a statement with padded JSON is sent at once',
    'json.padEnd(SENT_AT_ONCE_BYTES)',
    'json',
  ]),
  ...inFile(
    'src/db.ts',
    'test/db_sockets.test.ts',
    ['a late statement has the whole time', '(wrote && !last.awaits_answer)', 'false'],
    ['what is written behind it prolongs nothing', 'wrote && !last.awaits_answer', 'wrote'],
    [
      'an answer ends the wait',
      '!moved && (wrote || last.awaits_answer)',
      'wrote || (last?.awaits_answer ?? false)',
    ],
    ['a late silence is noticed', '3 * SILENT_MS', '2 * SILENT_MS'],
  ),
  ...inFile(
    'src/turn_end.ts',
    'test/turn_end.test.ts',
    [
      'what is short comes before work that came earlier',
      '  setImmediate(doShort);\n  // Node',
      '  // Node',
    ],
    ['what is short needs no long work', 'if (short.length === 1) setImmediate(doShort);', ''],
  ),
  ...inFile(
    'src/http/wire/pace.ts',
    'test/http/pace.test.ts',
    ['heavy work waits for the end of its turn', '!waits && queues', 'queues'],
    ['heavy work that waits is not forgotten', 'if (began_ms === null) begin();', ''],
  ),
  ...inFile('src/store/event_feed.ts', 'test/store/event_feed.test.ts', [
    'who comes during a question gets nothing of its answer',
    'if (after < asked.get(id)!) continue;',
    '',
  ]),
  ...inFile(
    'src/store/waiters.ts',
    'test/store/waiters.test.ts',
    [
      'a hint does not wait for a poll',
      'take(hinted, ASK_IDS - ASK_POLLED);',
      'if (polled.size === 0) take(hinted, ASK_IDS - ASK_POLLED);',
    ],
    ['a waiting request times out', 'if (waiter.until_ms <= now) waiter.giveUp();', 'void waiter;'],
    [
      'a client that hangs up frees its waiter',
      "signal?.addEventListener('abort', waiter.giveUp, { once: true });",
      '',
    ],
    [
      'a wait for many ends with the last of them',
      'if (left.size === 0) settle(found);',
      'settle(found);',
    ],
    [
      'a wait for many reads no outputs',
      '(outputs > 0 ? whole : plain)',
      '(outputs > -1 ? whole : plain)',
    ],
    [
      'a wait for many that is given up leaves nothing behind',
      'for (const id of left) forget(waiter, id);',
      '',
    ],
    [
      'hints do not hold up the poll',
      'take(polled, ids.length === 0 ? ASK_IDS : ids.length + ASK_POLLED);',
      'if (ids.length === 0) take(polled, ASK_IDS);',
    ],
    [
      'one kind of statement does not hold up the other',
      'if (hasIds(plain)) await askFor(plain);',
      'if (!hasIds(whole) && hasIds(plain)) await askFor(plain);',
    ],
    [
      'nobody asks for what was given up',
      'if (found === undefined) continue;',
      'if (found === undefined) { ids.push(id); continue; }',
    ],
  ),
];
