/** `./runledger run` as a process, against the real service. */
import { spawn, spawnSync } from 'node:child_process';
import type { EventEmitter } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { ExecutionOutcome } from '../../src/judging/execution.ts';
import { LANGUAGES } from '../../src/languages/common/registry.ts';
import { type Service, startService } from '../http/support/service.ts';
import { answering, PAGE } from './answering.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MAIN = join(ROOT, 'src/cli/main.js');

const folder = mkdtempSync(join(tmpdir(), 'runledger-run-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const file = (name: string, content: string | Uint8Array) => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

type Ended = { code: number | null; stdout: Buffer; stderr: string };

function runledger(args: string[], env: Record<string, string>): Promise<Ended> {
  return ended(started(process.execPath, args, env));
}

function started(command: string, args: string[], env: Record<string, string>) {
  return spawn(command, args, {
    cwd: folder,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function ended(child: { stdout: Readable; stderr: Readable } & EventEmitter): Promise<Ended> {
  const [stdout, stderr]: Buffer[][] = [[], []];
  child.stdout.on('data', (chunk) => stdout!.push(chunk));
  child.stderr.on('data', (chunk) => stderr!.push(chunk));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, stdout: Buffer.concat(stdout!), stderr: Buffer.concat(stderr!).toString() };
}

/** Ends the next submission, and returns it. */
async function endNext({ db, worker }: Service, outcome: Partial<ExecutionOutcome>, delay_ms = 0) {
  for (;;) {
    const [row] = await db<{ id: string; language: string; code: Buffer; stdin: Buffer | null }[]>`
      select s.id, s.language,
        (select bytes from runledger.payloads where stream = s.id and kind = 'code') as code,
        (select bytes from runledger.payloads where stream = s.id and kind = 'stdin') as stdin
      from runledger.submissions s where s.status = 'pending'`;
    if (row === undefined) {
      await setTimeout(20);
      continue;
    }
    await setTimeout(delay_ms);
    await worker.finish(row.id, outcome);
    return row;
  }
}

t.test('output on stdout, verdict on stderr, and the exit code of the program', async (t) => {
  const service = await startService(t, { webs: 1 });
  const env = { RUNLEDGER_API_KEY: await service.key(), RUNLEDGER_SERVER: service.webs[0]!.origin };
  const hello = file('hello.py', 'print(6 * 7)\n');
  const run = async (args: string[], outcome: Partial<ExecutionOutcome>, delay_ms = 0) => {
    const running = runledger([MAIN, 'run', ...args], env);
    const seen = await endNext(service, outcome, delay_ms);
    return { ...(await running), seen };
  };

  // Long enough for a spinner to turn, if there were one.
  const good = await run([hello], {}, 600);
  t.equal(good.code, 0);
  t.equal(good.stdout.toString(), '42\n', 'the output, and nothing else');
  t.match(
    good.stderr,
    /^AC {2}exit 0 {2}cpu 0\.009 s {2}wall 0\.012 s {2}memory 7\.0 MiB {2}[0-9a-f-]{36}\n$/,
    'no spinner in a pipe',
  );
  t.equal(good.seen.code.toString(), 'print(6 * 7)\n');

  const failed = await run([hello], {
    verdict: 'RE',
    exit_code: 3,
    stdout: Buffer.from('half'),
    stderr: Buffer.from('Traceback\n'),
  });
  t.equal(failed.code, 3);
  t.equal(failed.stdout.toString(), 'half');
  t.match(failed.stderr, /^Traceback\nRE {2}exit 3 /);

  const killed = await run([hello], { verdict: 'SIG', exit_code: 139, signal: 'SIGSEGV' });
  t.equal(killed.code, 139);
  t.match(killed.stderr, /SIG {2}SIGSEGV {2}exit 139/);

  const rejected = await run([file('a.cpp', 'int main( {')], {
    verdict: 'CE',
    exit_code: null,
    cpu_time_us: null,
    wall_time_us: null,
    memory_peak_bytes: null,
    stdout: new Uint8Array(),
    stderr: Buffer.from('error: expected\n'),
  });
  t.equal(rejected.code, 1);
  t.equal(rejected.seen.language, 'cpp', 'from the ending of the file name');
  t.match(rejected.stderr, /^error: expected\nCE /);

  const ours = await run([hello], { verdict: 'IE', status: 'error', exit_code: null });
  t.equal(ours.code, 125);

  const bytes = Buffer.from([0, 255, 254, 10]);
  const exact = await run([hello], { stdout: bytes });
  t.same(exact.stdout, bytes, 'bytes that are not text arrive unchanged');
  const as_json = await run([hello, '--json'], { stdout: bytes, stderr: bytes });
  const record = JSON.parse(as_json.stdout.toString());
  t.equal(record.stdout, '\0\ufffd\ufffd\n', 'the record is the one that every program gets');
  t.match(as_json.stderr, /^\0\ufffd\ufffd\nAC {2}/);

  const input = file('input.bin', bytes);
  const fed = await run([file('program', 'x'), '--stdin', input, '--language', 'py'], {});
  t.same(fed.seen.stdin, bytes, 'stdin, too');
  t.equal(fed.seen.language, 'python');
});

t.test('the ending of a file names the language, and `.mjs` makes a module', async (t) => {
  const service = await startService(t, {
    webs: 1,
    hand_languages: LANGUAGES.map(({ name }) => name),
    env: { RUNLEDGER_LANGUAGES: LANGUAGES.map(({ name }) => name).join() },
  });
  const env = { RUNLEDGER_API_KEY: await service.key(), RUNLEDGER_SERVER: service.webs[0]!.origin };
  const run = async (args: string[], outcome: Partial<ExecutionOutcome>) => {
    const running = runledger([MAIN, 'run', ...args], env);
    const seen = await endNext(service, outcome);
    return { ...(await running), seen };
  };
  for (const { name, endings } of LANGUAGES) {
    for (const ending of endings) {
      const { seen } = await run([file(`a.${ending}`, 'x')], {});
      t.equal(seen.language, name, ending);
      const expected = ending === 'mjs' ? 'x\nexport {};\n' : 'x';
      t.equal(seen.code.toString(), expected, `${ending}: the text`);
    }
  }
  const named = await run([file('b.mjs', 'x'), '--language', 'py'], {});
  t.equal(named.seen.code.toString(), 'x', 'the ending of another language changes nothing');
});

t.test('`-` is standard input, of whatever kind', async (t) => {
  const service = await startService(t, { webs: 1 });
  const env = { RUNLEDGER_API_KEY: await service.key(), RUNLEDGER_SERVER: service.webs[0]!.origin };
  // A process of Node gives its child a socket, and a shell gives it a pipe.
  for (const command of ['exec "$@"', 'cat | "$@"']) {
    const sh = ['-c', command, 'sh', process.execPath, MAIN, 'run', '-', '--language', 'python'];
    const child = spawn('sh', sh, { cwd: folder, env: { PATH: process.env['PATH'], ...env } });
    child.stdin.end('print(6 * 7)\n');
    const running = ended(child);
    const seen = await endNext(service, {});
    t.equal(seen.code.toString(), 'print(6 * 7)\n', command);
    t.match(await running, { code: 0, stdout: Buffer.from('42\n') });
  }
  const twice = await runledger([MAIN, 'run', '-', '--language', 'py', '--stdin', '-'], env);
  t.match(twice, { code: 2, stderr: 'only one file can be -, which is standard input\n' });
});

t.test('a reader that stops early changes no status', async (t) => {
  const service = await startService(t, { webs: 1 });
  const env = { RUNLEDGER_API_KEY: await service.key(), RUNLEDGER_SERVER: service.webs[0]!.origin };
  const child = started(process.execPath, [MAIN, 'run', file('long.py', 'x')], env);
  // Closed before anything is written.
  child.stdout.destroy();
  const stderr: Buffer[] = [];
  child.stderr.on('data', (chunk) => stderr.push(chunk));
  const code = new Promise((resolve) => child.on('exit', resolve));
  const stdout = Buffer.alloc(1_048_576, 'x');
  await endNext(service, { verdict: 'RE', exit_code: 3, stdout });
  t.equal(await code, 3);
  t.match(Buffer.concat(stderr).toString(), /RE {2}exit 3 /);
});

t.test('what was accepted is named, though its result cannot be read', async (t) => {
  const accepted = { status: 202, body: '{"id":"an-id","status":"pending"}' };
  const { origin } = await answering(t, [accepted, { status: 401, body: '{"message":"no"}' }]);
  const env = { RUNLEDGER_API_KEY: 'x', RUNLEDGER_SERVER: origin };
  const run = await runledger([MAIN, 'run', file('named.py', 'x')], env);
  t.equal(run.code, 125);
  const lost =
    'submission an-id was accepted, but no result: no; it goes on, so read /api/result/an-id and do not send it again\n';
  t.equal(run.stderr, lost);

  const record = {
    id: 'an-id',
    status: 'completed',
    verdict: 'AC',
    exit_code: 0,
    stdout: '\ufffd',
  };
  const numbers = { cpu_time: null, wall_time: null, memory_peak: null, signal: null, stderr: '' };
  const body = JSON.stringify({ ...record, ...numbers });
  const once = await answering(t, [{ body }, { status: 401, body: '{"message":"no"}' }]);
  const shown = await runledger([MAIN, 'run', file('shown.py', 'x'), '--server', once.origin], env);
  t.match(shown, { code: 0, stdout: Buffer.from('\ufffd') });
  t.match(
    shown.stderr,
    /^the exact bytes could not be read, so the output is shown as text: no\nAC/,
  );
});

t.test('the error of a command that cannot run has its reason', async (t) => {
  const service = await startService(t, { webs: 1 });
  const RUNLEDGER_SERVER = service.webs[0]!.origin;
  const env = { RUNLEDGER_API_KEY: await service.key(), RUNLEDGER_SERVER };
  const hello = file('hello.py', 'print(6 * 7)\n');
  const { origin } = await answering(t, PAGE);
  const elsewhere =
    /^(not run: )?http:\S+ answered 200, but not as Runledger does: check the address\n$/;
  mkdirSync(join(folder, 'sums/data/secret'), { recursive: true });
  file('sums/problem.yaml', 'problem_format_version: 2025-09\nname: Sums\nuuid: 0\n');
  file('sums/data/secret/1.in', '');
  file('sums/data/secret/1.ans', '42\n');
  const cases: [string[], Record<string, string>, number, RegExp][] = [
    [[], env, 2, /usage: \.\/runledger run FILE/],
    [[hello], { RUNLEDGER_SERVER }, 2, /RUNLEDGER_API_KEY is not set/],
    [[hello], { ...env, RUNLEDGER_API_KEY: 'nonsense' }, 125, /key is missing or invalid.*request/],
    [
      [hello],
      { ...env, RUNLEDGER_API_KEY: 'sécret' },
      2,
      /^RUNLEDGER_API_KEY: (?!.*cret).*must be a key/,
    ],
    [['nothing.py'], env, 125, /nothing\.py: cannot be read \(ENOENT\)/],
    [[file('a.txt', 'x')], env, 2, /name the language with --language/],
    [[hello, '--language', 'pyton'], env, 2, /^--language must be one of .*py.*, not "pyton"$/m],
    [
      ['judge', hello, '--package', join(folder, 'sums'), '--language', 'pyton'],
      env,
      2,
      /^--language must be one of .*py.*, not "pyton"$/m,
    ],
    [[file('b.py', Buffer.from([0xff]))], env, 125, /is not UTF-8/],
    [[file('c.py', 'x'.repeat(65_537))], env, 125, /code is 65537 bytes/],
    [[hello, '--server', 'nowhere'], env, 2, /must be an address that .*, not "nowhere"/],
    [[hello, '--server', 'localhost:80'], env, 2, /must be .* begins with http:\/\/ or https:\/\//],
    [[hello, '--server', origin], env, 125, elsewhere],
    [['judge', hello, '--package', join(folder, 'sums'), '--server', origin], env, 125, elsewhere],
    [['judge', hello, '--package', join(folder, 'nowhere')], env, 125, /nowhere: .*ENOENT/],
    [['judge', 'nothing.py', '--package', join(folder, 'sums')], env, 125, /ENOENT/],
    [['judge', hello], env, 2, /--package is missing/],
  ];
  for (const [args, given, code, says] of cases) {
    const command = args[0] === 'judge' ? [] : ['run'];
    const run = await runledger([MAIN, ...command, ...args], given);
    t.equal(run.code, code, says.source);
    t.match(run.stderr, says);
    t.equal(run.stdout.length, 0);
  }
});

t.test('`judge` names what was accepted, though its result cannot be read', async (t) => {
  mkdirSync(join(folder, 'named/data/secret'), { recursive: true });
  file('named/problem.yaml', 'problem_format_version: 2025-09\nname: One\nuuid: 1\n');
  file('named/data/secret/1.in', '');
  file('named/data/secret/1.ans', '42\n');
  const accepted = { status: 202, body: '{"id":"an-id","status":"pending"}' };
  const lost = { status: 401, body: '{"message":"no"}' };
  const set = [{ body: '{"test_sets":[]}' }, { body: '{"id":"a-set"}' }];
  const { origin } = await answering(t, [...set, accepted, lost]);
  const args = ['judge', file('judged.py', 'x'), '--package', join(folder, 'named')];
  const env = { RUNLEDGER_API_KEY: 'x', RUNLEDGER_SERVER: origin };
  const judged = await runledger([MAIN, ...args], env);
  t.match(judged, { code: 125, stderr: /^submission an-id was accepted, but no result: no; / });
});

t.test('`judge` ends with 1 only where the program was judged, and is wrong', async (t) => {
  mkdirSync(join(folder, 'one/data/secret'), { recursive: true });
  file('one/problem.yaml', 'problem_format_version: 2025-09\nname: One\nuuid: 1\n');
  file('one/data/secret/1.in', '');
  file('one/data/secret/1.ans', '42\n');
  const hello = file('judged.py', 'print(6 * 7)\n');
  const judged = ['judge', hello, '--package', join(folder, 'one')];
  const set = { body: '{"test_sets":[]}' };
  const uploaded = { body: '{"id":"a-set"}' };
  const limited = { status: 429, body: '{"error":"rate_limited","message":"no"}' };
  const now = { 'retry-after': '0' };
  const record = { id: 'an-id', tests: null, score: null, stderr: 'a.py: no' };
  const ended = (status: string, verdict: string | null) => ({
    body: JSON.stringify({ ...record, status, verdict }),
  });
  const stored = [set, uploaded];
  for (const [name, answer, code, first] of [
    ['AC', ended('completed', 'AC'), 0, stored],
    ['WA', ended('completed', 'WA'), 1, stored],
    ['TLE', ended('completed', 'TLE'), 1, stored],
    ['CE', ended('completed', 'CE'), 1, stored],
    ['IE', ended('error', 'IE'), 125, stored],
    ['cancelled', ended('cancelled', null), 125, stored],
    // Already where it asks for the test sets: a submission would be tried for two minutes.
    ['a 429 in each try', { ...limited, headers: now }, 125, []],
    ['a key that is wrong', { status: 401, body: '{"error":"unauthorized"}' }, 125, stored],
  ] as const) {
    const { origin } = await answering(t, [...first, answer]);
    const env = { RUNLEDGER_API_KEY: 'x', RUNLEDGER_SERVER: origin };
    t.equal((await runledger([MAIN, ...judged], env)).code, code, name);
  }
});

t.test('a status is not that of a wrong program where the output is lost', async (t) => {
  if (!existsSync('/dev/full')) {
    t.pass('a full disk', { skip: 'no /dev/full here' });
    return;
  }
  const record = { id: 'an-id', status: 'completed', verdict: 'AC', tests: null, score: null };
  const { origin } = await answering(t, [
    { body: '{"test_sets":[{"id":"a-set"}]}' },
    { body: '{"id":"a-set"}' },
    { body: JSON.stringify(record) },
  ]);
  const env = { RUNLEDGER_API_KEY: 'x', RUNLEDGER_SERVER: origin };
  const args = ['judge', file('lost.py', 'x'), '--package', join(folder, 'one')];
  const sh = ['-c', '"$@" > /dev/full', 'sh', process.execPath, MAIN, ...args];
  t.match(await ended(started('sh', sh, env)), { code: 125, stderr: /ENOSPC/ });
});

t.test('the help says that - is standard input', async (t) => {
  for (const name of ['run', 'check-receipt']) {
    const { stdout } = await runledger([MAIN, name, '--help'], {});
    t.match(stdout.toString(), /--stdin FILE +the input .*; - is stdin$/m, name);
  }
});

t.test('the help of both says what their statuses mean', async (t) => {
  for (const [name, says] of [
    ['run', /^exit status:\n {2}N {4}.*\n(.*\n)* {2}125 {2}.*not run/m],
    ['judge', /^exit status:\n {2}0 {4}.*AC.*\n {2}1 {4}.*\n {2}2 {4}.*\n {2}125 {2}.*no verdict/m],
  ] as const) {
    const { stdout } = await runledger([MAIN, name, '--help'], {});
    t.match(stdout.toString(), says, name);
  }
});

t.test('on a terminal it shows progress, and removes it before the output', async (t) => {
  if (spawnSync('script', ['--version']).status !== 0) {
    t.pass('script', { skip: 'no `script` here to make a terminal' });
    return;
  }
  const service = await startService(t, { webs: 1 });
  const env = {
    RUNLEDGER_API_KEY: await service.key(),
    RUNLEDGER_SERVER: service.webs[0]!.origin,
    TERM: 'xterm',
  };
  const command = `${process.execPath} ${MAIN} run ${file('hello.py', 'print(6 * 7)\n')}`;
  const child = started('script', ['-qec', command, '/dev/null'], env);
  const turning = new Promise<void>((resolve) => {
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
      if (text.includes('running,')) resolve();
    });
  });
  const done = ended(child);
  await turning;
  await endNext(service, {});
  const { stdout, code } = await done;
  const text = stdout.toString();
  t.equal(code, 0);
  t.match(text, /⠋ running, \d+\.\d s/);
  t.ok(text.includes('\r\x1b[K42\r\n'), 'removed before the output');
});
