/** The words for the end of a child process. */
import t from 'tap';
import { CANNOT_RUN, type End, endText, keepRunning } from '../../src/local/child.ts';

const endOf = async (
  command: readonly string[],
  must_start = false,
): Promise<[End, number | null]> => {
  const { promise, resolve } = Promise.withResolvers<[End, number | null]>();
  const { PATH } = process.env;
  const child = keepRunning({
    command,
    env: { PATH },
    must_start,
    onEnd: (end, restart_in_ms) => resolve([end, restart_in_ms]),
  });
  const ended = await promise;
  await child.stop(0);
  return ended;
};

t.test('a signal has its name, a status its number, and a missing program its error', async (t) => {
  const [killed] = await endOf(['sh', '-c', 'kill -KILL $$']);
  t.equal(endText(killed), 'was ended by SIGKILL');
  const [exited, restart_in_ms] = await endOf(['sh', '-c', 'exit 7']);
  t.equal(endText(exited), 'ended with status 7');
  t.ok(restart_in_ms);
  const [missing] = await endOf(['/no/program']);
  t.equal(endText(missing), 'could not be started (spawn /no/program ENOENT)');
});

t.test('a start that was killed is not its outcome, and the next one is', async (t) => {
  const folder = t.testdir();
  const script = 'mkdir "$0" 2>/dev/null && kill -KILL $$; exit 7';
  const ends: string[] = [];
  const child = keepRunning({
    command: ['sh', '-c', script, `${folder}/was-here`],
    env: { PATH: process.env['PATH'] },
    onEnd: (end) => ends.push(endText(end)),
  });
  t.same(await child.first, { kind: 'ended' });
  t.same(ends, ['was ended by SIGKILL', 'ended with status 7']);
  await child.stop(0);
});

t.test('a process that cannot run here is not started again, unless it has run', async (t) => {
  t.same((await endOf(['sh', '-c', `exit ${CANNOT_RUN}`]))[1], null);
  const script = `process.send({ address: null }, () => process.exit(${CANNOT_RUN}))`;
  t.ok((await endOf([process.execPath, '-e', script]))[1]);
});

t.test('one that must start is not started again where it ends before it is ready', async (t) => {
  t.same((await endOf(['sh', '-c', 'exit 7'], true))[1], null);
  t.ok((await endOf(['sh', '-c', 'kill -KILL $$'], true))[1], 'a signal may come from elsewhere');
  const script = 'process.send({ address: null }, () => process.exit(7))';
  t.ok((await endOf([process.execPath, '-e', script], true))[1]);
});
