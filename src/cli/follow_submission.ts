/** Submits a program to be judged, and waits until its submission has ended. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Client, ResultRecord, SubmissionRequest } from '../client/client.ts';
import { hasEnded } from '../domain/statuses.ts';

/** Each look is a request, which counts against the key's rate. */
const LOOK_MS = 2_000;

/** `onProgress` gets how many tests have ended; without it, nothing but the end is asked for. */
export async function followSubmission(
  client: Client,
  request: SubmissionRequest,
  onProgress: ((done: number, of: number) => void) | null,
): Promise<ResultRecord> {
  if (onProgress === null) return client.run(request);
  const { id } = await client.submit(request);
  for (;;) {
    const record = await client.result(id);
    if (hasEnded(record.status)) return record;
    if (record.progress !== null) onProgress(record.progress.done, record.progress.of);
    await wait(LOOK_MS);
  }
}
