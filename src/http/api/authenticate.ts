/** The key of a request, as far as it can be checked without the database. */
import type { IncomingMessage } from 'node:http';
import { presentedSecret } from '../../access/secret.ts';

/**
 * The digest of the key that the request presents. Null when there is no key, when its checksum is wrong, so that no such
 * key can exist, or when there are two keys (Node joins them, and the checksum of the whole is wrong).
 */
export function presentedDigest(req: IncomingMessage): Uint8Array | null {
  const presented = req.headers['x-api-key'];
  if (typeof presented !== 'string') return null;
  return presentedSecret(presented, 'live');
}
