/** The form of a webhook's secret that the public libraries of Standard Webhooks make: its key as base64. */
export const ENCODED_PREFIX = 'whsec_';

/** Bounds of what a submission says of its webhook. */
export const URL_LIMIT_BYTES = 2_048;
export const SECRET_LIMIT_BYTES = 256;

/** Groups of four. The last may be without its padding, which some libraries need: a receiver chooses what its own reads. */
const ENCODED =
  /^whsec_((?:[A-Za-z0-9+/]{4})+|(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?))$/;

/** For JSON Schema: any text that does not begin with the prefix, or base64 after it. */
export const SECRET_PATTERN = `^(?!${ENCODED_PREFIX})|${ENCODED.source}`;

/** The key that such a secret encodes; null for another text. */
export function decodedKey(secret: string): Buffer | null {
  const encoded = ENCODED.exec(secret)?.[1];
  return encoded === undefined ? null : Buffer.from(encoded, 'base64');
}

/** A secret that looks encoded and is not would be taken for a text here, and for a key by the libraries. */
export const isSecret = (text: string): boolean =>
  !text.startsWith(ENCODED_PREFIX) || decodedKey(text) !== null;
