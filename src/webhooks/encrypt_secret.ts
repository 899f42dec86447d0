/**
 * Webhook secrets at rest: AES-256-GCM under a key that the database never sees.
 *
 * - The first configured key encrypts, every configured key decrypts. To rotate: put a new key first,
 *   leave the old one behind it until no delivery is open that was encrypted with it.
 * - The submission's id is authenticated with the secret, so a encrypted secret that is copied to
 *   another submission's row does not open there.
 * - A random 96-bit nonce per secret: NIST SP 800-38D allows 2^32 of them under one key.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** 32 bytes each, as the configuration parsed them. */
export type EncryptionKey = { readonly id: string; readonly bytes: Uint8Array };
export type EncryptionKeys = readonly EncryptionKey[];

/** `ciphertext` ends with the 16 bytes of the authentication tag. */
export type EncryptedSecret = { key_id: string; nonce: Uint8Array; ciphertext: Uint8Array };

export type OpenedSecret =
  | { kind: 'opened'; secret: string }
  | { kind: 'key_missing'; key_id: string }
  | { kind: 'damaged'; key_id: string };

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export function encryptSecret(
  keys: EncryptionKeys,
  submissionId: string,
  secret: string,
): EncryptedSecret {
  const [key] = keys;
  if (key === undefined)
    throw new Error('no key to encrypt webhook secrets with: set RUNLEDGER_WEBHOOK_KEYS');
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

export function decryptSecret(
  keys: EncryptionKeys,
  submissionId: string,
  encrypted: EncryptedSecret,
): OpenedSecret {
  const key = keys.find(({ id }) => id === encrypted.key_id);
  if (key === undefined) return { kind: 'key_missing', key_id: encrypted.key_id };
  try {
    return { kind: 'opened', secret: decipher(key, submissionId, encrypted) };
  } catch {
    // The reason is not told apart: a wrong tag, a short text and a foreign row are all damage.
    return { kind: 'damaged', key_id: encrypted.key_id };
  }
}

function decipher(key: EncryptionKey, submissionId: string, encrypted: EncryptedSecret): string {
  const end = encrypted.ciphertext.length - TAG_BYTES;
  const opening = createDecipheriv('aes-256-gcm', key.bytes, encrypted.nonce, {
    authTagLength: TAG_BYTES,
  });
  opening.setAAD(boundTo(submissionId));
  opening.setAuthTag(encrypted.ciphertext.subarray(end));
  return Buffer.concat([
    opening.update(encrypted.ciphertext.subarray(0, end)),
    opening.final(),
  ]).toString('utf8');
}

/** One spelling of a UUID, so that upper and lower case are the same submission. */
function boundTo(submissionId: string): Buffer {
  return Buffer.from(submissionId.toLowerCase(), 'utf8');
}
