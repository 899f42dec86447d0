/** What witnesses said about checkpoints. Nothing here is believed by verify, which checks each signature. */
import type { Db } from '../db.ts';
import { parseCheckpoint } from '../proof/checkpoint.ts';
import {
  BadNote,
  cosignedAt,
  isKeyOf,
  isSignatureOf,
  type NoteSignature,
  parseNote,
  parseSignature,
  signatureBy,
  signatureLine,
  type VerifierKey,
} from '../proof/note.ts';

/** How a witness is named in the database. */
export const witnessName = ({ name, id }: Pick<VerifierKey, 'name' | 'id'>): string =>
  `${name}+${id}`;

/** How far a witness is with the newest checkpoint. */
export type Cosigned = {
  /** Of the largest tree that it cosigned; 0 if there is none. */
  readonly size: number;
  /** The leaves of the newest checkpoint that it has not cosigned. */
  readonly behind: number;
  /** For how long there has been a checkpoint that it has not cosigned; 0 if there is none. */
  readonly behind_s: number;
};

/** What a web process knows of a witness. */
export type WitnessState = {
  readonly name: string;
  /** Null until it is known: at the start, and while there is no checkpoint. */
  readonly cosigned: Cosigned | null;
  /** Why it does not cosign; null if nothing is wrong. */
  readonly problem: string | null;
  /** It has another tree. */
  readonly forked: boolean;
};

/** By the witness's name. It is empty while there is no checkpoint. */
export async function readCosigned(
  db: Db,
  keys: readonly VerifierKey[],
): Promise<Map<string, Cosigned>> {
  const names = JSON.stringify(keys.map(witnessName));
  const rows = await db<{ witness: string; size: string; behind: string; behind_s: number }[]>`
    select * from runledger.cosigned(array(select jsonb_array_elements_text(${names}::text::jsonb)))`;
  return new Map(
    rows.map(({ witness, size, behind, behind_s }) => [
      witness,
      { size: Number(size), behind: Number(behind), behind_s: Math.max(behind_s, 0) },
    ]),
  );
}

/** The checkpoint of the largest tree that, by its row, this witness has cosigned, with its line; null if there is none. */
export async function readLastCosigned(
  db: Db,
  origin: string,
  key: VerifierKey,
): Promise<string | null> {
  const [row] = await db<{ note: string; line: string }[]>`
    select * from runledger.last_cosigned(${origin}, ${witnessName(key)})`;
  return row ? cosignedText(row.note, [row.line], [key]) : null;
}

/**
 * Why the size that a witness named is no answer; null if it can be one. A witness never goes back: `last` is a checkpoint of
 * this log that it had cosigned before it was asked, if it verifies. One that was stored later says nothing about the answer.
 */
export function wentBack(
  last: string | null,
  origin: string,
  key: VerifierKey,
  size: number,
): string | null {
  const signed = last === null ? null : unlessBad(() => parseNote(last));
  if (signed === null || !signatureBy(signed, key)) return null;
  const before = unlessBad(() => parseCheckpoint(signed.text));
  if (before?.origin !== origin || before.size <= size) return null;
  return `it says that it has signed a tree of ${size} events, and has signed one of ${before.size}: it has lost its file and may sign another tree, or somebody answers in its place`;
}

/** A note has at most 64 signatures, and one is the log's. */
export const MOST_COSIGNATURES = 63;

/** The note with what these witnesses said of it, or any, if none is given. */
export const cosignedText = (
  note: string,
  lines: readonly string[],
  witnesses: readonly VerifierKey[],
): string => [note, ...(cosignaturesOf(note, lines, witnesses) ?? []).map(signatureLine)].join('');

/**
 * The lines that are signatures of these witnesses, or of any, if none is given. The rest is left out: one line that is no
 * signature, or does not verify, or is one too many, would spoil the note. Null if the note cannot be read. A login of web can
 * store any line, and any note.
 */
export function cosignaturesOf(
  note: string,
  lines: readonly string[],
  witnesses: readonly VerifierKey[],
): NoteSignature[] | null {
  const text = textOf(note);
  if (text === null) return null;
  return lines
    .map(cosignatureOf)
    .filter((each) => each !== null)
    .filter(
      (each) =>
        witnesses.length === 0 ||
        witnesses.some((key) => isKeyOf(each, key) && isSignatureOf(key, text, each)),
    )
    .slice(0, MOST_COSIGNATURES);
}

const textOf = (note: string) => unlessBad(() => parseNote(note).text);

/** Null for a line that is no signature. */
export const cosignatureOf = (line: string): NoteSignature | null =>
  unlessBad(() => parseSignature(line.trimEnd()));

function unlessBad<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof BadNote) return null;
    throw error;
  }
}

export async function putCosignature(
  db: Db,
  { origin, size }: { origin: string; size: number },
  key: VerifierKey,
  cosignature: NoteSignature,
): Promise<void> {
  const at = cosignedAt(cosignature);
  await db`
    select runledger.put_cosignature(
      ${origin}, ${size}, ${witnessName(key)}, ${at}, ${signatureLine(cosignature)})`;
}
