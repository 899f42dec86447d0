/**
 * Room for uploads of test sets: each takes a file, a database connection and some processor time for as long as it lasts.
 * So a process takes few at once, and of one account only one, lest a slow client of it keep all others out.
 */
export type Uploads = {
  /** Null: there is no room now. Else what gives the room back; it may be called again. */
  enter(account_id: string): (() => void) | null;
};

export function createUploads(at_once: number): Uploads {
  const accounts = new Set<string>();
  return {
    enter(account_id) {
      if (accounts.size >= at_once || accounts.has(account_id)) return null;
      accounts.add(account_id);
      let left = false;
      return () => {
        if (!left) accounts.delete(account_id);
        left = true;
      };
    },
  };
}
