import t from 'tap';
import type { ResultRow } from '../../src/domain/record.ts';
import { cutText, OUTPUT_LIMIT_BYTES, webhookBody } from '../../src/webhooks/payload.ts';

const row = (over: Partial<ResultRow> = {}): ResultRow => ({
  id: '01970000-0000-7000-8000-00000000000a',
  account_id: '01970000-0000-7000-8000-0000000000ac',
  status: 'completed',
  language: 'python',
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  stdout: Buffer.from('42\n'),
  stderr: Buffer.from(''),
  stdout_truncated: false,
  stderr_truncated: false,
  cpu_time_us: 12_345,
  wall_time_us: 23_456,
  memory_peak_bytes: 9_000_000,
  compile: null,
  limits: null,
  limit_exceeded: null,
  created_at: new Date('2026-01-02T03:04:05.006Z'),
  started_at: new Date('2026-01-02T03:04:05.106Z'),
  completed_at: new Date('2026-01-02T03:04:05.206Z'),
  attempts: 1,
  tests: null,
  score: null,
  parts: { tests: null, files: null, transcript: null },
  progress: null,
  proof: null,
  ...over,
});
const parsed = (over: Partial<ResultRow>) =>
  JSON.parse(Buffer.from(webhookBody(row(over))).toString());

t.test('the body has the type, the time of the result, and the record', async (t) => {
  const body = parsed({});
  t.same(Object.keys(body), ['type', 'timestamp', 'data']);
  t.equal(body.type, 'submission.completed');
  t.equal(body.timestamp, '2026-01-02T03:04:05.206Z');
  t.match(body.data, {
    id: row().id,
    status: 'completed',
    verdict: 'AC',
    stdout: '42\n',
    cpu_time: 0.012345,
    stdout_truncated: false,
  });
  t.notOk('account_id' in body.data);
});

t.test('a submission that ended in error has the same type', async (t) => {
  const body = parsed({
    status: 'error',
    verdict: 'IE',
    exit_code: null,
    stdout: null,
    stderr: null,
    cpu_time_us: null,
  });
  t.equal(body.type, 'submission.completed');
  t.match(body.data, {
    status: 'error',
    verdict: 'IE',
    stdout: null,
    stderr: null,
    cpu_time: null,
    stdout_truncated: false,
  });
});

t.test('the same submission always gives the same bytes', async (t) => {
  t.same(webhookBody(row()), webhookBody(row()));
});

t.test('each output is cut at the limit and flagged on its own', async (t) => {
  const full = Buffer.alloc(OUTPUT_LIMIT_BYTES, 'a');
  const over = Buffer.alloc(OUTPUT_LIMIT_BYTES + 1, 'a');
  t.match(parsed({ stdout: full }).data, { stdout: full.toString(), stdout_truncated: false });
  t.match(parsed({ stdout: over }).data, {
    stdout: full.toString(),
    stdout_truncated: true,
    stderr_truncated: false,
  });
  t.match(parsed({ stderr: over }).data, {
    stderr: full.toString(),
    stderr_truncated: true,
    stdout_truncated: false,
  });
  t.match(parsed({ stdout_truncated: true }).data, { stdout: '42\n', stdout_truncated: true });
});

t.test('the limit counts bytes after invalid UTF-8 is replaced', async (t) => {
  const { stdout, stdout_truncated } = parsed({
    stdout: Buffer.alloc(OUTPUT_LIMIT_BYTES, 0xff),
  }).data;
  t.equal(Buffer.byteLength(stdout), OUTPUT_LIMIT_BYTES - (OUTPUT_LIMIT_BYTES % 3));
  t.match(stdout, /^\ufffd+$/);
  t.equal(stdout_truncated, true);
});

t.test('a cut never splits a character', async (t) => {
  for (const [character, bytes] of [
    ['é', 2],
    ['€', 3],
    ['😀', 4],
  ] as const) {
    for (let limit = 0; limit <= 3 * bytes; limit += 1) {
      const { text, cut } = cutText(character.repeat(3), limit);
      t.equal(text, character.repeat(Math.floor(limit / bytes)), `${character} at ${limit}`);
      t.equal(cut, limit < 3 * bytes);
    }
  }
});

t.test('a submission that has not ended has no body', async (t) => {
  t.throws(() => webhookBody(row({ status: 'running', completed_at: null })), /has not ended/);
});
