/**
 * The key with which this installation signs checkpoints, and the log's name. The name of the key is the name of the log, so
 * the earlier keys of a log, and its earlier names, are verifier keys.
 */
import type { Checkpoint } from './checkpoint.ts';
import { sha256 } from './merkle.ts';
import {
  isSignatureOf,
  LOG_KEY,
  type Note,
  NoteSigner,
  signatureBy,
  type VerifierKey,
} from './note.ts';

export type LogKey = {
  readonly origin: string;
  readonly signer: NoteSigner;
  /** Keys that signed checkpoints of this log before. What they signed is still ours. */
  readonly before: readonly VerifierKey[];
};

export function createLogKey(
  seed: Uint8Array,
  origin: string | null = null,
  before: readonly VerifierKey[] = [],
): LogKey {
  const name = origin ?? defaultOrigin(seed);
  return { origin: name, signer: new NoteSigner(name, LOG_KEY, seed), before };
}

/** Unique without configuration: it is made of the public key. */
function defaultOrigin(seed: Uint8Array): string {
  const { public_key } = new NoteSigner('any', LOG_KEY, seed).verifier;
  return `runledger/${sha256(public_key).toString('hex', 0, 8)}`;
}

/** Our key, and the earlier ones. */
export const verifierKeys = ({ signer, before }: LogKey): VerifierKey[] => [
  signer.verifier,
  ...before.filter(({ name, id }) => name !== signer.verifier.name || id !== signer.verifier.id),
];

/** Whether one of our keys signed this note under the name that its first line has. */
export function isOurs(key: LogKey, note: Note): boolean {
  const origin = note.text.slice(0, note.text.indexOf('\n'));
  return verifierKeys(key).some((each) => each.name === origin && signatureBy(note, each));
}

/** What the key signs for a sketch (src/domain/sketch.ts) of a checkpoint's leaves. */
export const sketchText = (
  { origin, size }: Pick<Checkpoint, 'origin' | 'size'>,
  cells: Uint8Array,
) => `runledger sketch 1\n${origin}\n${size}\n${sha256(cells).toString('hex')}\n`;

export const isSketchOf = (
  keys: readonly VerifierKey[],
  checkpoint: Pick<Checkpoint, 'origin' | 'size'>,
  cells: Uint8Array,
  signature: Buffer,
): boolean =>
  keys.some(
    (key) =>
      key.name === checkpoint.origin &&
      isSignatureOf(key, sketchText(checkpoint, cells), { bytes: signature }),
  );
