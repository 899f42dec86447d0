/** Every status of a submission. Types, answer schemas, the OpenAPI document and the client derive from this list. */

export const STATUSES = {
  pending: { ended: false, meaning: 'waits for a worker' },
  running: { ended: false, meaning: 'a worker runs it' },
  completed: { ended: true, meaning: 'the program ran to its end, or did not compile' },
  error: { ended: true, meaning: 'the service failed for good, not the program' },
  cancelled: { ended: true, meaning: 'its account cancelled it before it ended' },
} as const satisfies Readonly<Record<string, { ended: boolean; meaning: string }>>;

export type Status = keyof typeof STATUSES;

/** A status that never changes again. */
export type EndedStatus = {
  [S in Status]: (typeof STATUSES)[S]['ended'] extends true ? S : never;
}[Status];

export const STATUS_NAMES = Object.keys(STATUSES) as [Status, ...Status[]];

/** Neither pending nor running: for a client, so has one that a later version of the service adds. */
export const hasEnded = (status: Status): status is EndedStatus =>
  (STATUSES[status] as { ended: boolean } | undefined)?.ended ?? true;
