/** A worker's way to the contents of test sets: of those alone that the submissions which it runs need. */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';
import type { FileRef } from '../judging/test_set.ts';
import { PIECE_BYTES } from './test_sets.ts';

/** The database does not have the bytes of that hash, or not for this consumer. */
export class ContentMissing extends Error {}

/** Some pieces of a content, from a number on. */
export type ReadPieces = (file: FileRef, first: number) => Promise<Buffer[]>;

/** One call reads so many pieces. */
const PIECES = 8;

export const piecesReader =
  (db: Db, consumer_id: string): ReadPieces =>
  async ({ sha256 }, first) => {
    const rows = await db<{ bytes: Buffer }[]>`
      select bytes from runledger.read_pieces(${consumer_id}, ${Buffer.from(sha256, 'hex')}, ${first}, ${PIECES})`;
    return rows.map(({ bytes }) => bytes);
  };

/** The bytes as they arrive. Throws ContentMissing, at their end at the latest, if they are not those of the file. */
export async function* readContent(read: ReadPieces, file: FileRef): AsyncGenerator<Uint8Array> {
  const { sha256, size } = file;
  const hash = createHash('sha256');
  const count = Math.ceil(size / PIECE_BYTES);
  let seen = 0;
  for (let first = 0; first < count; first += PIECES) {
    const pieces = await read(file, first);
    for (const piece of pieces) {
      hash.update(piece);
      seen += piece.length;
      yield piece;
    }
    if (pieces.length < Math.min(PIECES, count - first) || seen > size) break;
  }
  if (seen !== size || hash.digest('hex') !== sha256)
    throw new ContentMissing(`the database does not have the ${size} bytes of content ${sha256}`);
}
