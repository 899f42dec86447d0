/** A slot can die while it forks a program. Without namespaces, the program has to notice this itself, and end. */
import t from 'tap';
import { request, said, shell, withSandbox } from '../executor/box.ts';
import { eventually } from '../support/eventually.ts';
import { childrenOf } from '../support/processes.ts';

t.test('a program that outlives its slot by a moment does not spoil the next run', async (t) => {
  const { sandbox, close } = await withSandbox({ isolation: 'rlimits', slots: 1 });
  t.teardown(close);
  // The forked process first rewrites the paths in these arguments. That takes long enough for the test to kill the slot.
  const paths = Array.from({ length: 20 }, () => '/box:'.repeat(200));
  const slow = request(['/bin/sh', '-c', 'sleep 60', ...paths]);
  const busy = () => childrenOf(sandbox.isolation.pid).find((slot) => childrenOf(slot).length);
  for (let round = 0; round < 60; round++) {
    // The answer to the last run comes a moment before its slot has forgotten its processes.
    t.ok(await eventually(() => !busy()));
    const end = sandbox.run(slow).catch((error: Error) => error);
    const until = Date.now() + 10_000;
    while (!busy() && Date.now() < until) await new Promise((next) => setImmediate(next));
    process.kill(busy()!, 'SIGKILL');
    t.match(await end, { name: 'SandboxFault', message: /slot/ });
    t.equal(said(await sandbox.run(shell('echo fine'))), 'fine');
  }
});
