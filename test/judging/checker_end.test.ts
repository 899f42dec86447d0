import t from 'tap';
import {
  type CheckerEnd,
  type CheckerRun,
  checkerEnd,
  MESSAGE_BYTES,
} from '../../src/judging/checker_end.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

function run(exit_code: number, over: Partial<CheckerRun> = {}): CheckerRun {
  return {
    role: 'checker',
    protocol: 'icpc',
    judgement: {
      verdict: exit_code === 0 ? 'AC' : 'RE',
      exit_code,
      signal: null,
      limit_exceeded: null,
    },
    stderr: bytes(''),
    stderr_end: bytes(''),
    feedback: new Map(),
    scoring: null,
    passes_left: null,
    unchanged: new Set(),
    ...over,
  };
}

const left = (files: Record<string, string>) =>
  new Map(Object.entries(files).map(([name, text]) => [name, bytes(text)]));
const scoring = (accept_score: number | null, only_beside_42 = false) => ({
  accept_score,
  only_beside_42,
});
const NOTHING = { message: '', team_message: '', points: null, next_pass: false };
const end = (exit_code: number, over: Partial<CheckerRun> = {}) => checkerEnd(run(exit_code, over));

t.test('icpc: 42 is right, 43 is wrong, every other exit code is a failure', async (t) => {
  t.strictSame(end(42), { ...NOTHING, kind: 'right' });
  t.strictSame(end(43), { ...NOTHING, kind: 'wrong' });
  for (const code of [0, 1, 2, 41, 44, 139, 255]) {
    const message = `the checker exited with ${code}: right is 42 and wrong is 43`;
    t.strictSame(end(code), { ...NOTHING, kind: 'failed', message });
  }
});

t.test('icpc: the messages are the feedback files', async (t) => {
  const feedback = left({ 'judgemessage.txt': 'at line 3\n', 'teammessage.txt': 'read again' });
  const messages = { message: 'at line 3\n', team_message: 'read again' };
  t.match(end(42, { feedback }), messages);
  t.match(end(43, { feedback, stderr: bytes('debug') }), messages);
});

t.test('a message is its first 4 KiB, as valid text', async (t) => {
  const message = (text: Uint8Array) =>
    end(43, { feedback: new Map([['judgemessage.txt', text]]) }).message;
  t.equal(message(bytes('x'.repeat(5_000))), 'x'.repeat(MESSAGE_BYTES));
  t.equal(
    message(bytes(`${'x'.repeat(4_095)}é`)),
    'x'.repeat(4_095),
    'half a character is left out',
  );
  t.equal(message(bytes(`${'x'.repeat(4_094)}é!`)), `${'x'.repeat(4_094)}é`);
  t.equal(message(Uint8Array.of(0x61, 0xff, 0x62)), 'a\ufffdb');
  t.equal(message(Uint8Array.of(0x61, 0xc3)), 'a\ufffd', 'the end of a short message is kept');
  t.equal(message(bytes('\ufeffa')), '\ufeffa');
});

t.test('a failure names the program and the reason, then what the program wrote', async (t) => {
  const stderr = bytes('Traceback');
  t.match(end(1, { stderr }).message, /^the checker exited with 1: .*\nTraceback$/);
  t.match(end(1, { role: 'interactor' }).message, /^the interactor exited with 1/);
  const feedback = left({ 'judgemessage.txt': 'bad answer file', 'teammessage.txt': 'sorry' });
  const failure = end(1, { stderr, feedback });
  t.match(failure.message, /43\nbad answer file$/);
  t.equal(failure.team_message, '', 'a failure is no message for the team');
});

t.test('a checker that does not end by itself has failed, in both protocols', async (t) => {
  const ends: [CheckerRun['judgement'], string][] = [
    [
      { verdict: 'TLE', exit_code: 137, signal: 'SIGKILL', limit_exceeded: 'cpu_time' },
      'the checker exceeded its limit of cpu_time',
    ],
    [
      { verdict: 'MLE', exit_code: 42, signal: null, limit_exceeded: 'memory' },
      'the checker exceeded its limit of memory',
    ],
    [
      { verdict: 'OLE', exit_code: 0, signal: null, limit_exceeded: 'output' },
      'the checker exceeded its limit of output',
    ],
    [
      { verdict: 'SIG', exit_code: 139, signal: 'SIGSEGV', limit_exceeded: null },
      'the checker was ended by SIGSEGV',
    ],
    [
      { verdict: 'IE', exit_code: null, signal: null, limit_exceeded: null },
      'the checker did not end by itself',
    ],
  ];
  for (const [judgement, message] of ends) {
    for (const protocol of ['icpc', 'testlib'] as const) {
      const failure = end(0, { judgement, protocol });
      t.strictSame(failure, { ...NOTHING, kind: 'failed', message }, `${protocol}, ${message}`);
    }
  }
});

t.test('icpc: a right output may have a score, or a share of the test’s score', async (t) => {
  const scored = (files: Record<string, string>, code = 42) =>
    end(code, { feedback: left(files), scoring: scoring(20) });
  const points: [Record<string, string>, number | null][] = [
    [{}, null],
    [{ 'score.txt': '12.5' }, 12.5],
    [{ 'score.txt': ' 0\n' }, 0],
    [{ 'score.txt': '-3' }, -3],
    [{ 'score_multiplier.txt': '0.25\n' }, 5],
    [{ 'score_multiplier.txt': '1' }, 20],
    [{ 'score_multiplier.txt': '0' }, 0],
  ];
  for (const [files, wanted] of points) {
    t.match(scored(files), { kind: 'right', points: wanted }, JSON.stringify(files));
  }
  const failures: [Record<string, string>, RegExp][] = [
    [{ 'score.txt': '' }, /left no number in score.txt/],
    [{ 'score.txt': '1 2' }, /left no number in score.txt/],
    [{ 'score.txt': 'nan' }, /left no number in score.txt/],
    [{ 'score.txt': '1e999' }, /left no number in score.txt/],
    [{ 'score_multiplier.txt': '1.01' }, /left no number from 0 to 1 in score_multiplier.txt/],
    [{ 'score_multiplier.txt': '-0.1' }, /left no number from 0 to 1/],
    [{ 'score_multiplier.txt': 'x' }, /left no number from 0 to 1/],
    [{ 'score_multiplier.txt': '1', 'score.txt': '1' }, /left score.txt and score_multiplier.txt/],
  ];
  for (const [files, message] of failures) {
    t.match(scored(files), { kind: 'failed', message, points: null }, JSON.stringify(files));
  }
  const unbounded = (files: Record<string, string>) =>
    end(42, { feedback: left(files), scoring: scoring(null) });
  t.match(unbounded({ 'score_multiplier.txt': '0.5' }), {
    kind: 'failed',
    message: 'the checker left score_multiplier.txt, and the score of its test is unbounded',
  });
  t.match(unbounded({ 'score.txt': '5' }), { kind: 'right', points: 5 });
  t.match(unbounded({}), { kind: 'right', points: null });
  t.match(scored({ 'score.txt': '5' }, 43), { kind: 'wrong', points: null });
  t.match(end(42, { feedback: left({ 'score.txt': 'x' }) }), { kind: 'right', points: null });
});

t.test('icpc: a score beside 43 is a failure, if this pass left it', async (t) => {
  for (const name of ['score.txt', 'score_multiplier.txt']) {
    const feedback = left({ [name]: '0', 'judgemessage.txt': 'half' });
    t.match(end(43, { feedback, scoring: scoring(10, true) }), {
      kind: 'failed',
      message: `the checker left ${name} and exited with 43\nhalf`,
    });
    const unchanged = new Set([name]);
    t.match(end(43, { feedback, scoring: scoring(10, true), unchanged }), { kind: 'wrong' });
    t.match(end(43, { feedback, scoring: scoring(10) }), { kind: 'wrong', points: null });
    t.match(end(43, { feedback }), { kind: 'wrong' }, 'without scoring the file means nothing');
  }
});

t.test(
  'icpc: nextpass.in asks for another pass, only beside 42 and while passes are left',
  async (t) => {
    const feedback = left({ 'nextpass.in': '', 'judgemessage.txt': 'pass 1' });
    const pass = (code: number, passes_left: number | null, over: Partial<CheckerRun> = {}) =>
      end(code, { feedback, passes_left, ...over });
    t.strictSame(pass(42, 1), { ...NOTHING, kind: 'right', message: 'pass 1', next_pass: true });
    t.match(end(42, { passes_left: 1 }), { kind: 'right', next_pass: false });
    t.match(end(43, { passes_left: 1 }), { kind: 'wrong', next_pass: false });
    t.match(pass(43, 1), {
      kind: 'failed',
      message: 'the checker left nextpass.in and exited with 43\npass 1',
      next_pass: false,
    });
    t.match(pass(42, 0), { kind: 'failed', message: /asks for more passes than the set has/ });
    t.match(pass(42, null), { kind: 'right', next_pass: false }, 'a test of one pass has no next');
    const scored = new Map([...feedback, ['score.txt', bytes('7')]]);
    t.match(pass(42, 1, { feedback: scored, scoring: scoring(1) }), {
      next_pass: true,
      points: null,
    });
  },
);

t.test('testlib: exit codes, and stderr as the message', async (t) => {
  const testlib = (code: number, text: string, scoring: CheckerRun['scoring'] = null) =>
    end(code, { protocol: 'testlib', stderr: bytes(text), scoring });
  const rows: [number, CheckerEnd['kind'], string, string][] = [
    [0, 'right', 'ok 3 numbers\n', 'ok 3 numbers\n'],
    [1, 'wrong', 'wrong answer 1st differs', 'wrong answer 1st differs'],
    [2, 'wrong', 'wrong output format', 'wrong output format'],
    [3, 'failed', 'FAIL', 'the checker reports a failure of its own (exit code 3)\nFAIL'],
    [4, 'failed', '', 'the checker exited with 4: right is 0, wrong is 1 or 2, points are 7'],
    [42, 'failed', 'x', 'the checker exited with 42: right is 0, wrong is 1 or 2, points are 7\nx'],
  ];
  for (const [code, kind, stderr, message] of rows) {
    t.strictSame(testlib(code, stderr), { ...NOTHING, kind, message }, `${code}`);
  }
});

t.test('testlib: points are read from stderr', async (t) => {
  const points = (text: string, scored: CheckerRun['scoring'] = scoring(1)) =>
    end(7, { protocol: 'testlib', stderr: bytes(text), scoring: scored });
  t.match(points('points 12.50 partly right\n'), {
    kind: 'right',
    points: 12.5,
    message: 'points 12.50 partly right\n',
  });
  t.match(points('points 7'), { kind: 'right', points: 7 });
  t.match(points('points 3\r\n'), { points: 3 });
  t.match(points('points 0.0 nothing'), { kind: 'wrong', points: null });
  t.match(points('points 5', null), { kind: 'right', points: null });
  const none = [
    '',
    'points',
    'points x',
    'points -1',
    'no points 5',
    'points nan',
    'debug\npoints 3\n',
  ];
  for (const text of none) {
    t.match(points(text), { kind: 'failed', message: /printed no points/ }, text);
  }
});

t.test('testlib: no words of a program raise its points', async (t) => {
  const points = (text: string, end = '') =>
    checkerEnd({
      ...run(7, { protocol: 'testlib', scoring: scoring(1) }),
      stderr: bytes(text),
      stderr_end: bytes(end),
    });
  const breaks = ['\n', '\r', '\r\n', '\v', '\f', '\u0085', '\u2028', '\u2029'];
  // A checker that prints what it read, and then what it gives, gives no program any points.
  for (const line_break of breaks) {
    t.match(points(`read: 7${line_break}points 100\npoints 0 partial\n`), { kind: 'failed' });
  }
  for (const given of ['0 partial', '99.5', '-1', 'nan', 'message length exceeds 32768: 0']) {
    const end = points(`points 100\npoints ${given}\n`);
    t.match(end, { kind: 'failed', message: /printed `points` twice on stderr/ }, given);
    // What a program printed may end without a line break, or be split and joined.
    for (const between of ['', ' ', '\t', '\r', '\v', 'x', 'points ', 'points'])
      t.match(points(`points 100 ${between}points ${given}`), { kind: 'failed' }, between);
  }
  t.match(points('points 9\rpoints 0'), { kind: 'failed' });
  t.match(points('points 10points 0'), { kind: 'failed' });
  for (const lost of ['x', `${'x'.repeat(99)}\npoints 0\n`]) {
    const message = /printed more on stderr than is kept/;
    t.match(points('points 100 x', lost), { kind: 'failed', message });
  }
  // The comment quotes what the program printed.
  for (const line_break of breaks) {
    t.match(points(`points 1 found:${line_break}points 100\n`), { points: 1 });
    t.match(points(`points 0 found:${line_break}points 100\n`), { kind: 'wrong', points: null });
  }
  t.match(points('points 5 of\npoints 20\n'), { points: 5 });
  t.match(points('points 5 of the points of points 20: 3 points missed\n'), { points: 5 });
});

t.test('icpc: a score is read from the whole file', async (t) => {
  const blanks = ' '.repeat(MESSAGE_BYTES - 1);
  const scored = (name: string, text: string) =>
    end(42, { feedback: left({ [name]: text }), scoring: scoring(20) });
  for (const name of ['score.txt', 'score_multiplier.txt']) {
    for (const text of [`1${blanks}7junk`, `0${blanks}7`, `${blanks}0\x00`]) {
      t.match(scored(name, text), { kind: 'failed', message: /left no number/ }, name);
    }
  }
  t.match(scored('score.txt', `${blanks}0.5`), { kind: 'right', points: 0.5 });
  t.match(scored('score_multiplier.txt', `\n${blanks}0.5${blanks}\n`), { points: 10 });
});
