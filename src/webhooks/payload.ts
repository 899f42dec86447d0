/**
 * The body of a webhook. It depends on the ended submission alone (on no clock and no attempt
 * number), so every attempt sends the same bytes.
 */
import { type ResultRecord, type ResultRow, renderResult } from '../domain/record.ts';

/**
 * In bytes of UTF-8: many receivers limit bodies far below what a program may print. It holds for stdout and for stderr; for
 * those of all tests together, and their messages; for the transcript; and for the files.
 */
export const OUTPUT_LIMIT_BYTES = 65_536;

export function webhookBody(row: ResultRow): Uint8Array {
  if (row.completed_at === null)
    throw new Error(`submission ${row.id} has not ended, so it has no webhook body`);
  const data = renderResult(row);
  const stdout = cutText(data.stdout, OUTPUT_LIMIT_BYTES);
  const stderr = cutText(data.stderr, OUTPUT_LIMIT_BYTES);
  const body = {
    type: 'submission.completed',
    timestamp: row.completed_at.toISOString(),
    data: {
      ...data,
      stdout: stdout.text,
      stderr: stderr.text,
      stdout_truncated: data.stdout_truncated || stdout.cut,
      stderr_truncated: data.stderr_truncated || stderr.cut,
      tests: data.tests && cutTests(data.tests),
      files: data.files && withinLimit(data.files),
      transcript: cutText(data.transcript, OUTPUT_LIMIT_BYTES).text,
    },
  };
  return Buffer.from(JSON.stringify(body), 'utf8');
}

type Test = NonNullable<ResultRecord['tests']>[number];
type File = NonNullable<ResultRecord['files']>[number];

/** The test that decides the verdict keeps its texts, as in the record; then the first tests do, up to the limit. */
function cutTests(tests: readonly Test[]): Test[] {
  const [cutStdout, cutStderr, cutMessage] = [cutter(), cutter(), cutter()];
  const cut = (test: Test): Test => {
    const stdout = cutStdout(test.stdout);
    const stderr = cutStderr(test.stderr);
    return {
      ...test,
      message: cutMessage(test.message).text,
      stdout: stdout.text,
      stderr: stderr.text,
      stdout_truncated: test.stdout_truncated || stdout.cut,
      stderr_truncated: test.stderr_truncated || stderr.cut,
    };
  };
  const decides = tests.find(({ verdict }) => verdict !== 'AC');
  const decided = decides && cut(decides);
  return tests.map((test) => (test === decides ? decided! : cut(test)));
}

/** Cuts what exceeds the limit together with what it was given before. */
function cutter(): (text: string | null) => Cut {
  let left = OUTPUT_LIMIT_BYTES;
  return (text) => {
    const cut = cutText(text, left);
    left -= Buffer.byteLength(cut.text ?? '');
    return cut;
  };
}

/** The first files keep their content, up to the limit; of the others there are size and hash. */
function withinLimit(files: readonly File[]): File[] {
  let left = OUTPUT_LIMIT_BYTES;
  return files.map((file) => {
    left -= file.size;
    return left < 0 ? { ...file, content_base64: null } : file;
  });
}

type Cut = { text: string | null; cut: boolean };

/** The longest prefix of the text that fits, without splitting a character. */
export function cutText(text: string | null, limitBytes: number): Cut {
  if (text === null) return { text, cut: false };
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= limitBytes) return { text, cut: false };
  let end = limitBytes;
  while (end > 0 && isContinuation(bytes[end]!)) end -= 1;
  return { text: bytes.toString('utf8', 0, end), cut: true };
}

function isContinuation(byte: number): boolean {
  return (byte & 0b1100_0000) === 0b1000_0000;
}
