/** Who calls, as far as it can be told without asking the database. */
import type { IncomingMessage } from 'node:http';
import { isWellFormed, secretDigest } from '../access/secret.ts';

/**
 * The digest of the key that the request presents; null when there is none, when it could never
 * have been made (its checksum tells), or when there are two (Node joins them, and then it could
 * not have been made either).
 */
export function presentedDigest(req: IncomingMessage): Uint8Array | null {
  const presented = req.headers['x-api-key'];
  if (typeof presented !== 'string') return null;
  // Keys keep the prefix that they were made with, whatever is configured today.
  const prefix = /^([a-z][a-z0-9]{0,15})_live_/.exec(presented)?.[1];
  if (prefix === undefined || !isWellFormed(presented, prefix)) return null;
  return secretDigest(presented);
}
