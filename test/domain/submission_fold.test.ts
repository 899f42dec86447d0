/** The fold without a database does what the functions in SQL do. */
import t from 'tap';
import { eventTypes } from '../../src/domain/events.ts';
import { renderResult } from '../../src/domain/record.ts';
import { STATUS_NAMES } from '../../src/domain/statuses.ts';
import {
  type AppendedEvent,
  foldSubmission,
  nextStatus,
} from '../../src/domain/submission_fold.ts';
import { createResults } from '../../src/store/results.ts';
import { idOf, outcome, ownerOf, start, submission, webhook, world } from '../store/world.ts';

t.test('each event leads from each status to the same one', async (t) => {
  const { db } = await world(t);
  for (const before of ['none', ...STATUS_NAMES] as const)
    for (const type of [...Object.keys(eventTypes), 'moon.landed', 'constructor']) {
      const [row] = await db`
        select runledger.next_status(${before === 'none' ? null : before}::text, ${type}) as status`;
      t.equal(nextStatus(before, type), row!['status'], `${type} in ${before}`);
    }
});

t.test('events fold to the record that the projection gives', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const submitted = async (change = {}) =>
    idOf(await submit({ secret_digest: digest, submission: submission(change) }));
  const compile = {
    cpu_time_us: 1,
    wall_time_us: null,
    memory_peak_bytes: 3,
    exit_code: 0,
    cached: true,
  };
  const outcomes = [
    {},
    { verdict: 'SIG', exit_code: 139, signal: 'SIGSEGV', compile, stderr_truncated: true },
    { verdict: 'TLE', limits: { cpu_ms: 1500, stdout_bytes: 3 }, limit_exceeded: 'cpu_time' },
    { status: 'error', verdict: 'IE', exit_code: null },
    { status: 'error', verdict: 'IE', stdout_truncated: true, stderr_truncated: true },
  ] as const;
  const ids = [await submitted()];
  for (const each of outcomes) {
    const id = await submitted({ webhook: webhook() });
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome(each) });
    ids.push(id);
  }
  const lost = await submitted();
  await start(executions, lost);
  await executions.release([lost], 'shutdown');
  await start(executions, lost);
  ids.push(lost);
  for (const runs of [false, true]) {
    const id = await submitted({ webhook: webhook() });
    if (runs) await start(executions, id);
    await w.cancel(id);
    ids.push(id);
  }
  for (const id of ids) {
    const events = await w.db<AppendedEvent[]>`
      select stream, version, type, schema, at, facts from runledger.events where stream = ${id} order by version`;
    const folded = renderResult(foldSubmission(events));
    const stored = renderResult((await createResults(w.web).record(await ownerOf(w.db, id), id))!);
    const output = { stdout: null, stderr: null };
    t.strictSame({ ...folded, ...output }, { ...stored, ...output }, stored.status);
  }
});
