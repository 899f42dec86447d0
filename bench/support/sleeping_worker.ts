/** A worker whose executions take as long as the code says: "sleep 20" is 20 ms. */
import { setTimeout as wait } from 'node:timers/promises';
import { startBenchWorker } from './empty_worker.ts';

await startBenchWorker(async (code) => {
  const ms = Number(code.split(' ')[1]);
  if (ms > 0) await wait(ms);
});
