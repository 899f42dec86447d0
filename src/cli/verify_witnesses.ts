/**
 * Asks each witness of a policy whether the tree of this log extends the tree that it has signed last. The question is
 * c2sp.org/tlog-witness's own: the witness names the size that it knows (409), gets a proof from there, and signs (200) or
 * does not (422). So a database that was rolled back is shown also where it has grown again since.
 *
 * What the database answers here is not believed: only the witness's signature on a checkpoint that was verified, or that
 * extends it, is an answer.
 */
import type { Db } from '../db.ts';
import { additionText, cosignedNote, parseSize, WITNESS_STATUS } from '../proof/addition.ts';
import { parseCheckpoint } from '../proof/checkpoint.ts';
import { consistencyRanges, provesConsistency } from '../proof/merkle.ts';
import { BadNote, parseNote } from '../proof/note.ts';
import { judgeCheckpoint, NONE, type Policy } from '../proof/policy.ts';
import { DamagedTree } from '../proof/tiles.ts';
import { newestNote, readStoredTiles } from '../store/stored_tree.ts';
import { readNow } from '../store/verify.ts';
import { askWitness, NoAnswer } from '../witness/ask_witness.ts';

export type Asked = {
  readonly problems: readonly string[];
  readonly unanswered: readonly string[];
};

type Witness = Policy['witnesses'][number];
type Signed = { readonly note: string; readonly size: number; readonly root: Buffer };

/** Once for its size, once with a proof, and some times more where the log grows meanwhile. */
const MOST_ASKS = 6;

/** `newest`: the newest checkpoint of the log, as it was verified. */
export async function askWitnesses(
  db: Db,
  policy: Policy | null,
  newest: { readonly note: string } | null,
): Promise<Asked> {
  const problems: string[] = [];
  const unanswered: string[] = [];
  const verified = newest && signedOf(newest.note);
  await Promise.all(
    (policy?.witnesses ?? []).map(async (witness) => {
      if (!witness.url || !verified) return;
      try {
        const problem = await ask(db, policy!, witness, witness.url, verified);
        if (problem !== null) problems.push(problem);
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
        unanswered.push(`witness ${witness.name} (${witness.url}): ${error.message}`);
      }
    }),
  );
  return { problems, unanswered };
}

/** What is wrong with the log, by what the witness says; null: it has signed our tree. Throws NoAnswer. */
async function ask(
  db: Db,
  policy: Policy,
  { name, key }: Witness,
  url: string,
  verified: Signed,
): Promise<string | null> {
  const { signal } = new AbortController();
  let ours = verified;
  let old = 0;
  for (let count = 0; count < MOST_ASKS; count++) {
    if (old > ours.size) {
      const larger = await extended(db, policy, ours);
      if (larger === null || larger.size < old)
        return `the log was rolled back: witness ${name} has signed a tree of ${old} events, and the newest checkpoint here covers ${ours.size}`;
      ours = larger;
    }
    const proof = await proofOf(db, old, ours.size);
    if (proof === null)
      return `the tiles give no proof from ${old} to ${ours.size} events, so witness ${name} cannot be asked`;
    const addition = additionText(old, proof, ours.note);
    const answer = await askWitness(url.replace(/\/$/, ''), addition, signal);
    const forked = `the log was rolled back or forked: it does not begin with the tree of ${old} events that witness ${name} has signed`;
    if (answer.status === WITNESS_STATUS.not_proven) return forked;
    if (answer.status === WITNESS_STATUS.cosigned) {
      if (isCosigned(ours.note, answer.body, key)) return null;
      throw new NoAnswer('its answer has no signature of its own');
    }
    const size = answer.status === WITNESS_STATUS.other_size ? parseSize(answer.body) : null;
    if (size === null) throw new NoAnswer(`it answered ${answer.status}`);
    if (size === old && old === ours.size) return forked;
    old = size;
  }
  throw new NoAnswer('it answers with another size each time');
}

/** The newest checkpoint now, if it extends the one that was verified: the log may have grown since. */
async function extended(db: Db, policy: Policy, from: Signed): Promise<Signed | null> {
  const note = await readNow(db, newestNote);
  const newest = note === null ? null : signedOf(note);
  if (!newest || newest.size < from.size) return null;
  const proof = await proofOf(db, from.size, newest.size);
  const { size, root } = newest;
  const claim = { old_size: from.size, old_root: from.root, size, root, proof: proof ?? [] };
  const { problem } = judgeCheckpoint({ ...policy, quorum: NONE }, parseNote(newest.note));
  return problem === null && proof !== null && provesConsistency(claim) ? newest : null;
}

async function proofOf(db: Db, old: number, size: number): Promise<Buffer[] | null> {
  try {
    const ranges = consistencyRanges(old, size);
    const tiles = await readNow(db, (tx) => readStoredTiles(tx, ranges));
    return tiles.consistencyProof(old, size);
  } catch (error) {
    if (error instanceof DamagedTree) return null;
    throw error;
  }
}

function signedOf(note: string): Signed | null {
  try {
    const { size, root } = parseCheckpoint(parseNote(note).text);
    return { note, size, root };
  } catch (error) {
    if (error instanceof BadNote) return null;
    throw error;
  }
}

function isCosigned(note: string, answer: string, key: Witness['key']): boolean {
  try {
    return cosignedNote(parseNote(note).text, answer, key) !== null;
  } catch (error) {
    if (error instanceof BadNote) return false;
    throw error;
  }
}
