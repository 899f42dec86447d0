/**
 * A log's request to a witness (add-checkpoint of c2sp.org/tlog-witness), and the rules by which a witness decides it: the
 * size that the log believes the witness has, a consistency proof from there, and the signed checkpoint.
 *
 * A witness cosigns a tree only if it begins with the tree that it cosigned last. So of two trees that disagree it never
 * cosigns both, as long as it decides about one request of an origin at a time, and stores its decision before it answers.
 */
import { type Checkpoint, parseCheckpoint } from './checkpoint.ts';
import { EMPTY_ROOT, HASH_BYTES, provesConsistency } from './merkle.ts';
import { BadNote, decode, type Note, parseNote, signatureBy, type VerifierKey } from './note.ts';

export const WITNESS_STATUS = {
  cosigned: 200,
  malformed: 400,
  not_signed: 403,
  unknown_origin: 404,
  other_size: 409,
  not_proven: 422,
} as const;

/** The Content-Type of the answer 409: its body is the size of the tree that the witness cosigned last. */
export const SIZE_TYPE = 'text/x.tlog.size';

const MOST_HASHES = 63;
/** The longest note that parseNote accepts, and room for the lines above it. */
export const MOST_ADDITION_BYTES = 80 * 1024;

export type Addition = {
  readonly old_size: number;
  readonly proof: readonly Buffer[];
  readonly note: Note;
  readonly checkpoint: Checkpoint;
};

export type Rejection = {
  readonly status: Exclude<(typeof WITNESS_STATUS)[keyof typeof WITNESS_STATUS], 200>;
  readonly problem: string;
};

/** The tree that a witness cosigned last. */
export type Witnessed = { readonly size: number; readonly root: Buffer };
/** Every tree begins with the empty one. */
export const NOTHING_YET: Witnessed = { size: 0, root: EMPTY_ROOT };

export function additionText(
  old_size: number,
  proof: readonly Uint8Array[],
  signed_note: string,
): string {
  const lines = proof.map((hash) => `${Buffer.from(hash).toString('base64')}\n`);
  return `old ${old_size}\n${lines.join('')}\n${signed_note}`;
}

/** Throws BadNote for anything that is no request. */
export function parseAddition(bytes: Uint8Array): Addition {
  const body = textOf(bytes);
  const end = body.indexOf('\n\n');
  const [first, ...lines] = body.slice(0, Math.max(end, 0)).split('\n');
  const old_size = sizeOf(/^old (.*)$/.exec(first ?? '')?.[1]);
  if (old_size === null) throw new BadNote("the first line is not 'old' and a size");
  const proof = lines.map(decode);
  if (proof.length > MOST_HASHES || proof.some((hash) => hash?.length !== HASH_BYTES))
    throw new BadNote(`a proof has at most ${MOST_HASHES} lines, each with one hash`);
  const note = parseNote(body.slice(end + 2));
  return { old_size, proof: proof as Buffer[], note, checkpoint: parseCheckpoint(note.text) };
}

/** The size in an answer 409; null if there is none. */
export const parseSize = (body: string): number | null => sizeOf(/^(.*)\n$/.exec(body)?.[1]);

function sizeOf(word: string | undefined): number | null {
  const size = /^(0|[1-9][0-9]{0,15})$/.test(word ?? '') ? Number(word) : null;
  return Number.isSafeInteger(size) ? size : null;
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new BadNote('the request is not UTF-8');
  }
}

/**
 * Why a witness that knows these keys rejects the request, whatever it cosigned before. A signature that claims one of the
 * keys and does not verify spoils the note; signatures of other keys are ignored.
 */
export function rejectionOf(
  { note, checkpoint, old_size }: Addition,
  keys: readonly VerifierKey[],
): Rejection | null {
  const own = keys.filter(({ name }) => name === checkpoint.origin);
  if (own.length === 0)
    return { status: WITNESS_STATUS.unknown_origin, problem: 'the origin is not known here' };
  const signed = own.map((key) => signatureBy(note, key));
  if (signed.includes(false) || signed.every((each) => each === null))
    return { status: WITNESS_STATUS.not_signed, problem: 'no key of the log has signed it' };
  if (old_size > checkpoint.size)
    return { status: WITNESS_STATUS.malformed, problem: 'the old size is over the new size' };
  return null;
}

/** Why a witness that cosigned `last` does not cosign this; null if it does. */
export function conflictOf(addition: Addition, last: Witnessed): Rejection | null {
  const { old_size, proof, checkpoint } = addition;
  if (old_size !== last.size)
    return { status: WITNESS_STATUS.other_size, problem: 'the old size is another' };
  if (checkpoint.size === last.size && !checkpoint.root.equals(last.root))
    return { status: WITNESS_STATUS.other_size, problem: 'another tree of this size is cosigned' };
  const { size, root } = checkpoint;
  if (!provesConsistency({ old_size, old_root: last.root, size, root, proof }))
    return { status: WITNESS_STATUS.not_proven, problem: 'a proof that does not fit' };
  return null;
}

/** The note with the cosignature that a witness answered; null unless one by this key verifies. */
export function cosignedNote(text: string, answer: string, key: VerifierKey): Note | null {
  const note = parseNote(`${text}\n${answer}`);
  // With an empty line in it, the answer would move the end of the text: a signature of another one.
  const cosignature = note.text === text && signatureBy(note, key);
  return cosignature ? { text, signatures: [cosignature] } : null;
}
