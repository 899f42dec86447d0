/** Submits a program, and waits until its submission has ended. */
import {
  ApiError,
  type CallOptions,
  type Client,
  type ResultRecord,
  type SubmissionRequest,
  Unreachable,
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

type Following = Pick<CallOptions, 'onTry' | 'onRetry'> & {
  onSending?: OnSending;
  onAccepted?: (id: string) => void;
  signal?: AbortSignal;
};

/** `onProgress` gets how many tests have ended; without it, nothing but the end is asked for. */
export async function followSubmission(
  client: Client,
  request: SubmissionRequest,
  onProgress: OnProgress | null,
  { onSending, onAccepted, signal, ...tries }: Following = {},
): Promise<ResultRecord> {
  const stops = signal ? { signal } : {};
  let accepted: string | null = null;
  const onRetry = (error: ApiError | Unreachable) => {
    if (accepted !== null) return;
    onSending?.(error.error);
    tries.onRetry?.(error);
  };
  const submitting = { ...stops, onRetry, ...(tries.onTry && { onTry: tries.onTry }) };
  const isAccepted = (id: string) => {
    accepted = id;
    onSending?.(null);
    onAccepted?.(id);
  };
  try {
    if (onProgress === null)
      return await client.run(request, { ...submitting, onAccepted: isAccepted });
    const { id } = await client.submit(request, submitting);
    isAccepted(id);
    await showProgress(client, id, onProgress, stops);
    return await client.wait(id, stops);
  } catch (error) {
    throw accepted === null || signal?.aborted ? error : new ResultNotRead(accepted, error);
  }
}

/** After Ctrl-C, for the answer to a submit that may be accepted: longer than the client has it wait for the result. */
const ANSWER_MS = 6_000;

type Interruptible = {
  onSending: OnSending;
  /** Ctrl-C came while a submit was on its way: the command waits for its answer. */
  onAsking: () => void;
};

/** Of a command that has one submission: Ctrl-C ends the command, and not the submission, whose id it says if there is one. */
export async function followUntilInterrupted(
  client: Client,
  request: SubmissionRequest,
  onProgress: OnProgress | null,
  { onSending, onAsking }: Interruptible,
): Promise<ResultRecord> {
  const interrupt = new AbortController();
  const { signal } = interrupt;
  let accepted: string | null = null;
  let is_trying = false;
  let may_be_done = false;
  let answer: NodeJS.Timeout | undefined;
  const end = (text: string) => interrupt.abort(interrupted(text));
  const onInterrupt = () => {
    if (accepted !== null) end(`${wasAccepted(accepted)}; ${goesOn(accepted)}`);
    else if (!is_trying) end(unaccepted(may_be_done));
    else if (answer !== undefined) end(unaccepted(true));
    else {
      onAsking();
      answer = setTimeout(() => end(unaccepted(true)), ANSWER_MS);
    }
  };
  const following = followSubmission(client, request, onProgress, {
    ...{ onSending, signal },
    onAccepted(id) {
      accepted = id;
      if (answer !== undefined) onInterrupt();
    },
    onTry() {
      is_trying = true;
    },
    onRetry(error) {
      is_trying = false;
      may_be_done = error.may_be_done;
      if (answer !== undefined) onInterrupt();
    },
  });
  process.on('SIGINT', onInterrupt);
  try {
    const record = await following;
    if (!signal.aborted) return record;
    throw interrupted(`${wasAccepted(record.id)}, and has ended: read /api/result/${record.id}`);
  } catch (error) {
    const was_refused = answer !== undefined && accepted === null && isOfCall(error);
    throw was_refused ? interrupted(unaccepted(error.may_be_done)) : error;
  } finally {
    clearTimeout(answer);
    process.off('SIGINT', onInterrupt);
  }
}

const interrupted = (text: string) => new Interrupted(`interrupted: ${text}`);
const wasAccepted = (id: string) => `submission ${id} was accepted`;
const unaccepted = (may_be_done: boolean) =>
  may_be_done
    ? 'a submission may have been accepted: look at /api/submissions before you send it again'
    : 'nothing was accepted';

const isOfCall = (error: unknown): error is ApiError | Unreachable =>
  error instanceof ApiError || error instanceof Unreachable;

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
