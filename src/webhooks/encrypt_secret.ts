/**
 * Encrypts webhook secrets for storage: AES-256-GCM, with a key that is never in the database.
 *
 * What must stay true:
 * - The first configured key encrypts, and every configured key decrypts. To rotate, put a new key
 *   first and keep the old one after it until no delivery that it encrypted is open.
 * - The submission's id is authenticated together with the secret. An encrypted secret cannot be
 *   used for another submission, because copied to another row it does not decrypt.
 * - Each secret has its own random 96-bit nonce: NIST SP 800-38D allows 2^32 of them under one key.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** `bytes` is 32 bytes, which the configuration has checked. */
export type EncryptionKey = { readonly id: string; readonly bytes: Uint8Array };
export type EncryptionKeys = readonly EncryptionKey[];

/** `ciphertext` ends with the 16 bytes of the authentication tag. */
export type EncryptedSecret = { key_id: string; nonce: Uint8Array; ciphertext: Uint8Array };

export type DecryptedSecret =
  | { kind: 'decrypted'; secret: string }
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
  cipher.setAAD(authenticatedId(submissionId));
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
): DecryptedSecret {
  const key = keys.find(({ id }) => id === encrypted.key_id);
  if (key === undefined) return { kind: 'key_missing', key_id: encrypted.key_id };
  try {
    return { kind: 'decrypted', secret: decipher(key, submissionId, encrypted) };
  } catch {
    // A wrong tag, a text that is too short and another submission's row all count as damage.
    return { kind: 'damaged', key_id: encrypted.key_id };
  }
}

function decipher(key: EncryptionKey, submissionId: string, encrypted: EncryptedSecret): string {
  const end = encrypted.ciphertext.length - TAG_BYTES;
  const cipher = createDecipheriv('aes-256-gcm', key.bytes, encrypted.nonce, {
    authTagLength: TAG_BYTES,
  });
  cipher.setAAD(authenticatedId(submissionId));
  cipher.setAuthTag(encrypted.ciphertext.subarray(end));
  return Buffer.concat([
    cipher.update(encrypted.ciphertext.subarray(0, end)),
    cipher.final(),
  ]).toString('utf8');
}

/** Lower case, so that every spelling of a UUID is the same submission. */
function authenticatedId(submissionId: string): Buffer {
  return Buffer.from(submissionId.toLowerCase(), 'utf8');
}
