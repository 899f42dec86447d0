/**
 * Signed notes (c2sp.org/signed-note): a text, an empty line, and lines with signatures. And the two kinds of keys that we
 * use, as text: a verifier key is NAME+ID+KEY, where ID is eight hex digits of SHA-256(NAME ‖ \n ‖ type ‖ public key), and
 * KEY is the base64 of the type and the public key.
 *
 *   type 1   a log's Ed25519 signature over the text
 *   type 4   a witness's cosignature: a time, and an Ed25519 signature over that time and the text (cosignature/v1)
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { sha256 } from './merkle.ts';

export const LOG_KEY = 1;
export const WITNESS_KEY = 4;
export type KeyType = typeof LOG_KEY | typeof WITNESS_KEY;

export type VerifierKey = {
  readonly name: string;
  /** Eight hex digits. */
  readonly id: string;
  readonly type: KeyType;
  readonly public_key: Buffer;
};

export type NoteSignature = { readonly name: string; readonly id: string; readonly bytes: Buffer };
export type Note = { readonly text: string; readonly signatures: readonly NoteSignature[] };

/** What a note may have at most. The specification asks for room for 16 signatures. */
const MOST_SIGNATURES = 64;
export const MOST_NOTE_BYTES = 64 * 1024;

/** PKCS #8 and SPKI around the 32 bytes of an Ed25519 key (RFC 8410). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI = Buffer.from('302a300506032b6570032100', 'hex');
const KEY_BYTES = 32;

/** Not empty, no space, no plus sign, no control character. */
const NAME = /^[^\s+\p{Cc}]+$/u;
export const isKeyName = (name: string): boolean => NAME.test(name);

export class BadNote extends Error {}

export function verifierKey(name: string, type: KeyType, public_key: Uint8Array): VerifierKey {
  if (!isKeyName(name)) throw new BadNote(`'${name}' cannot be a key's name`);
  const id = sha256(Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(type), public_key]));
  return { name, type, id: id.toString('hex', 0, 4), public_key: Buffer.from(public_key) };
}

export const keyText = ({ name, id, type, public_key }: VerifierKey): string =>
  `${name}+${id}+${Buffer.concat([Buffer.of(type), public_key]).toString('base64')}`;

export function parseKey(text: string): VerifierKey {
  const [, name, id, encoded] = /^([^+]*)\+([0-9a-f]{8})\+([^\s]*)$/.exec(text) ?? [];
  const bytes = encoded === undefined ? null : decode(encoded);
  const type = bytes?.[0];
  if (
    !name ||
    !bytes ||
    bytes.length !== 1 + KEY_BYTES ||
    (type !== LOG_KEY && type !== WITNESS_KEY)
  )
    throw new BadNote(`'${text}' is not a verifier key: NAME+ID+KEY for Ed25519`);
  const key = verifierKey(name, type, bytes.subarray(1));
  if (key.id !== id) throw new BadNote(`the verifier key '${text}' has the id of another key`);
  return key;
}

/** Strict base64: what it gives encodes to the same text. */
export function decode(base64: string): Buffer | null {
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? bytes : null;
}

export function parseNote(note: string): Note {
  if (Buffer.byteLength(note) > MOST_NOTE_BYTES) throw new BadNote('the note is too long');
  // Half a surrogate pair would be signed, and hashed, as another character.
  if (!note.isWellFormed()) throw new BadNote('the note is not Unicode');
  if (/[^\n\P{Cc}]/u.test(note)) throw new BadNote('the note has control characters');
  const end = note.lastIndexOf('\n\n');
  if (end < 0 || !note.endsWith('\n')) throw new BadNote('the note has no signatures');
  const lines = note.slice(end + 2, -1).split('\n');
  if (lines.length > MOST_SIGNATURES) throw new BadNote('the note has too many signatures');
  return { text: note.slice(0, end + 1), signatures: lines.map(parseSignature) };
}

export function parseSignature(line: string): NoteSignature {
  const [, name, encoded] = /^— ([^\s+]+) ([^\s]+)$/u.exec(line) ?? [];
  const bytes = encoded === undefined ? null : decode(encoded);
  if (!name || !bytes || bytes.length < 5)
    throw new BadNote('the note has a malformed signature line');
  return { name, id: bytes.toString('hex', 0, 4), bytes: bytes.subarray(4) };
}

export const signatureLine = ({ name, id, bytes }: NoteSignature): string =>
  `— ${name} ${Buffer.concat([Buffer.from(id, 'hex'), bytes]).toString('base64')}\n`;

export const noteText = ({ text, signatures }: Note): string =>
  `${text}\n${signatures.map(signatureLine).join('')}`;

/** Signs texts of notes. `seed`: the 32 bytes of an Ed25519 private key. */
export class NoteSigner {
  readonly verifier: VerifierKey;
  readonly #key: KeyObject;

  constructor(name: string, type: KeyType, seed: Uint8Array) {
    const der = Buffer.concat([PKCS8, seed]);
    this.#key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
    const spki = createPublicKey(this.#key).export({ format: 'der', type: 'spki' });
    this.verifier = verifierKey(name, type, spki.subarray(SPKI.length));
  }

  /** `seconds`: the time of a cosignature. */
  sign(text: string, seconds = Math.floor(Date.now() / 1000)): NoteSignature {
    const { name, id, type } = this.verifier;
    const raw = sign(null, signedBytes(type, text, seconds), this.#key);
    const bytes = type === LOG_KEY ? raw : Buffer.concat([secondsBytes(seconds), raw]);
    return { name, id, bytes };
  }
}

/** The first signature by this key, if it verifies; false if there is one that does not; null if there is none. */
export function signatureBy(note: Note, key: VerifierKey): NoteSignature | false | null {
  const claimed = note.signatures.filter((each) => isKeyOf(each, key));
  if (claimed.length === 0) return null;
  return claimed.every((each) => isSignatureOf(key, note.text, each)) ? claimed[0]! : false;
}

/** Whether the signature says that it is of this key. */
export const isKeyOf = ({ name, id }: NoteSignature, key: VerifierKey): boolean =>
  name === key.name && id === key.id;

export function isSignatureOf(
  key: VerifierKey,
  text: string,
  { bytes }: Pick<NoteSignature, 'bytes'>,
): boolean {
  const cosigned = key.type === WITNESS_KEY;
  if (bytes.length !== (cosigned ? 8 : 0) + 64) return false;
  if (cosigned && bytes.readBigUInt64BE() > BigInt(Number.MAX_SAFE_INTEGER)) return false;
  const message = signedBytes(key.type, text, cosigned ? secondsOf(bytes) : 0);
  return verify(null, message, publicKeyOf(key), cosigned ? bytes.subarray(8) : bytes);
}

/** When a witness signed, by its clock. */
export const cosignedAt = ({ bytes }: NoteSignature): Date => new Date(secondsOf(bytes) * 1000);

const secondsOf = (bytes: Buffer) => Number(bytes.readBigUInt64BE());

function secondsBytes(seconds: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(seconds));
  return bytes;
}

const signedBytes = (type: KeyType, text: string, seconds: number) =>
  Buffer.from(type === LOG_KEY ? text : `cosignature/v1\ntime ${seconds}\n${text}`);

function publicKeyOf({ public_key }: VerifierKey): KeyObject {
  return createPublicKey({ key: Buffer.concat([SPKI, public_key]), format: 'der', type: 'spki' });
}
