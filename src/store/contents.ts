/** A worker's way to the contents of test sets: of those alone that the submissions which it runs need. */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';
import type { FileRef } from '../judging/test_set.ts';
import { PIECE_BYTES } from './test_sets.ts';

/** The database does not have the bytes of that hash, or not for this consumer. */
export class ContentMissing extends Error {}

/** One call reads so many pieces. */
const PIECES = 8;

/** The bytes as they arrive. Throws ContentMissing, at their end at the latest, if they are not those of the file. */
export async function* readContent(
  db: Db,
  consumer_id: string,
  { sha256, size }: FileRef,
): AsyncGenerator<Uint8Array> {
  const name = Buffer.from(sha256, 'hex');
  const hash = createHash('sha256');
  const count = Math.ceil(size / PIECE_BYTES);
  let seen = 0;
  for (let first = 0; first < count; first += PIECES) {
    const rows = await db<{ n: number; bytes: Buffer }[]>`
      select n, bytes from runledger.read_pieces(${consumer_id}, ${name}, ${first}, ${PIECES})`;
    for (const [at, { n, bytes }] of rows.entries()) {
      if (n !== first + at) break;
      hash.update(bytes);
      seen += bytes.length;
      yield bytes;
    }
    if (rows.length < Math.min(PIECES, count - first)) break;
  }
  if (seen !== size || hash.digest('hex') !== sha256)
    throw new ContentMissing(`the database does not have the ${size} bytes of content ${sha256}`);
}
