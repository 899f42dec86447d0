/** Launchers that start, end and are killed at the same moments: each gets groups of its own, and keeps them. */
import t from 'tap';
import { shell, withSandbox } from './box.ts';

const LANES = 8;
const TURNS = 12;

t.test('launchers in a crowd', async (t) => {
  const faults: string[] = [];
  let right = 0;
  const turn = async (kill: boolean) => {
    const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0 });
    try {
      const report = await sandbox.run(shell('exit 9'));
      if (report.exit_code === 9) right++;
      // Its groups are for the next ones to sweep, while others claim theirs.
      if (kill) process.kill(sandbox.isolation.pid, 'SIGKILL');
    } finally {
      await close();
    }
  };
  const lane = async (number: number) => {
    for (let i = 0; i < TURNS; i++)
      await turn((i + number) % 3 === 0).catch((error: Error) => faults.push(error.message));
  };
  await Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
  t.same(faults, [], 'every launcher starts, and runs what it is given');
  t.equal(right, LANES * TURNS);
});
