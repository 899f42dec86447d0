/** What of an error is logged. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { errorFacts } from '../src/log.ts';

const coded = (code: string) => Object.assign(new Error('why'), { code });

t.test('an outage is logged without a stack', async (t) => {
  for (const code of ['ECONNREFUSED', 'ENOSPC', 'CONNECTION_CLOSED', '57P03', '53300', '08006'])
    t.match(errorFacts(coded(code)), { message: 'why', code, stack: undefined }, code);
});

t.test('what may be a mistake of this program has its stack', async (t) => {
  for (const error of [new TypeError('why'), coded('ERR_INVALID_ARG_TYPE'), coded('42883')])
    t.match(errorFacts(error), { message: 'why', stack: /log\.test/ });
});

function logged(t: Test, script: string, to: string, before = '') {
  const module = JSON.stringify(join(import.meta.dirname, '../src/log.ts'));
  const whole = `import(${module}).then(async ({ createLog }) => {
    const log = createLog({ level: 'info', process: 'web' });
    ${script}
  })`;
  const command = `${before} exec "$0" -e "$1" >> ${to}`;
  // Without what tap loads into each process: it takes signals, and so a process that hangs would outlive them.
  const { NODE_OPTIONS: _, ...env } = process.env;
  const ran = spawnSync('sh', ['-c', command, process.execPath, whole], {
    timeout: 60_000,
    killSignal: 'SIGKILL',
    env,
  });
  t.equal(ran.status, 42, `${ran.signal} ${ran.stderr}`);
}

t.test('a log that cannot be written does not end its process, nor keep it', (t) => {
  logged(
    t,
    `for (let line = 0; line < 3; line++) log.info('a line');
    log.fatal('the last line');
    setTimeout(() => process.exit(42), 50);`,
    '/dev/full',
  );
  t.end();
});

t.test('what was kept is written when there is room, with the number of lost lines', (t) => {
  const folder = t.testdir();
  const file = join(folder, 'log');
  // A file may not exceed what `ulimit` says, until the limit is raised.
  logged(
    t,
    `process.on('SIGXFSZ', () => {});
    for (let line = 0; line < 3_000; line++) log.info({ line, text: 'x'.repeat(1_000) });
    require('node:child_process').execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=100000000']);
    const end = () => /"lost":/.test(require('node:fs').readFileSync(${JSON.stringify(file)}, 'utf8'));
    while (!end()) await new Promise((wake) => setTimeout(wake, 100));
    process.exit(42);`,
    file,
    'ulimit -S -f 100;',
  );
  const lines = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const { lost } = lines.pop();
  t.same(
    lines.map(({ line }) => line),
    Array.from({ length: 3_000 - lost }, (_, n) => n),
  );
  t.end();
});

t.test('what was kept is written at an exit', (t) => {
  const file = join(t.testdir(), 'log');
  logged(
    t,
    `process.on('SIGXFSZ', () => {});
    for (let line = 0; line < 200; line++) log.info({ line, text: 'x'.repeat(1_000) });
    require('node:child_process').execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=100000000']);
    log.fatal('the end');
    process.exit(42);`,
    file,
    'ulimit -S -f 100;',
  );
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  t.equal(lines.length, 201);
  t.match(lines.at(-1), /the end/);
  t.end();
});

t.test('a full pipe keeps its process waiting only for a fatal line, and loses nothing', (t) => {
  const pipe = join(t.testdir(), 'pipe');
  logged(
    t,
    `const { openSync, readSync, constants } = require('node:fs');
    // It makes the pipe one that does not block.
    process.stdout;
    let waits = 0;
    Atomics.wait = () => { waits += 1; };
    for (let line = 0; line < 300; line++) log.info({ line, text: 'x'.repeat(1_000) });
    await new Promise((wake) => setTimeout(wake, 1_500));
    if (waits !== 0) throw new Error('it waited for lines that are not fatal');
    log.fatal('the end');
    if (waits !== 100) throw new Error('it waited ' + waits + ' times for the fatal line');
    const reader = openSync(${JSON.stringify(pipe)}, constants.O_RDONLY | constants.O_NONBLOCK);
    const piece = Buffer.alloc(10_000);
    let text = '';
    while (!text.includes('the end')) {
      try {
        text += piece.toString('utf8', 0, readSync(reader, piece));
      } catch {
        await new Promise((wake) => setTimeout(wake, 10));
      }
    }
    const lines = text.trimEnd().split('\\n').map((line) => JSON.parse(line));
    if (lines.some(({ line, msg }, n) => line !== n && msg !== 'the end')) throw new Error('other lines');
    process.exit(lines.length === 301 ? 42 : 1);`,
    pipe,
    `mkfifo ${pipe}; exec 3<>${pipe};`,
  );
  t.end();
});

t.test('the lines of two processes on one full pipe are whole', (t) => {
  const module = JSON.stringify(join(import.meta.dirname, '../src/log.ts'));
  const script = `import(${module}).then(({ createLog }) => {
    const log = createLog({ level: 'info', process: 'web' });
    // It makes the pipe one that does not block.
    process.stdout;
    for (let line = 0; line < 300; line++) log.info({ line, text: 'x'.repeat(1_000) });
    setTimeout(() => {}, 3_000);
  })`;
  // A slow reader keeps the pipe full.
  const reader = `const { readSync, writeSync } = require('node:fs');
    const piece = Buffer.alloc(5_000);
    for (let read; (read = readSync(0, piece)) > 0; Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4))
      writeSync(1, piece, 0, read);`;
  const command = '("$0" -e "$1" & "$0" -e "$1" & wait) | "$0" -e "$2"';
  const { NODE_OPTIONS: _, ...env } = process.env;
  const ran = spawnSync('sh', ['-c', command, process.execPath, script, reader], {
    timeout: 60_000,
    maxBuffer: 16 * 1024 * 1024,
    env,
  });
  const lines = ran.stdout.toString().trimEnd().split('\n');
  const read = lines.map((line) => {
    try {
      return JSON.parse(line).line as number;
    } catch {
      return line;
    }
  });
  t.same(
    read.filter((line) => typeof line === 'string'),
    [],
  );
  t.end();
});
