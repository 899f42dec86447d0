/**
 * Webhook secrets at rest: AES-256-GCM under a key that the database never sees.
 *
 * - The first configured key seals, every configured key opens. To rotate: put a new key first,
 *   leave the old one behind it until no delivery is open that was sealed with it.
 * - The submission's id is authenticated with the secret, so a sealed secret that is copied to
 *   another submission's row does not open there.
 * - A random 96-bit nonce per secret: NIST SP 800-38D allows 2^32 of them under one key.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** 32 bytes each, as the configuration parsed them. */
export type SealKey = { readonly id: string; readonly bytes: Uint8Array };
export type SealKeys = readonly SealKey[];

/** `ciphertext` ends with the 16 bytes of the authentication tag. */
export type SealedSecret = { key_id: string; nonce: Uint8Array; ciphertext: Uint8Array };

export type OpenedSecret =
  | { kind: 'opened'; secret: string }
  | { kind: 'key_missing'; key_id: string }
  | { kind: 'damaged'; key_id: string };

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export function sealSecret(keys: SealKeys, submissionId: string, secret: string): SealedSecret {
  const [key] = keys;
  if (key === undefined)
    throw new Error('no key to seal webhook secrets with: set RUNLEDGER_WEBHOOK_KEYS');
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.bytes, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(boundTo(submissionId));
  const ciphertext = Buffer.concat([
    cipher.update(secret, 'utf8'),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
  return { key_id: key.id, nonce, ciphertext };
}

export function openSecret(
  keys: SealKeys,
  submissionId: string,
  sealed: SealedSecret,
): OpenedSecret {
  const key = keys.find(({ id }) => id === sealed.key_id);
  if (key === undefined) return { kind: 'key_missing', key_id: sealed.key_id };
  try {
    return { kind: 'opened', secret: decipher(key, submissionId, sealed) };
  } catch {
    // The reason is not told apart: a wrong tag, a short text and a foreign row are all damage.
    return { kind: 'damaged', key_id: sealed.key_id };
  }
}

function decipher(key: SealKey, submissionId: string, sealed: SealedSecret): string {
  const end = sealed.ciphertext.length - TAG_BYTES;
  const opening = createDecipheriv('aes-256-gcm', key.bytes, sealed.nonce, {
    authTagLength: TAG_BYTES,
  });
  opening.setAAD(boundTo(submissionId));
  opening.setAuthTag(sealed.ciphertext.subarray(end));
  return Buffer.concat([
    opening.update(sealed.ciphertext.subarray(0, end)),
    opening.final(),
  ]).toString('utf8');
}

/** One spelling of a UUID, so that upper and lower case are the same submission. */
function boundTo(submissionId: string): Buffer {
  return Buffer.from(submissionId.toLowerCase(), 'utf8');
}
