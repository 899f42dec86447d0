/**
 * Answers that are sent and not yet read. Each stays in memory until its client has read it, which may be never. So there is a
 * bound for all of them together: beyond it, the connection of the oldest answer is closed, of the owner that has most. So who
 * reads nothing loses their own answers, and not those of others. A client that reads is soon out of the list, and one that
 * has not read in time is cut: else its connection would be open for ever. (Large records are not in it: of each only a piece
 * is in memory.)
 */
import type { ServerResponse } from 'node:http';

export type UnreadAnswers = {
  /**
   * This answer, of so many bytes, was just given to its connection. All callers without a known key are one owner: they can
   * make up keys, and have many addresses.
   */
  add(res: ServerResponse, bytes: number, account_id: string | null): void;
};

/** For the whole of an answer, or for one piece of it. */
export const UNREAD_MS = 120_000;

/** Insertion order is order of time. */
type Owned = { bytes: number; answers: Map<ServerResponse, number> };

export function createUnreadAnswers(most_bytes: number, most_ms = UNREAD_MS): UnreadAnswers {
  const owners = new Map<string | null, Owned>();
  let total = 0;

  function remove(res: ServerResponse, owner: string | null): void {
    const owned = owners.get(owner);
    const bytes = owned?.answers.get(res);
    if (owned === undefined || bytes === undefined) return;
    owned.answers.delete(res);
    owned.bytes -= bytes;
    total -= bytes;
    if (owned.answers.size === 0) owners.delete(owner);
  }

  /** Another one than the newest; null: there is none. */
  function nextToGo(newest: ServerResponse): { res: ServerResponse; owner: string | null } | null {
    let most_owned = 0;
    let next = null;
    for (const [owner, { bytes, answers }] of owners) {
      const [oldest] = answers.keys();
      if (oldest === undefined || oldest === newest || bytes <= most_owned) continue;
      most_owned = bytes;
      next = { res: oldest, owner };
    }
    return next;
  }

  return {
    add(res, bytes, account_id) {
      const owned = owners.get(account_id) ?? { bytes: 0, answers: new Map() };
      owners.set(account_id, owned);
      owned.answers.set(res, bytes);
      owned.bytes += bytes;
      total += bytes;
      const late = setTimeout(() => res.destroy(), most_ms).unref();
      res.once('close', () => {
        clearTimeout(late);
        remove(res, account_id);
      });
      while (total > most_bytes) {
        const next = nextToGo(res);
        if (next === null) return;
        remove(next.res, next.owner);
        next.res.destroy();
      }
    },
  };
}
