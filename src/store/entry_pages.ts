/**
 * Reads entries a page at a time, for work that needs the connection between two pages. An event may have a megabyte of facts,
 * so a page is bounded by its bytes.
 */
import type { Db } from '../db.ts';
import { readEntries } from './entries.ts';

export const PAGE_BYTES = 2 ** 24;
const MOST_ENTRIES = 4096;
const FIRST_ENTRIES = 256;

export class EntryPages {
  readonly #db: Db;
  readonly #page_bytes: number;
  #limit = FIRST_ENTRIES;

  constructor(db: Db, page_bytes = PAGE_BYTES) {
    this.#db = db;
    this.#page_bytes = page_bytes;
  }

  /** The first entries that the query gives, at most `most`, and at least one, if there is one. */
  async next(query: string, most = Number.POSITIVE_INFINITY): Promise<Buffer[]> {
    const entries: Buffer[] = [];
    let bytes = 0;
    const limit = Math.min(this.#limit, most);
    for await (const chunk of readEntries(this.#db, `${query} limit ${limit}`))
      for (const entry of chunk) {
        // What does not fit is read again with the next page.
        if (bytes >= this.#page_bytes) continue;
        entries.push(entry);
        bytes += entry.length;
      }
    const fitting = Math.floor((entries.length * this.#page_bytes) / Math.max(bytes, 1));
    this.#limit = Math.min(Math.max(fitting, 1), 2 * this.#limit, MOST_ENTRIES);
    return entries;
  }
}
