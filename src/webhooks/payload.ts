/**
 * The body of a webhook. It depends on the ended submission alone (on no clock and no attempt
 * number), so every attempt sends the same bytes.
 */
import { type ResultRow, renderResult } from '../domain/record.ts';

/** For stdout and stderr each, in bytes of UTF-8: many receivers limit bodies far below what a program may print. */
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
    },
  };
  return Buffer.from(JSON.stringify(body), 'utf8');
}

/** The longest prefix of the text that fits, without splitting a character. */
export function cutText(
  text: string | null,
  limitBytes: number,
): { text: string | null; cut: boolean } {
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
