/** Runs a file in a guest machine (test/sandbox/guest/run), which sees this machine's files. */
import { resolve } from 'node:path';
import { NotRun, type Stage } from './drill.ts';

const RUNNER = resolve('test/sandbox/guest/run');
/** It exits with this where no machine can be started; its last line says why. */
const NO_GUEST = 'status 125';

export async function inGuest(
  stage: Stage,
  options: readonly string[],
  file: readonly string[],
): Promise<void> {
  // Node strips types with WebAssembly, and V8 has crashed in emulated guests when it optimized that.
  const node = [process.execPath, '--liftoff-only', ...file];
  const words = [...options, '--timeout', '7200', '--times', '--', ...node];
  await stage
    .step('the guest', () => stage.command(RUNNER, words))
    .catch((error: Error) => {
      if (!error.message.includes(NO_GUEST)) throw error;
      throw new NotRun(error.message.split('\n').at(-1)!);
    });
}
