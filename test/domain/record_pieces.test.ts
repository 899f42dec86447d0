/** The pieces of a record are the bytes that JSON.stringify would give. */
import t from 'tap';
import { factsOf, packFiles, packTests } from '../../src/domain/judged_record.ts';
import { type ResultEncoding, type ResultRow, renderResult } from '../../src/domain/record.ts';
import {
  lengthOf,
  PIECE_BYTES,
  type RecordPart,
  readerOf,
  recordJson,
  recordParts,
  STEP_BYTES,
} from '../../src/domain/record_pieces.ts';
import { notRun } from '../../src/judging/outcome.ts';

const none = { tests: null, files: null, transcript: null };

const rowOf = (facts: Partial<ResultRow>): ResultRow => ({
  id: '01970000-0000-7000-8000-00000000000a',
  account_id: '01970000-0000-7000-8000-0000000000ac',
  status: 'completed',
  language: 'python',
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  stdout: new Uint8Array(),
  stderr: new Uint8Array(),
  stdout_truncated: false,
  stderr_truncated: false,
  cpu_time_us: 12_345,
  wall_time_us: 1_000_001,
  memory_peak_bytes: 1_234_567,
  compile: null,
  limits: { cpu_ms: 1_500 },
  limit_exceeded: null,
  created_at: new Date('2026-01-02T03:04:05.006Z'),
  started_at: new Date('2026-01-02T03:04:06.007Z'),
  completed_at: new Date('2026-01-02T03:04:07.008Z'),
  attempts: 1,
  tests: null,
  score: null,
  parts: none,
  progress: null,
  proof: null,
  ...facts,
});

/** Of the long kinds not every byte is tried where an output is divided: each try makes 64 KiB. */
const PLACES = 24;

/** Each is text of one kind, or bytes that are no text. */
const KINDS: Record<string, Uint8Array> = {
  'nothing to escape': Buffer.from('plain'),
  'every byte below 128': Uint8Array.from({ length: 128 }, (_, code) => code),
  'letters of two, three and four bytes': Buffer.from('ü€😀\u2028\u2029\ufeff\ufffd'),
  'a byte order mark': Buffer.from('\ufeffa'),
  'a byte order mark, and a byte that is no text': Buffer.from('efbbbf61ff', 'hex'),
  'every byte': Uint8Array.from({ length: 256 }, (_, code) => code),
  'lone surrogates': Buffer.from('eda080edb080', 'hex'),
  'cut sequences': Buffer.from('c3e282f09f98c0aff4908080fe', 'hex'),
};

function* piecesOf(parts: readonly RecordPart[]): Generator<Uint8Array> {
  const reader = readerOf(parts);
  const target = new Uint8Array(PIECE_BYTES);
  for (let size = reader.read(target); size > 0; size = reader.read(target))
    yield target.slice(0, size);
}

function sameBytes(row: ResultRow, encoding: ResultEncoding = 'utf8'): string | null {
  const whole = Buffer.from(JSON.stringify(renderResult(row, encoding)));
  const parts = recordParts(row, encoding);
  const pieces = Buffer.concat([...piecesOf(parts)]);
  if (!whole.equals(recordJson(row, encoding))) return 'other bytes as a whole';
  if (lengthOf(parts) !== pieces.length) return `${lengthOf(parts)} is not ${pieces.length}`;
  return pieces.equals(whole) ? null : `other bytes: ${pieces.toString().slice(0, 2_000)}`;
}

t.test('every kind of output, on both sides of each place where it is divided', async (t) => {
  for (const [kind, bytes] of Object.entries(KINDS)) {
    t.equal(sameBytes(rowOf({ stdout: bytes, stderr: bytes })), null, kind);
    t.equal(sameBytes(rowOf({ stdout: bytes, stderr: bytes }), 'base64'), null, `${kind}, base64`);
    const wrong: string[] = [];
    const step = Math.ceil(bytes.length / PLACES);
    for (let at = STEP_BYTES - bytes.length - 1; at <= STEP_BYTES; at += step) {
      const stdout = Buffer.concat([Buffer.alloc(at, 'x'), bytes, bytes]);
      const found = sameBytes(rowOf({ stdout })) ?? sameBytes(rowOf({ stdout }), 'base64');
      if (found !== null) wrong.push(`${at}: ${found}`);
    }
    t.same(wrong, [], kind);
  }
});

t.test('what takes the most room comes to its end', async (t) => {
  // Each step is as long as it can be; half a character is left over from the first.
  const stdout = Buffer.alloc(4 * STEP_BYTES);
  stdout[STEP_BYTES - 1] = 0xf0;
  t.equal(sameBytes(rowOf({ stdout, stderr: KINDS['every byte']! })), null);
  t.equal(sameBytes(rowOf({ stdout: new Uint8Array(4 * 2 ** 20) })), null);
});

t.test('only the beginning of the outputs is encoded before it is asked for', async (t) => {
  const stdout = new Uint8Array(STEP_BYTES / 2);
  const outcomes = Array.from({ length: 20 }, (_, n) => ({
    ...notRun({ n: n + 1, name: `${n}`, group: '' }),
    message: null,
    stdout,
    stderr: stdout,
  }));
  const row = rowOf({
    tests: factsOf(outcomes),
    parts: { ...none, tests: packTests(outcomes) },
    stdout,
    stderr: stdout,
  });
  const encoded = recordParts(row, 'utf8').filter((part) => part instanceof Uint8Array);
  const bytes = encoded.reduce((sum, { length }) => sum + length, 0);
  t.ok(bytes > 6 * stdout.length && bytes < 7 * STEP_BYTES, `${bytes} bytes`);
  t.equal(sameBytes(row), null);
});

t.test('records of judged submissions, and of those that have no output yet', async (t) => {
  const outcomes = Object.entries(KINDS).map(([name, stdout], n) => ({
    ...notRun({ n: n + 1, name, group: '' }),
    message: 'says "no"\0',
    stdout,
    stderr: stdout,
  }));
  const parts = {
    tests: packTests(outcomes),
    files: packFiles([{ path: 'a"b', bytes: KINDS['every byte']! }]),
    transcript: KINDS['cut sequences']!,
  };
  t.equal(sameBytes(rowOf({ tests: factsOf(outcomes), parts })), null);
  t.equal(sameBytes(rowOf({ tests: [], parts: { ...none, files: packFiles([]) } })), null);
  const pending = { status: 'pending', stdout: null, stderr: null, completed_at: null } as const;
  t.equal(sameBytes(rowOf(pending)), null);
});

t.test('a record whose payloads were left out is not shown without them', async (t) => {
  t.throws(() => renderResult(rowOf({ large: 40_000 })), /were not read/);
  t.throws(() => recordParts(rowOf({ large: 40_000 }), 'utf8'), /were not read/);
});
