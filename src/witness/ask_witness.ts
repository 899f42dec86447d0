/** Sends a log's request to a witness. The answer is a stranger's: bounded in time and in size, and no redirect is followed. */

export type WitnessAnswer = {
  readonly status: number;
  readonly type: string;
  readonly body: string;
};

const TIMEOUT_MS = 10_000;
const MOST_ANSWER_BYTES = 16 * 1024;

/** The witness gave no answer that can be used. */
export class NoAnswer extends Error {}

export async function askWitness(
  url: string,
  body: string,
  stopping: AbortSignal,
): Promise<WitnessAnswer> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const answer = await fetch(`${url}/add-checkpoint`, {
      method: 'POST',
      body,
      redirect: 'manual',
      headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Accept-Encoding': 'identity' },
      signal: AbortSignal.any([timeout, stopping]),
    });
    const type = answer.headers.get('content-type') ?? '';
    return { status: answer.status, type, body: await readAnswer(answer) };
  } catch (error) {
    if (error instanceof NoAnswer) throw error;
    if (timeout.aborted) throw new NoAnswer(`no answer within ${TIMEOUT_MS / 1000} s`);
    const { cause, message } = error as Error & { cause?: Error };
    throw new NoAnswer(cause?.message || message);
  }
}

async function readAnswer(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length;
    if (bytes > MOST_ANSWER_BYTES) throw new NoAnswer(`an answer over ${MOST_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
