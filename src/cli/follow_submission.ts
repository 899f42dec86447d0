/** Submits a program, and waits until its submission has ended. */
import {
  ApiError,
  type Client,
  type ResultRecord,
  type SubmissionRequest,
  type Unreachable,
} from '../client/client.ts';

/** It was accepted, so it runs, whether its result can be read or not. Submitting it again would run it twice. */
export class ResultNotRead extends Error {
  readonly id: string;

  constructor(id: string, why: unknown) {
    const text = `submission ${id} was accepted, but no result: ${callText(why)}`;
    super(`${text}; it goes on, so read /api/result/${id} and do not send it again`);
    this.id = id;
  }
}

/** The error of a call in one text, with the request that an operator finds in the log. */
export function callText(error: unknown): string {
  const { message } = error as Error;
  const id = error instanceof ApiError && error.request_id ? ` (request ${error.request_id})` : '';
  return `${message}${id}`;
}

type OnProgress = (done: number, of: number) => void;

/** The word of the error because of which it is sent again; null when it was accepted. */
type OnSending = (word: string | null) => void;

/** `onProgress` gets how many tests have ended; without it, nothing but the end is asked for. */
export async function followSubmission(
  client: Client,
  request: SubmissionRequest,
  onProgress: OnProgress | null,
  onSending: OnSending = () => {},
): Promise<ResultRecord> {
  let accepted: string | null = null;
  const onRetry = ({ error }: ApiError | Unreachable) => {
    if (accepted === null) onSending(error);
  };
  const onAccepted = (id: string) => {
    accepted = id;
    onSending(null);
  };
  try {
    if (onProgress === null) return await client.run(request, { onRetry, onAccepted });
    const { id } = await client.submit(request, { onRetry });
    onAccepted(id);
    await showProgress(client, id, onProgress);
    return await client.wait(id);
  } catch (error) {
    throw accepted === null ? error : new ResultNotRead(accepted, error);
  }
}

/** Too many streams are open, or the rate is spent: a wait for one of them would hold up the result. */
const endIfLimited = (error: Error): void => {
  if (error instanceof ApiError && error.status === 429) throw error;
};

/** One request for the whole run. Settles at its end, and where the service gives no stream: the result does not need one. */
async function showProgress(client: Client, id: string, onProgress: OnProgress): Promise<void> {
  try {
    for await (const { event, data } of client.events(id, { onRetry: endIfLimited })) {
      if (event !== 'progress') continue;
      const { done, of } = data as { done: number; of: number };
      onProgress(done, of);
    }
  } catch {
    // The wait that follows has the same failure, or there is no need of a stream.
  }
}
