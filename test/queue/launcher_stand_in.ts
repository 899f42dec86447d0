/** See worker_process.ts: runs are timers here, and each begin and end is recorded in a file. */
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [runs_file = '', deadline_kept = 'kept'] = process.argv.slice(2);
const running = new Map<string, NodeJS.Timeout>();
let deadline: NodeJS.Timeout | undefined;

// First of all: nothing may follow from a begin that is not recorded.
const record = (event: string, run: string) =>
  appendFileSync(runs_file, `${process.hrtime.bigint()} ${event} ${run}\n`);

function end(run: string, killed: boolean): void {
  const timer = running.get(run);
  if (timer === undefined) return;
  clearTimeout(timer);
  running.delete(run);
  record(killed ? 'killed' : 'end', run);
  process.stdout.write(`${JSON.stringify({ run, killed })}\n`);
}

const killAll = () => {
  for (const run of [...running.keys()]) end(run, true);
};

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const said = JSON.parse(line) as {
      run?: string;
      ms?: number;
      kill?: string;
      deadline_ms?: number;
    };
    if (said.run !== undefined) {
      const { run, ms = 0 } = said;
      record('begin', run);
      running.set(
        run,
        setTimeout(() => end(run, false), ms),
      );
    }
    if (said.kill !== undefined) end(said.kill, true);
    if (said.deadline_ms !== undefined && deadline_kept === 'kept') {
      clearTimeout(deadline);
      deadline = setTimeout(killAll, Math.max(said.deadline_ms, 0));
    }
  })
  .on('close', () => {
    // The worker is gone, so its runs end.
    killAll();
    process.exit(0);
  });
process.stdout.on('error', () => {});
