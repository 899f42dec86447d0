import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { endHung } from './hung.ts';

const CHECK_MS = 2_000;
const WAITS = 'setInterval(() => {}, 1e6);';
const KINDS = {
  waits: WAITS,
  deaf: `process.on('SIGALRM', () => {}); ${WAITS}`,
  works: 'for (;;);',
  'works below': `require('child_process').spawn(process.execPath, ['-e', 'for (;;);']); ${WAITS}`,
};

t.test('a file that waits for ever is ended, and one that works is not', async (t) => {
  const said: string[] = [];
  const stop = endHung(process.pid, {
    check_ms: CHECK_MS,
    checks: 3,
    onHung(command, processes) {
      said.push(command.split(' ').at(-1)!);
      t.equal(processes.length, 1);
      t.match(processes[0], / (waits|deaf): MainThread [RS] \S+, /);
    },
  });
  t.teardown(stop);
  const files = Object.entries(KINDS).map(([kind, code]) => ({
    kind,
    // Each in a group of its own, so that what it starts ends with it.
    file: spawn(process.execPath, ['-e', code, kind], { stdio: 'ignore', detached: true }),
  }));
  t.teardown(() => {
    for (const { file } of files)
      try {
        process.kill(-file.pid!, 'SIGKILL');
      } catch {
        // It was ended.
      }
  });
  const ended = Object.fromEntries(
    await Promise.all(
      files.map(async ({ kind, file }) => {
        if (kind.startsWith('works')) return [kind, null];
        const [, signal] = await once(file, 'exit');
        return [kind, signal];
      }),
    ),
  );
  t.equal(ended['waits'], 'SIGALRM');
  t.equal(ended['deaf'], 'SIGKILL', 'the one that holds on is killed');
  t.same(said.sort(), ['deaf', 'waits'], 'each is named once');
  await wait(2 * CHECK_MS);
  for (const { kind, file } of files)
    if (kind.startsWith('works')) t.same([file.exitCode, file.signalCode], [null, null], kind);
});
