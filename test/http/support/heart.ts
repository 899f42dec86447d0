/**
 * The lock and the heartbeats of a test worker, on one connection as in every worker, in a thread of their own: a test that
 * is busy would be late with them. A message asks for one heartbeat now, and is answered after it.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { connect } from '../../../src/db.ts';

const BEAT_MS = 1_000;

const { url, consumer, languages, lock_key } = workerData;
const toolchains = Object.fromEntries(languages.map((name: string) => [name, `${name} 1`]));
const db = connect(url, { name: 'runledger test worker', max: 1 });
await db`select runledger.register_consumer(${consumer}, 'worker', 'test', 2, ${db.json(toolchains)},
  ${db.json({ kind: 'v1', degraded: false })}, ${lock_key})`;
const beat = () => db`select runledger.heartbeat(${consumer})`.catch(() => {});
setInterval(beat, BEAT_MS);
parentPort!.on('message', async () => {
  await beat();
  parentPort!.postMessage('beaten');
});
parentPort!.postMessage('registered');
