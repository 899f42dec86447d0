/**
 * Runs for a language model. What called the tool may end the call at a limit of its own, often after 60 s. The model then knows
 * no id, and sends its program again. So an answer comes before that, with the id; and the same request again, behind a call
 * that gave no id, is the same submission.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { Client, ResultRecord, SubmissionRequest, Toolchain } from '../client/client.ts';
import { hasEnded } from '../domain/statuses.ts';
import { ResultNotRead } from './follow_submission.ts';

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
    let accepted: string | null = null;
    try {
      return await client.run(request, {
        signal: AbortSignal.any([signal, end]),
        idempotency_key,
        onAccepted: (id) => {
          accepted = id;
        },
      });
    } catch (error) {
      // Without the call, the model does not see the id either.
      if (accepted === null || signal.aborted) unanswered.set(hash, idempotency_key);
      if (signal.aborted) throw error;
      if (accepted === null) throw end.aborted ? new Error(NOT_ACCEPTED) : error;
      if (!end.aborted) throw new ResultNotRead(accepted, error);
      return look(accepted, signal);
    }
  }

  async function read(id: string, signal: AbortSignal): Promise<Found> {
    const end = limit();
    try {
      return await client.wait(id, { signal: AbortSignal.any([signal, end]) });
    } catch (error) {
      if (signal.aborted || !end.aborted) throw error;
      return look(id, signal);
    }
  }

  async function look(id: string, signal: AbortSignal): Promise<Found> {
    try {
      const soon = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS)]);
      const record = await client.result(id, { signal: soon });
      return hasEnded(record.status) ? record : { ...record, next: NEXT };
    } catch (error) {
      throw new ResultNotRead(id, error);
    }
  }

  function languages(signal: AbortSignal): Promise<Toolchain[]> {
    return client.toolchains({ signal: AbortSignal.any([signal, limit()]) });
  }

  return { run, read, languages };
}

const NOT_ACCEPTED = `the service has not said within ${ANSWER_S} s that it accepted the program: call again with the same arguments, and it does not run twice`;
const NEXT =
  'It has not ended. Call read_result with this id to wait for it, and do not send it again.';
