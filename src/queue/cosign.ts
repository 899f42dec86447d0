/**
 * Asks a witness to cosign the newest checkpoint (add-checkpoint of c2sp.org/tlog-witness), and judges its answer.
 *
 * The witness has cosigned some tree of this log, and says its size if ours is another. If that tree is larger than every
 * tree that we signed, or if our tree does not extend it, the log has forked: two trees were signed that disagree, as after
 * the database was restored from a copy and went on. Before a witness is believed to have another tree, the proof that it
 * was sent is checked here: damaged tiles are not a fork.
 *
 * A witness that says less than it has cosigned for us has gone back, as with a copy of its folder: it could cosign another
 * tree. It is not led on again. That is a problem that stays until its operator has given it a new key.
 *
 * A cosignature cannot be removed again. So one whose time is wrong is not kept: verify would name it for ever.
 */
import type { Db } from '../db.ts';
import { apartText, CLOCKS_APART_MS } from '../domain/clocks.ts';
import { printable } from '../domain/printable.ts';
import {
  additionText,
  cosignedNote,
  parseSize,
  SIZE_TYPE,
  WITNESS_STATUS,
} from '../proof/addition.ts';
import { consistencyRanges, provesConsistency } from '../proof/merkle.ts';
import {
  BadNote,
  cosignedAt,
  type NoteSignature,
  parseNote,
  type VerifierKey,
} from '../proof/note.ts';
import { DamagedTree } from '../proof/tiles.ts';
import { databaseTime, lastCheckpoint, type StoredCheckpoint } from '../store/checkpoints.ts';
import { putCosignature, readLastCosigned, wentBack } from '../store/cosignatures.ts';
import { readRanges } from '../store/tree.ts';
import { askWitness, NoAnswer, type WitnessAnswer } from '../witness/ask_witness.ts';

export type CosignOutcome =
  | { readonly kind: 'cosigned'; readonly size: number }
  /** Another process has signed a newer checkpoint. */
  | { readonly kind: 'outrun' }
  | { readonly kind: 'forked' | 'failed'; readonly reason: string };

type Asked = {
  readonly db: Db;
  readonly key: VerifierKey;
  readonly url: string;
  readonly checkpoint: StoredCheckpoint;
  readonly stopping: AbortSignal;
};

/** An honest witness gives its size once; a second time, if another process asked it in between. */
const MOST_ASKS = 3;

/** `known`: the size that the witness probably cosigned last. */
export async function cosign(asked: Asked, known: number): Promise<CosignOutcome> {
  const { checkpoint, url, stopping } = asked;
  let old = Math.min(known, checkpoint.size);
  let damage: DamagedTree | null = null;
  try {
    // Before it is asked: another process may have led it on since it answered.
    const last = await readLastCosigned(asked.db, checkpoint.origin, asked.key);
    for (let ask = 0; ask < MOST_ASKS; ask++) {
      const proof: Buffer[] = await checkedProof(asked.db, old, checkpoint).catch((error) => {
        if (!(error instanceof DamagedTree) || damage) throw error;
        damage = error;
        // It may have a larger tree. To ask for that needs no proof.
        old = checkpoint.size;
        return [];
      });
      const answer = await askWitness(url, additionText(old, proof, checkpoint.note), stopping);
      if (answer.status === WITNESS_STATUS.cosigned) return await keep(asked, answer);
      if (answer.status === WITNESS_STATUS.not_proven)
        return forked(`does not begin with its tree of ${old} events`);
      if (answer.status !== WITNESS_STATUS.other_size)
        return failed(`it answered ${answer.status}: ${shown(answer.body)}`);
      const size = answer.type === SIZE_TYPE ? parseSize(answer.body) : null;
      if (size === null) return failed(`it answered 409 without a size: ${shown(answer.body)}`);
      const lost = wentBack(last, checkpoint.origin, asked.key, size);
      if (lost !== null) return failed(lost);
      if (size > checkpoint.size) return await larger(asked, size);
      if (size === old) {
        return size === checkpoint.size
          ? forked(`is not its tree of ${size} events`)
          : failed(`it answered 409 with the size that it was sent, ${size}`);
      }
      old = size;
    }
    return failed('it answers with another size each time');
  } catch (error) {
    if (error instanceof NoAnswer || error instanceof DamagedTree) return failed(error.message);
    throw error;
  }
}

const failed = (reason: string): CosignOutcome => ({ kind: 'failed', reason });
const forked = (how: string): CosignOutcome => ({ kind: 'forked', reason: `our tree ${how}` });

/** The first line of what a stranger wrote, without control characters. */
const shown = (body: string) => printable(JSON.stringify(body.split('\n')[0]!.slice(0, 100)));

/** Throws DamagedTree unless the tiles lead to the root of the checkpoint. */
async function checkedProof(
  db: Db,
  old: number,
  { size, root }: StoredCheckpoint,
): Promise<Buffer[]> {
  const [before, now] = [
    { from: 0, to: old },
    { from: 0, to: size },
  ];
  const tiles = await readRanges(db, [...consistencyRanges(old, size), before, now]);
  const proof = tiles.consistencyProof(old, size);
  const claim = { old_size: old, old_root: tiles.rootOf(before), size, root, proof };
  if (!tiles.rootOf(now).equals(root) || !provesConsistency(claim))
    throw new DamagedTree(`our tiles do not give the root of ${size} events`);
  return proof;
}

async function keep(asked: Asked, answer: WitnessAnswer): Promise<CosignOutcome> {
  const { db, key, checkpoint } = asked;
  const cosignature = cosignatureIn(checkpoint, key, answer);
  if (!cosignature) return failed(`its answer has no signature by ${key.name} on our checkpoint`);
  const wrong = clockProblem(cosignedAt(cosignature).getTime(), checkpoint, await databaseTime(db));
  if (wrong !== null) return failed(wrong);
  // Of the empty tree there is nothing to prove, and no checkpoint in the database.
  if (checkpoint.size > 0) await putCosignature(db, checkpoint, key, cosignature);
  return { kind: 'cosigned', size: checkpoint.size };
}

/** The database's clock counts beside ours: verify compares the witness's with the times of events. */
function clockProblem(
  signed_ms: number,
  { sealed_at }: StoredCheckpoint,
  database_ms: number,
): string | null {
  const now = Date.now();
  if (!(Math.abs(signed_ms - now) <= CLOCKS_APART_MS))
    return `its clock is ${apartText(signed_ms, now)} ours`;
  if (!(Math.abs(signed_ms - database_ms) <= CLOCKS_APART_MS))
    return `its clock is ${apartText(signed_ms, database_ms)} the database's`;
  const made = sealed_at.getTime();
  // It may sign a checkpoint long after it was made.
  return made - signed_ms <= CLOCKS_APART_MS
    ? null
    : `its clock is ${apartText(signed_ms, made)} the time of our checkpoint`;
}

function cosignatureIn(
  { note }: StoredCheckpoint,
  key: VerifierKey,
  { body }: WitnessAnswer,
): NoteSignature | null {
  try {
    return cosignedNote(parseNote(note).text, body, key)?.signatures[0] ?? null;
  } catch (error) {
    if (error instanceof BadNote) return null;
    throw error;
  }
}

/** A checkpoint is stored before a witness sees it. So a tree that is larger than the newest one now is not ours. */
async function larger({ db, checkpoint }: Asked, size: number): Promise<CosignOutcome> {
  const newest = await lastCheckpoint(db);
  if (newest?.origin === checkpoint.origin && newest.size >= size) return { kind: 'outrun' };
  return forked(`has ${newest?.size ?? 0} events, and it has cosigned one of ${size}`);
}
