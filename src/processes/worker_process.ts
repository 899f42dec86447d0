/** The worker process: takes jobs from the queue and runs them in an executor, whose launcher builds the boxes. */
import { startWorker } from '../queue/worker.ts';
import { openExecutor } from './open_executor.ts';
import { addressOf, type Given, openMetrics, type Running } from './process.ts';

export async function startWorkerProcess({ config, log }: Given): Promise<Running> {
  addressOf(config, 'worker');
  // Nothing is fetched before the worker runs a submission.
  const executor = await openExecutor(config, log, (file) => worker.content(file));
  const { metrics, close } = await openMetrics({ config, log }, 'worker');
  const worker = await startWorker({ config, log, executor, metrics });
  const stop = async () => {
    await worker.stop();
    await close();
  };
  return { address: null, stop };
}
