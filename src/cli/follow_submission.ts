/** Submits a program, and waits until its submission has ended. */
import {
  ApiError,
  type Client,
  type ResultRecord,
  type SubmissionRequest,
  type Unreachable,
} from '../client/client.ts';
import { Interrupted } from './command.ts';

const goesOn = (id: string) => `it goes on, so read /api/result/${id} and do not send it again`;

/** It was accepted, so it runs, whether its result can be read or not. Submitting it again would run it twice. */
export class ResultNotRead extends Error {
  readonly id: string;

  constructor(id: string, why: unknown) {
    const text = `submission ${id} was accepted, but no result: ${callText(why)}`;
    super(`${text}; ${goesOn(id)}`);
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

type Following = {
  onSending?: OnSending;
  onAccepted?: (id: string) => void;
  signal?: AbortSignal;
};

/** `onProgress` gets how many tests have ended; without it, nothing but the end is asked for. */
export async function followSubmission(
  client: Client,
  request: SubmissionRequest,
  onProgress: OnProgress | null,
  { onSending, onAccepted, signal }: Following = {},
): Promise<ResultRecord> {
  const stops = signal ? { signal } : {};
  let accepted: string | null = null;
  const onRetry = ({ error }: ApiError | Unreachable) => {
    if (accepted === null) onSending?.(error);
  };
  const isAccepted = (id: string) => {
    accepted = id;
    onSending?.(null);
    onAccepted?.(id);
  };
  try {
    if (onProgress === null)
      return await client.run(request, { ...stops, onRetry, onAccepted: isAccepted });
    const { id } = await client.submit(request, { ...stops, onRetry });
    isAccepted(id);
    await showProgress(client, id, onProgress, stops);
    return await client.wait(id, stops);
  } catch (error) {
    throw accepted === null || signal?.aborted ? error : new ResultNotRead(accepted, error);
  }
}

/** Of a command that has one submission: once it is accepted, Ctrl-C ends the command, and not the submission. */
export async function followUntilInterrupted(
  client: Client,
  request: SubmissionRequest,
  onProgress: OnProgress | null,
  onSending: OnSending,
): Promise<ResultRecord> {
  const interrupt = new AbortController();
  let onInterrupt = () => {};
  const onAccepted = (id: string) => {
    const text = `interrupted: submission ${id} was accepted; ${goesOn(id)}`;
    onInterrupt = () => interrupt.abort(new Interrupted(text));
    process.once('SIGINT', onInterrupt);
  };
  const { signal } = interrupt;
  const given = { onSending, onAccepted, signal };
  const following = followSubmission(client, request, onProgress, given);
  return following.finally(() => process.off('SIGINT', onInterrupt));
}

/** Too many streams are open, or the rate is spent: a wait for one of them would hold up the result. */
const endIfLimited = (error: Error): void => {
  if (error instanceof ApiError && error.status === 429) throw error;
};

/** One request for the whole run. Settles at its end, and where the service gives no stream: the result does not need one. */
async function showProgress(
  client: Client,
  id: string,
  onProgress: OnProgress,
  stops: { signal?: AbortSignal },
): Promise<void> {
  try {
    for await (const { event, data } of client.events(id, { ...stops, onRetry: endIfLimited })) {
      if (event !== 'progress') continue;
      const { done, of } = data as { done: number; of: number };
      onProgress(done, of);
    }
  } catch {
    // The wait that follows has the same failure, or there is no need of a stream.
  }
}
