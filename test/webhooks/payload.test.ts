import t from 'tap';
import { packFiles, packTests } from '../../src/domain/judged_record.ts';
import type { TestFacts } from '../../src/domain/judging_facts.ts';
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

const FACTS: TestFacts = {
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  limit_exceeded: null,
  cpu_time_us: 1,
  wall_time_us: 1,
  memory_peak_bytes: 1,
  score: null,
  stdout_truncated: false,
  stderr_truncated: false,
};

t.test('texts of tests are cut at the limit, all tests together', async (t) => {
  const COUNT = 256;
  const text = (length: number) => Buffer.alloc(length, 'a');
  const test = { group: '', message: 'm'.repeat(4_000), stdout: text(4_096), stderr: text(10) };
  const packed = packTests(Array.from({ length: COUNT }, (_, n) => ({ ...test, name: String(n) })));
  const { data } = parsed({
    tests: Array.from({ length: COUNT }, () => FACTS),
    parts: { tests: packed, files: null, transcript: text(OUTPUT_LIMIT_BYTES + 1) },
  });
  t.equal(data.tests.length, COUNT);
  const lengths = data.tests.map((each: { stdout: string }) => each.stdout.length);
  t.same(lengths.slice(0, 17), [...Array.from({ length: 16 }, () => 4_096), 0]);
  t.match(data.tests[15], { stdout_truncated: false, stderr_truncated: false });
  t.match(data.tests[16], { name: '16', stdout_truncated: true, stderr: 'a'.repeat(10) });
  t.equal(data.tests.at(-1).message, '');
  t.equal(data.transcript.length, OUTPUT_LIMIT_BYTES);
  t.ok(webhookBody(row({ tests: [] })).length < 2_000);
});

t.test('the test that decides the verdict keeps its texts', async (t) => {
  const text = Buffer.alloc(4_096, 'a');
  const test = { group: '', message: 'm'.repeat(4_000), stdout: text, stderr: text };
  const packed = packTests(Array.from({ length: 40 }, (_, n) => ({ ...test, name: String(n) })));
  const { data } = parsed({
    tests: Array.from({ length: 40 }, (_, n) => ({ ...FACTS, verdict: n < 30 ? 'AC' : 'WA' })),
    parts: { tests: packed, files: null, transcript: null },
  });
  const whole = text.toString();
  t.match(data.tests[30], { stdout: whole, stderr: whole, message: test.message });
  t.match(data.tests[30], { stdout_truncated: false, stderr_truncated: false });
  t.match(data.tests[14], { stdout: whole, stdout_truncated: false });
  t.match(data.tests[15], { stdout: '', stdout_truncated: true }, 'at the cost of others');
  t.match(data.tests[31], { stdout: '', stdout_truncated: true });
});

t.test('files beyond the limit have a size and a hash, and no content', async (t) => {
  const file = (path: string, length: number) => ({ path, bytes: Buffer.alloc(length) });
  const files = packFiles([file('a', OUTPUT_LIMIT_BYTES), file('b', 1)]);
  const { data } = parsed({ parts: { tests: null, files, transcript: null } });
  t.match(data.files, [
    { path: 'a', size: OUTPUT_LIMIT_BYTES, content_base64: /^A/ },
    { path: 'b', size: 1, sha256: /^6e34/, content_base64: null },
  ]);
});
