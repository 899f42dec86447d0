/**
 * The form of a secret: `<prefix>_<kind>_<30 random base62 characters><6 of CRC-32>`. The checksum lets scanners for leaked
 * secrets tell one from noise, and lets the API reject a mistyped one without the database.
 */
import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_LENGTH = 30;
const CHECK_LENGTH = 6;

/** live: the API key of an account. operator: a key to the console. */
export type SecretKind = 'live' | 'operator';

/** Makes a new secret. 30 base62 characters from the CSPRNG hold 178 bits. */
export function newSecret(prefix: string, kind: SecretKind = 'live'): string {
  const head = `${prefix}_${kind}_`;
  const random = Array.from({ length: RANDOM_LENGTH }, () => ALPHABET[randomInt(62)]).join('');
  return head + random + checksum(head + random);
}

/** Whether newSecret could have made it. A request with any other text never reaches the database. */
export function isWellFormed(
  presented: string,
  prefix: string,
  kind: SecretKind = 'live',
): boolean {
  const head = `${prefix}_${kind}_`;
  const length = head.length + RANDOM_LENGTH + CHECK_LENGTH;
  if (presented.length !== length || !presented.startsWith(head)) return false;
  const body = presented.slice(head.length);
  if (!/^[0-9A-Za-z]+$/.test(body)) return false;
  return checksum(presented.slice(0, -CHECK_LENGTH)) === presented.slice(-CHECK_LENGTH);
}

/** The digest of a presented secret of the kind; null if newSecret cannot have made it. */
export function presentedSecret(presented: string, kind: SecretKind): Uint8Array | null {
  // A secret keeps the prefix with which it was made, whatever is configured today.
  const prefix = /^([a-z][a-z0-9]{0,15})_/.exec(presented)?.[1];
  if (prefix === undefined || !isWellFormed(presented, prefix, kind)) return null;
  return secretDigest(presented);
}

/** The digest that is stored and looked up. The secret itself is shown once and stored nowhere. */
export const secretDigest = (secret: string): Uint8Array => hash('sha256', secret, 'buffer');

function checksum(text: string): string {
  let rest = crc32(text);
  let out = '';
  for (let n = 0; n < CHECK_LENGTH; n++) {
    out = ALPHABET[rest % 62] + out;
    rest = Math.floor(rest / 62);
  }
  return out;
}
