/** What running programs print, between the worker that runs them and those who follow them: sql/functions/live_output.sql. */
import { bytesArgument, type Db, jsonText } from '../db.ts';

export type OutputPiece = {
  submission_id: string;
  attempt: number;
  is_stderr: boolean;
  /** where in its stream it begins */
  begins_at: number;
  bytes: Uint8Array;
};

/** `n` orders the pieces of a submission. */
export type NumberedPiece = Omit<OutputPiece, 'submission_id'> & { id: string; n: string };

/** For a web process: has the output of these followed, and answers the pieces behind number `after` of each. */
export function followOutput(
  db: Db,
  ids: readonly string[],
  after: readonly string[],
): Promise<NumberedPiece[]> {
  return db<NumberedPiece[]>`
    select * from runledger.follow_output(${`{${ids.join(',')}}`}::text::uuid[], ${`{${after.join(',')}}`}::text::bigint[])`;
}

/** For a worker. */
export type LiveOutput = {
  /** Those of the submissions that somebody follows. */
  followed(submission_ids: readonly string[]): Promise<string[]>;
  /** Nothing depends on it: pieces may be lost. */
  show(pieces: readonly OutputPiece[]): Promise<void>;
};

export function liveOutputOf(db: Db, consumer_id: string): LiveOutput {
  return {
    async followed(submission_ids) {
      const [row] = await db<{ ids: string[] }[]>`
        select runledger.followed_of(${consumer_id}, ${`{${submission_ids.join(',')}}`}::text::uuid[]) as ids`;
      return row!.ids;
    },
    async show(pieces) {
      const facts = pieces.map(({ submission_id: id, bytes: _, ...rest }) => ({ id, ...rest }));
      await db`
        select runledger.show_output(${consumer_id}, ${jsonText(facts)}::text::jsonb,
          ${bytesArgument(
            db,
            pieces.map(({ bytes }) => bytes),
          )})`;
    },
  };
}
