/** The worker process: takes jobs from the queue and runs them in an executor, whose launcher builds the boxes. */
import { openNeighbours } from '../queue/neighbours.ts';
import { startWorker } from '../queue/worker.ts';
import { openExecutor } from './open_executor.ts';
import { addressOf, type Given, onceItAnswers, openMetrics, type Running } from './process.ts';

export async function startWorkerProcess(given: Given): Promise<Running> {
  const { log, onOtherSchema } = given;
  // Without an address there is nothing to wait for.
  addressOf(given.config, 'worker');
  const neighbours = await openNeighbours(log);
  const prepare = async () => {
    const executor = await openExecutor(given.config, log, {
      // Nothing is fetched before the worker runs a submission.
      fetch: (file) => worker.content(file),
      inherited: neighbours.descriptor,
    });
    return { executor, ...(await openMetrics(given, 'worker')) };
  };
  // Together: what keeps this machine from running programs is said while the database is away, too.
  const [{ executor, metrics, close }, config] = await Promise.all([
    prepare(),
    onceItAnswers(given, 'worker'),
  ]);
  const worker = await startWorker({
    config,
    log,
    executor,
    neighbours,
    onOtherSchema,
    metrics,
  });
  const stop = async () => {
    await worker.stop();
    await close();
  };
  return { address: null, stop };
}
