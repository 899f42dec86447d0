/**
 * Asks each witness of a policy whether it has signed the same tree. The question is c2sp.org/tlog-witness's own: a checkpoint
 * that extends nothing. A witness that has signed this tree signs it again (200). Another one names the size of the tree that it
 * has signed (409), and is then asked with our checkpoint of that size. So no question moves a witness on, not even to the tree
 * of a copy that has gone its own way; and a database that was rolled back is shown also where it has grown again since.
 *
 * Another computer on the way to a witness can answer in its place. So only a cosignature of now says that it has our tree: an
 * old one could be sent again, with the tree that it is of. A size comes without a signature. What contradicts the log is
 * therefore reported as what the witness says, and a size below that of a tree that it has signed is no answer.
 */
import type { Db } from '../db.ts';
import { apartText, CLOCKS_APART_MS } from '../domain/clocks.ts';
import { additionText, cosignedNote, parseSize, WITNESS_STATUS } from '../proof/addition.ts';
import { parseCheckpoint } from '../proof/checkpoint.ts';
import { consistencyRanges, provesConsistency } from '../proof/merkle.ts';
import { BadNote, cosignedAt, parseNote } from '../proof/note.ts';
import { judgeCheckpoint, NONE, type Policy } from '../proof/policy.ts';
import { DamagedTree } from '../proof/tiles.ts';
import { wentBack } from '../store/cosignatures.ts';
import { isInRecovery } from '../store/recovery.ts';
import { lastCosigned, noteOfSize, readStoredTiles } from '../store/stored_tree.ts';
import { VerifyEnded } from '../store/verify.ts';
import { readNow } from '../store/verify_session.ts';
import { askWitness, NoAnswer } from '../witness/ask_witness.ts';

export type Asked = {
  readonly problems: readonly string[];
  readonly unanswered: readonly string[];
};

type Witness = Policy['witnesses'][number];
type Signed = {
  readonly note: string;
  readonly origin: string;
  readonly size: number;
  readonly root: Buffer;
};

/** Two are enough, unless the witness signs larger trees between them. */
const MOST_ASKS = 6;

/**
 * `newest`: the newest checkpoint of the log, as it was verified; `earlier`: those of names that it had before. Who has the log's
 * key could go back to an early one of these, and go on under the later name, of which a witness has seen nothing else.
 * Throws VerifyEnded, with what was found, if the database cannot be read any more.
 */
export async function askWitnesses(
  db: Db,
  policy: Policy | null,
  newest: { readonly note: string } | null,
  earlier: readonly { readonly note: string }[] = [],
): Promise<Asked> {
  const problems: string[] = [];
  const unanswered: string[] = [];
  const given = newest ? [newest, ...earlier] : [];
  const verified = given.map(({ note }) => signedOf(note)).filter((each) => each !== null);
  let ended: unknown;
  const askOne = async (witness: Witness, url: string, of: Signed) => {
    try {
      const problem = await ask(db, policy!, witness, url, of);
      if (problem !== null) problems.push(problem);
    } catch (error) {
      if (!(error instanceof NoAnswer)) {
        ended ??= error;
        return;
      }
      const about = verified.length > 1 ? `, asked about ${of.origin}` : '';
      unanswered.push(`witness ${witness.name} (${url})${about}: ${error.message}`);
    }
  };
  await Promise.all(
    (policy?.witnesses ?? []).map(async (witness) => {
      if (witness.url) for (const each of verified) await askOne(witness, witness.url, each);
    }),
  );
  if (ended !== undefined) throw VerifyEnded.by(ended as Error, problems);
  return { problems, unanswered };
}

/** What is wrong with the log, by what the witness says; null: it has signed our tree, or none. Throws NoAnswer. */
async function ask(
  db: Db,
  policy: Policy,
  { name, key }: Witness,
  url: string,
  verified: Signed,
): Promise<string | null> {
  const { signal } = new AbortController();
  let ours = verified;
  /** Why its answer does not count. Another tree of the same size is reported instead. */
  let lost: string | null = null;
  const last = await readNow(db, (tx) => lastCosigned(tx, verified.origin, key));
  for (let count = 0; count < MOST_ASKS; count++) {
    const addition = additionText(ours.size, [], ours.note);
    const answer = await askWitness(url.replace(/\/$/, ''), addition, signal);
    if (answer.status === WITNESS_STATUS.cosigned) {
      checkCosigned(ours.note, answer.body, key);
      return wellUnless(lost);
    }
    const size = answer.status === WITNESS_STATUS.other_size ? parseSize(answer.body) : null;
    if (size === null) throw new NoAnswer(`it answered ${answer.status}`);
    lost ??= wentBack(last, verified.origin, key, size);
    if (size === 0) return wellUnless(lost);
    if (size === ours.size)
      return `the log was rolled back or forked: witness ${name} says that it has signed another tree of ${size} events`;
    const other = await checkpointOf(db, policy, size, verified);
    if (other === null && lost !== null) return wellUnless(lost);
    if (other === null && size > verified.size && (await isInRecovery(db)))
      throw new NoAnswer(
        `it says that it has signed a tree of ${size} events, and this standby has none of that size yet`,
      );
    if (other === null)
      return `the log was rolled back or forked: witness ${name} says that it has signed a tree of ${size} events, and the log has no checkpoint of that size that fits`;
    ours = other;
  }
  throw new NoAnswer('it answers with another size each time');
}

function wellUnless(lost: string | null): null {
  if (lost !== null) throw new NoAnswer(lost);
  return null;
}

/** Our checkpoint of this size, if it is of the same log as the one that was verified. The log may have grown since. */
async function checkpointOf(
  db: Db,
  policy: Policy,
  size: number,
  verified: Signed,
): Promise<Signed | null> {
  const note = await readNow(db, (tx) => noteOfSize(tx, verified.origin, size));
  const found = note === null ? null : signedOf(note);
  if (found?.size !== size || found.origin !== verified.origin) return null;
  const [old, grown] = size < verified.size ? [found, verified] : [verified, found];
  const proof = await proofOf(db, old.size, grown.size);
  const claim = { old_size: old.size, old_root: old.root, size: grown.size, root: grown.root };
  const { problem } = judgeCheckpoint({ ...policy, quorum: NONE }, parseNote(found.note));
  const fits = proof !== null && provesConsistency({ ...claim, proof });
  return problem === null && fits ? found : null;
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
  return orNull(() => {
    const { origin, size, root } = parseCheckpoint(parseNote(note).text);
    return { note, origin, size, root };
  });
}

/** Throws NoAnswer unless the witness has signed this tree just now. */
function checkCosigned(note: string, answer: string, key: Witness['key']): void {
  const cosigned = orNull(() => cosignedNote(parseNote(note).text, answer, key));
  if (!cosigned) throw new NoAnswer('its answer has no signature of its own');
  const signed_ms = cosignedAt(cosigned.signatures[0]!).getTime();
  const now_ms = Date.now();
  if (!(Math.abs(signed_ms - now_ms) <= CLOCKS_APART_MS))
    throw new NoAnswer(
      `the time of its signature is ${apartText(signed_ms, now_ms)} the clock of this machine: it may be an old one that somebody sent again`,
    );
}

function orNull<T>(work: () => T): T | null {
  try {
    return work();
  } catch (error) {
    if (error instanceof BadNote) return null;
    throw error;
  }
}
