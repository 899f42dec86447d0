/** `./runledger witness` as a process. */
import { once } from 'node:events';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { cosignedNote } from '../../src/proof/addition.ts';
import { keyText, parseKey, parseNote } from '../../src/proof/note.ts';
import { parsePolicy, policyFor, policyText } from '../../src/proof/policy.ts';
import { CLI, runledger } from '../cli/command_line.ts';
import { call } from '../http/support/call.ts';
import { spawnBound } from '../support/spawn_bound.ts';
import { add, temporaryFolder } from './a_witness.ts';
import { testLog } from './log_for_tests.ts';

const log = testLog('log.test/one', 20);
const second = testLog('log.test/two', 20);

t.test('--key makes the key once, and prints it as a line of a policy', async (t) => {
  const dir = join(await temporaryFolder(t), 'deep', 'folder');
  const args = ['witness', '--dir', dir, '--key'];
  const first = await runledger([...args, '--name', 'w.test']);
  t.equal(first.status, 0, first.stderr);
  t.equal((await stat(dir)).mode & 0o777, 0o700);
  t.equal((await runledger(args)).stdout, first.stdout, 'it needs no name later');
  const policy = parsePolicy(`${first.stdout}quorum w.test\n`);
  t.match(policy.witnesses, [{ name: 'w.test', key: { name: 'w.test', type: 4 } }]);
});

t.test('it starts, cosigns, and stops', async (t) => {
  const dir = await temporaryFolder(t);
  const logs = join(dir, 'logs.txt');
  const policies = [log, second].map(({ signer }) =>
    policyText(policyFor([signer.verifier], []), ['a log']),
  );
  await writeFile(logs, policies.join(''));
  const args = ['witness', '--name', 'w.test', '--dir', join(dir, 'w'), '--logs', logs];
  const child = spawnBound(process.execPath, [CLI, ...args, '--listen', '127.0.0.1:0'], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  const [line] = await once(createInterface({ input: child.stdout! }), 'line');
  const key = parseKey(String(line).split(' ')[2]!);
  const [started] = await once(createInterface({ input: child.stderr! }), 'line');
  const { address, origins } = JSON.parse(String(started));
  t.same(origins, ['log.test/one', 'log.test/two']);
  for (const each of [log, second]) {
    const answer = await add(address, each.addition(0, 9));
    t.ok(cosignedNote(parseNote(each.note(9)).text, answer.body, key), each.origin);
  }
  t.match((await call(address, { path: '/health' })).json, { name: 'w.test', status: 'ok' });
  const another = await runledger([...args, '--listen', '127.0.0.1:0']);
  t.equal(another.status, 1);
  t.match(another.stderr, /stop the witness that uses this folder/);
  // One that says nothing does not keep it.
  const silent = connect(Number(new URL(address).port), '127.0.0.1');
  silent.on('error', () => {});
  await once(silent, 'connect');
  child.kill('SIGTERM');
  t.same(await exited, [0, null]);
});

t.test('what it does not accept', async (t) => {
  const dir = await temporaryFolder(t);
  const logs = join(dir, 'logs.txt');
  const key = keyText(log.signer.verifier);
  await mkdir(join(dir, 'w'));
  const run = (...args: string[]) => runledger(['witness', '--dir', join(dir, 'w'), ...args]);
  t.match(await run(), { status: 1, stderr: /the first start needs a name/ });
  t.match(await run('--name', 'a b'), { status: 1, stderr: /the first start needs a name/ });
  t.match(await run('--name', 'w'), { status: 2, stderr: /--logs is missing/ });
  t.match(await run('--name', 'v', '--key'), { status: 1, stderr: /has the name w, not v/ });
  t.match(await run('--logs', join(dir, 'none')), { status: 2, stderr: /--logs: .*no such file/ });
  for (const [text, problem] of [
    ['quorum none\n', /has no line `log NAME\+ID\+KEY`/],
    ['log\n', /is not a verifier key/],
    ['log x+00000000+AAAA\n', /is not a verifier key/],
    [
      `log ${key.replace(/\+(.)/, (_, digit) => `+${digit === '0' ? '1' : '0'}`)}\n`,
      /has the id of another key/,
    ],
    [`log ${(await run('--key')).stdout.split(' ')[2]}`, /is not the key of a log/],
  ] as const) {
    await writeFile(logs, text);
    t.match(await run('--logs', logs), { status: 2, stderr: problem }, text);
  }
  await writeFile(logs, `log ${key}\n`);
  for (const listen of ['8090', 'host', 'host:', ':1', 'host:70000'])
    t.match(await run('--logs', logs, '--listen', listen), {
      status: 2,
      stderr: /is not HOST:PORT/,
    });
});
