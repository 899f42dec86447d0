/** Runs web or worker as this process until it is asked to stop. */
import { type Config, loadConfig } from '../config.ts';
import { environmentFor, hasForeignSecrets, type ProcessName } from '../environment.ts';
import { type Fault, faultLine, faultOf } from '../fault.ts';
import { CANNOT_RUN, type Ready } from '../local/child.ts';
import { createLog, type Log } from '../log.ts';
import { giveBackMemory } from './give_back_memory.ts';
import { withinOpenFiles } from './open_files.ts';
import { CannotRun, type Given, type Running } from './process.ts';
import { EXIT_AFTER_MS, stopRequested, stopTakesMs } from './stop_request.ts';

/** Returns the exit status. */
export async function runProcess(name: ProcessName, say: (line: string) => void): Promise<number> {
  // Before the restart, which leaves out what this process does not know.
  const config = loadConfig();
  if (hasForeignSecrets(name, process.env)) restartWithoutForeignSecrets(name);
  const log = createLog({ level: config.log_level, process: name });
  // Node itself ends the process then, and prints the stack as text.
  process.on('uncaughtExceptionMonitor', (error) => log.fatal({ err: error }, 'cannot go on'));
  const { promise: other_schema, resolve: onOtherSchema } = Promise.withResolvers<Fault>();
  const stopped = stopRequested();
  const ends = Promise.race([stopped, other_schema]);
  void ends.then(() => endInTime(config, log));
  try {
    const starting = start(name, { config: withinOpenFiles(config), log, onOtherSchema });
    // A start waits for as long as the database is away.
    const running = await Promise.race([starting, stopped]);
    if (typeof running === 'string') {
      log.info({ reason: running }, 'stopped before it had started');
      return 0;
    }
    log.info({ address: running.address }, 'started');
    process.send?.({ address: running.address } satisfies Ready);
    giveBackMemory();
    const reason = await ends;
    const is_asked = typeof reason === 'string';
    if (is_asked) log.info({ reason }, 'stopping');
    else log.error(`this process ends, and waits where it is started again: ${faultLine(reason)}`);
    await running.stop();
    log.info('stopped');
    return is_asked ? 0 : 1;
  } catch (error) {
    const fault = faultOf(error);
    // Under `serve` a person reads this; elsewhere a platform collects the log.
    if (process.connected) say(`${name}: ${faultLine(error)}`);
    else if (fault === null) log.fatal({ err: error }, 'cannot run');
    else log.fatal({ reason: fault.message, remedy: fault.remedy }, 'cannot run');
    return error instanceof CannotRun ? CANNOT_RUN : 1;
  } finally {
    if (process.connected) process.disconnect?.();
    setTimeout(() => process.exit(), EXIT_AFTER_MS).unref();
  }
}

/** Whatever it still waits for: nobody else ends it if the process that started it is gone. */
function endInTime(config: Config, log: Log): void {
  const end = () => {
    log.warn('this process did not stop in time; it ends now');
    process.exit(1);
  };
  setTimeout(end, stopTakesMs(config)).unref();
}

/** A process loads its own code only: the worker never loads the code of web. */
async function start(name: ProcessName, given: Given): Promise<Running> {
  if (name === 'web') return (await import('./web_process.ts')).startWebProcess(given);
  return (await import('./worker_process.ts')).startWorkerProcess(given);
}

/** Deleting a variable would not be enough: /proc shows the environment that a process was started with. */
function restartWithoutForeignSecrets(name: ProcessName): void {
  const args = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const env = environmentFor(name, process.env) as Record<string, string>;
  process.execve?.(process.execPath, args, env);
}
