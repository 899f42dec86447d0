/**
 * Answers that are sent and not yet read. Each stays in memory until its client has read it, which may be never. So there is a
 * bound for all of them together: beyond it, the connections of the oldest ones are closed. A client that reads is soon out of
 * the list. (Large records are not in it: of each only a piece is in memory.)
 */
import type { ServerResponse } from 'node:http';

export type UnreadAnswers = {
  /** This answer, of so many bytes, was just given to its connection. */
  add(res: ServerResponse, bytes: number): void;
};

export function createUnreadAnswers(most_bytes: number): UnreadAnswers {
  // Insertion order is order of time.
  const unread = new Map<ServerResponse, number>();
  let total = 0;
  const remove = (res: ServerResponse) => {
    total -= unread.get(res) ?? 0;
    unread.delete(res);
  };
  return {
    add(res, bytes) {
      unread.set(res, bytes);
      total += bytes;
      res.once('close', () => remove(res));
      for (const oldest of unread.keys()) {
        if (total <= most_bytes || oldest === res) return;
        remove(oldest);
        oldest.destroy();
      }
    },
  };
}
