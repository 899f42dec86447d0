/** The worker process: takes jobs from the queue and runs them in an executor, whose launcher builds the boxes. */
import { openNeighbours } from '../queue/neighbours.ts';
import { startWorker } from '../queue/worker.ts';
import { openExecutor } from './open_executor.ts';
import { addressOf, type Given, openMetrics, type Running } from './process.ts';

export async function startWorkerProcess({ config, log }: Given): Promise<Running> {
  addressOf(config, 'worker');
  const neighbours = await openNeighbours(log);
  const executor = await openExecutor(config, log, {
    // Nothing is fetched before the worker runs a submission.
    fetch: (file) => worker.content(file),
    inherited: neighbours.descriptor,
  });
  const { metrics, close } = await openMetrics({ config, log }, 'worker');
  const worker = await startWorker({ config, log, executor, neighbours, metrics });
  const stop = async () => {
    await worker.stop();
    await close();
  };
  return { address: null, stop };
}
