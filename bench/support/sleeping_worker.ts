/** A worker whose programs take as long as their code says, and nothing else: "sleep 20". */
import { setTimeout as wait } from 'node:timers/promises';
import { startBenchWorker } from './empty_worker.ts';

await startBenchWorker(async (code) => {
  const ms = Number(code.split(' ')[1]);
  if (ms > 0) await wait(ms);
});
