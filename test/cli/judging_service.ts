/** A whole service, as `./runledger serve` starts it, and a customer of it without a rate. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { givePrepared, storeIn, takePreparedInto } from '../support/prepared.ts';
import { CLI, runledger } from './command_line.ts';

const DIED = /^(web|worker) (was ended by|ended with)/;

type Test = { teardown(work: () => unknown): void };

/** The environment of a customer, once the service is ready. The service ends with the test, which fails if a part of it died. */
export async function judgingService(
  t: Test,
  more: NodeJS.ProcessEnv = {},
): Promise<NodeJS.ProcessEnv> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-judging-'));
  const state_dir = join(folder, 'state');
  await takePreparedInto(state_dir);
  const child = spawn('setpriv', ['--pdeathsig=KILL', process.execPath, CLI, 'serve'], {
    env: {
      PATH: process.env['PATH'],
      PORT: '0',
      RUNLEDGER_STATE_DIR: state_dir,
      // On a busy machine everything waits long for a processor. Only CPU time may decide a verdict.
      RUNLEDGER_LIMITS_COMPILE_CPU: '5min',
      RUNLEDGER_LIMITS_COMPILE_WALL: '10min',
      RUNLEDGER_LIMITS_WALL: '10min',
      RUNLEDGER_LIMITS_WALL_MAX: '10min',
      ...more,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const gone = once(child, 'exit').catch(() => {});
  t.teardown(async () => {
    child.kill('SIGTERM');
    await gone;
    await givePrepared(storeIn(state_dir)).finally(() =>
      rm(folder, { recursive: true, force: true }),
    );
    if (said.some((line) => DIED.test(line))) throw new Error(said.slice(-50).join('\n'));
  });
  const said: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => said.push(line));
  const address = await new Promise<string>((resolve, reject) => {
    child.once('exit', () => reject(new Error(said.join('\n'))));
    createInterface({ input: child.stdout }).on('line', (line) => {
      said.push(line);
      if (line.startsWith('address')) resolve(line.slice(9));
    });
  });
  const common = { RUNLEDGER_STATE_DIR: state_dir, RUNLEDGER_SERVER: address };
  await runledger(['tiers', 'set', 'judges', '--per-minute', '0', '--concurrent', '0'], common);
  const key = await runledger(
    ['keys', 'create', '--account', 'judges', '--tier', 'judges'],
    common,
  );
  return { ...common, RUNLEDGER_API_KEY: key.stdout.trim() };
}
