/**
 * Runs for a language model. What called the tool may end the call at a limit of its own, often after 60 s. The model then knows
 * no id, and sends its program again. So an answer comes before that, with the id; and the same request again, behind a call
 * that gave no id, is the same submission.
 */
import { createHash, randomUUID } from 'node:crypto';
import type {
  CallOptions,
  Client,
  ResultRecord,
  SubmissionRequest,
  Toolchain,
} from '../client/client.ts';
import { hasEnded } from '../domain/statuses.ts';
import { callText, ResultNotRead } from './follow_submission.ts';

const ANSWER_S = 45;
/** For the record as it is then. */
const LOOK_MS = 10_000;

/** `next` is there until the submission has ended. */
export type Found = ResultRecord & { next?: string };

export type ToolRuns = {
  run(request: SubmissionRequest, signal: AbortSignal): Promise<Found>;
  read(id: string, signal: AbortSignal): Promise<Found>;
  languages(signal: AbortSignal): Promise<Toolchain[]>;
};

/** `limit`: a signal that fires when a call that begins now has taken too long. */
export function toolRuns(
  client: Client,
  limit = () => AbortSignal.timeout(ANSWER_S * 1_000),
): ToolRuns {
  /** The idempotency keys of requests that may have been accepted, by the hash of the request. */
  const unanswered = new Map<string, string>();

  async function run(request: SubmissionRequest, signal: AbortSignal): Promise<Found> {
    const hash = createHash('sha256').update(JSON.stringify(request)).digest('hex');
    const idempotency_key = unanswered.get(hash) ?? randomUUID();
    // Two calls at the same time are two submissions.
    unanswered.delete(hash);
    const end = limit();
    const tries = noteFailures();
    let accepted: string | null = null;
    try {
      return await client.run(request, {
        signal: AbortSignal.any([signal, end]),
        onRetry: tries.onRetry,
        idempotency_key,
        onAccepted: (id) => {
          accepted = id;
        },
      });
    } catch (error) {
      // Without the call, the model does not see the id either.
      if (accepted === null || signal.aborted) unanswered.set(hash, idempotency_key);
      if (signal.aborted) throw error;
      if (accepted === null)
        throw end.aborted ? new Error(`${NOT_ACCEPTED}${tries.inWords()}`) : error;
      const id = accepted;
      if (!end.aborted) throw new ResultNotRead(id, error);
      return look(id, signal, (why) => new ResultNotRead(id, why));
    }
  }

  async function read(id: string, signal: AbortSignal): Promise<Found> {
    const end = limit();
    try {
      return await client.wait(id, { signal: AbortSignal.any([signal, end]) });
    } catch (error) {
      if (signal.aborted || !end.aborted) throw error;
      return look(id, signal, (why) => new Error(`the result cannot be read: ${callText(why)}`));
    }
  }

  async function look(
    id: string,
    signal: AbortSignal,
    failure: (why: unknown) => Error,
  ): Promise<Found> {
    const tries = noteFailures();
    const soon = AbortSignal.timeout(LOOK_MS);
    try {
      const both = AbortSignal.any([signal, soon]);
      const record = await client.result(id, { signal: both, onRetry: tries.onRetry });
      return hasEnded(record.status) ? record : { ...record, next: NEXT };
    } catch (error) {
      if (signal.aborted) throw error;
      throw failure(soon.aborted ? (tries.last() ?? error) : error);
    }
  }

  async function languages(signal: AbortSignal): Promise<Toolchain[]> {
    const tries = noteFailures();
    const end = limit();
    try {
      const both = AbortSignal.any([signal, end]);
      return await client.toolchains({ signal: both, onRetry: tries.onRetry });
    } catch (error) {
      throw end.aborted && !signal.aborted ? (tries.last() ?? error) : error;
    }
  }

  return { run, read, languages };
}

/** What the service said is worth more to the caller than that the time is over. */
function noteFailures() {
  let last: Error | null = null;
  return {
    onRetry: ((error) => {
      last = error;
    }) satisfies CallOptions['onRetry'],
    last: () => last,
    inWords: () => (last === null ? '' : `; the last try: ${callText(last)}`),
  };
}

const NOT_ACCEPTED = `the service has not said within ${ANSWER_S} s that it accepted the program: call again with the same arguments, and it does not run twice`;
const NEXT =
  'It has not ended. Call read_result with this id to wait for it, and do not send it again.';
