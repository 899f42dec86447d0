/**
 * Marks the moments that a submission passes. bench/budget.ts measures with them where its time goes. If nobody listens, a mark
 * costs one look at a field. No mark changes what the service does.
 */
import { channel } from 'node:diagnostics_channel';

export const MARKS = 'runledger.marks';

/** In the order in which a request that waits passes them, if a worker has a free slot. */
export type Moment =
  | 'web has the request'
  | 'web sends the submission'
  | 'web has its commit'
  | 'worker hears of its execution'
  | 'worker has started it'
  | 'worker gives it to the executor'
  | 'worker has the outcome'
  | 'worker has the commit of the end'
  | 'web hears the result'
  | 'web answers';

const marks = channel(MARKS);

export function mark(moment: Moment): void {
  if (marks.hasSubscribers) marks.publish(moment);
}
