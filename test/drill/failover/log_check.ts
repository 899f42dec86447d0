/** What the log says of every submission that a client knows of. */
import assert from 'node:assert/strict';
import type { Db } from '../../../src/db.ts';
import type { Load } from './load.ts';

type Event = { stream: string; type: string };

const BEGINS = 'execution.started';
const ENDS = ['submission.completed', 'submission.failed', 'submission.cancelled'];

/** Throws where something answered is lost or ran twice at once. Answers lines that say what was looked at. */
export async function checkLog(db: Db, load: Load): Promise<string[]> {
  const events = await db<Event[]>`
    select stream::text, type from runledger.entries
    where stream in (select stream from runledger.entries where type = 'submission.accepted')
    order by stream, version`;
  const streams = Map.groupBy(events, ({ stream }) => stream);
  const lost: string[] = [];
  const together: string[] = [];
  let losses = 0;
  for (const [id, { n, record }] of load.answered) {
    const types = (streams.get(id) ?? []).map(({ type }) => type);
    const ended = types.filter((type) => ENDS.includes(type));
    const right = record?.['verdict'] === 'AC' && record['stdout'] === `hello ${n}\n`;
    if (ended.join() !== 'submission.completed' || !right)
      lost.push(`${id}: ${types.join(' ')}; ${JSON.stringify(record)}`);
    if (runsTwice(types)) together.push(`${id}: ${types.join(' ')}`);
    losses += types.filter((type) => type === 'execution.lost').length;
  }
  assert.deepEqual(lost, [], 'lost');
  assert.deepEqual(together, [], 'ran twice at once by the log');
  assert.ok(load.seen.size > 0, 'no program was seen to run');
  assert.deepEqual([...load.twice], [], 'ran twice at once on this machine');
  assert.deepEqual(load.wrong, [], 'wrong answers');
  const unknown = [...streams.keys()].filter((id) => !load.answered.has(id));
  assert.deepEqual(unknown, [], 'each repeated request has the submission of the first');
  const statuses = [...load.statuses].sort().map(([status, n]) => `${n} of ${status || 'none'}`);
  return [
    `answers: ${statuses.join(', ')}`,
    `${load.answered.size} submissions were answered; each ended once, with its output; none ran twice at once, as the log has it, and of ${load.seen.size} that were seen to run`,
    `${losses} executions were lost with the primary, and their submissions ran again`,
  ];
}

function runsTwice(types: readonly string[]): boolean {
  let running = false;
  for (const type of types) {
    if (type === BEGINS && running) return true;
    if (type === BEGINS) running = true;
    if (type === 'execution.lost' || ENDS.includes(type)) running = false;
  }
  return false;
}
